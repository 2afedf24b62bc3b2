/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Patched TIMELY (Zhu et al., "ECN or Delay", CoNEXT 2016): between the thresholds the rate follows the round
 * trip itself, so that flows have one fixed point and share it:
 *
 *   w = 2 gradient + 1/2, within 0..1; err = (RTT - RTT_ref) / RTT_ref; R = d (1 - w) + R (1 - b w err)
 *
 * From the paper's text, jitupadhye-zz/rdma at e7e9160: conext2016/timely-fixed.tex. All else is timely.h.
 */
#ifndef DCGYM_TIMELY_PATCHED_H
#define DCGYM_TIMELY_PATCHED_H

#define CC_NAME "timely-patched"
#define CC_HELP "TIMELY with one fixed point: follows the round trip, weighted by its gradient"
#define TIMELY_PATCHED

/* clang-format off */
#define CC_PARAMETERS(X) \
	TIMELY_PARAMETERS(X) \
	X(beta, "Q16", 524, 0, 65536, "jitupadhye-zz/rdma: timely-fixed.tex", "b: multiplicative decrease: 0.008") \
	X(rtt_ref, "ns at reference_rtt", 50000, 1, 1u << 30, "jitupadhye-zz/rdma: timely-fixed.tex: T_low", "RTT_ref: what flows settle near")

#define CC_PRESETS(X) \
	X(paper, "the paper's, scaled by reference_rtt") \
	X(absolute, "the same, with its times taken as they are", CC_SET(reference_rtt, 0))
/* clang-format on */

#include "../timely/timely.h"

/* w in Q16. */
static inline uint32_t patched_weight(const uint32_t *state, const struct cc_flow *flow,
				      const uint32_t *parameter)
{
	uint64_t twice = 2ull * timely_steepness(state, flow, parameter);

	if (timely_rises(state))
		return twice < 32768 ? 32768 + (uint32_t)twice : 65536;
	return twice < 32768 ? 32768 - (uint32_t)twice : 0;
}

/* b w |err| in Q24, at most 2^37: err in Q16 has at most 46 bits, kept below 2^30; b w in Q24 at most 2^24.
 */
static inline uint64_t patched_move(const uint32_t *parameter, uint64_t rtt_ns, uint64_t ref_ns,
				    uint32_t weight)
{
	uint64_t error_ns = rtt_ns > ref_ns ? rtt_ns - ref_ns : ref_ns - rtt_ns;
	uint64_t error = ref_ns >> 40 ? 65536 : (error_ns << 16) / (ref_ns ? ref_ns : 1);

	if (error > 1u << 30)
		error = 1u << 30;
	return ((uint64_t)parameter[P_beta] * weight >> 8) * error >> 16;
}

static inline void timely_between(uint32_t *state, const uint32_t *parameter, const struct cc_flow *flow)
{
	uint64_t ref_ns = timely_scaled(parameter[P_rtt_ref], flow, parameter);
	uint32_t weight = patched_weight(state, flow, parameter);
	uint64_t step = 64ull * parameter[P_delta] * (65536 - weight) >> 16;
	uint64_t move = patched_move(parameter, state[TIMELY_RTT], ref_ns, weight);
	uint64_t rate = state[TIMELY_RATE];

	if (move > TIMELY_ONE)
		move = TIMELY_ONE;
	if (state[TIMELY_RTT] > ref_ns)
		rate -= rate * move >> 24;
	else
		rate += rate * move >> 24;
	timely_set(state, parameter, rate + step);
}

#endif
