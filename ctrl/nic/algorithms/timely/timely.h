/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * TIMELY (Mittal et al., SIGCOMM 2015): a rate from round trips and their gradient. Also the frame of its
 * patched form (timely-patched.h), which differs between the thresholds alone.
 *
 *   diff = (1-a) diff + a (RTT - RTT before); gradient = diff / min RTT
 *   RTT < T_low: R += d. RTT > T_high: R *= 1 - b (1 - T_high / RTT). Between them, gradient <= 0: R += N d,
 *   N = 5 from the fifth in a row on, else 1; gradient > 0: R *= 1 - b gradient.
 *
 * One decision a probe, so one a round trip. Thresholds and min RTT are those of a fabric whose base round
 * trip is reference_rtt, and scaled to the flow's own: else a fast fabric would never reach T_low, and a slow
 * one would always be above T_high. The paper's fabric is lossless; loss_cut is what a lossy one asks for.
 * With hai_below raises under T_low are counted, too, so that they become N d as well.
 *
 * Sources. The paper itself was not read. jitupadhye-zz/rdma at e7e9160 has the text of "ECN or Delay"
 * (CoNEXT 2016): conext2016/timely-model.tex (footnote: the values that the paper recommends, for 10 Gbit/s),
 * timely-nofixed.tex, timely-fixed.tex. ns-3 is alibaba-edu/High-Precision-Congestion-Control at 9f4be2a:
 * simulation/src/point-to-point/model/rdma-hw.cc and simulation/run.py. erpc-io/eRPC, src/cc/timely.h,
 * follows a piece of code of one of the paper's authors.
 *
 * Fixed point: rates Q26 of the line (finer than what the NIC takes, so that small steps add up), factors
 * Q24, gradients Q16. A round trip counts as 2^30 ns at most, so differences fit 31 bits and a sign.
 */
#ifndef DCGYM_TIMELY_H
#define DCGYM_TIMELY_H

#include "../../cc.h"

#ifndef CC_NAME
#define CC_NAME "timely"
#define CC_HELP "raises and cuts by the gradient of round trips, between two thresholds of them"
#endif
#define CC_EVENTS      (CC_MASK(CC_RTT) | CC_MASK(CC_TX) | CC_MASK(CC_NACK))
#define CC_STATE_WORDS 6

/* clang-format off */
#define TIMELY_PARAMETERS(X) \
	X(reference_rtt, "ns", 20000, 0, 1u << 30, "jitupadhye-zz/rdma: timely-model.tex (D_minRTT)", "base round trip that times below are for; 0: take them as they are") \
	X(t_low, "ns at reference_rtt", 50000, 0, 1u << 30, "jitupadhye-zz/rdma: timely-model.tex; ns-3: rdma-hw.cc", "below it the rate only grows") \
	X(t_high, "ns at reference_rtt", 500000, 0, 1u << 30, "jitupadhye-zz/rdma: timely-model.tex; ns-3: rdma-hw.cc; eRPC: 1 ms", "above it the rate only falls") \
	X(min_rtt, "ns at reference_rtt", 20000, 1, 1u << 30, "jitupadhye-zz/rdma: timely-model.tex; ns-3: rdma-hw.cc", "what gradients are measured by") \
	X(alpha, "Q16", 57344, 1, 65536, "jitupadhye-zz/rdma: timely-model.tex; ns-3: rdma-hw.cc; eRPC: 0.02", "a: weight of the newest difference: 0.875") \
	X(delta, "Q20", 1049, 1, CC_LINE_RATE, "jitupadhye-zz/rdma: timely-nofixed.tex; ns-3: run.py: 10 Mbit/s of 10 Gbit/s", "d: additive step, of the line rate") \
	X(rate_min, "Q20", CC_MIN_RATE, CC_MIN_RATE, CC_LINE_RATE, "ours: else b gradient > 1 ends a flow", "no cut goes below it") \
	X(loss_cut, "Q16", 32768, 0, 65536, "ours: the paper's fabric loses nothing", "share that a loss takes, at most once a round trip")

#ifndef CC_PARAMETERS
#define CC_PARAMETERS(X) \
	TIMELY_PARAMETERS(X) \
	X(beta, "Q16", 52429, 0, 65536, "jitupadhye-zz/rdma: timely-model.tex; ns-3: rdma-hw.cc; eRPC", "b: multiplicative decrease: 0.8") \
	X(hai_after, "count", 5, 1, 1000, "ns-3: rdma-hw.cc; eRPC: timely.h", "gradients <= 0 in a row until steps are larger") \
	X(hai_steps, "count", 5, 1, 1000, "ns-3: run.py (RATE_HAI); eRPC: timely.h", "N: then so many d at once") \
	X(hai_below, "0 or 1", 0, 0, 1, "1: ns-3: rdma-hw.cc (UpdateRateTimely)", "1: raises below t_low count as gradients <= 0")

#define CC_PRESETS(X) \
	X(paper, "the paper's, by the sources of its parameters, scaled by reference_rtt") \
	X(absolute, "the same, with its times taken as they are", CC_SET(reference_rtt, 0)) \
	X(ns3, "`timely` of the HPCC artifact's run.py, with its rules: any raise counts, the least rate is 1 %, a loss cuts nothing", \
	  CC_SET(reference_rtt, 0) CC_SET(hai_after, 6) CC_SET(hai_below, 1) CC_SET(rate_min, 10486) \
	  CC_SET(loss_cut, 0) CC_NIC(spaced, 1))
#endif
/* clang-format on */

enum { CC_PARAMETERS(CC_INDEX) };

enum timely_state {
	TIMELY_RATE, /* Q26; 0: a new flow */
	TIMELY_RTT,  /* the last; 0: none yet */
	TIMELY_DIFF, /* int64_t, Q16 ns: moving mean of differences */
	TIMELY_DIFF_HIGH,
	TIMELY_IN_A_ROW, /* gradients <= 0 */
	TIMELY_LOSS,     /* when a loss was last acted on */
};
_Static_assert(TIMELY_LOSS + 1 == CC_STATE_WORDS, "TIMELY's state");

#define TIMELY_LINE    (64ull * CC_LINE_RATE) /* Q26 */
#define TIMELY_RTT_MAX (1u << 30)
#define TIMELY_ONE     (1u << 24) /* of factors */

/* A time of the parameters for this flow: 30 + 32 bits, over at least 1. */
static inline uint64_t timely_scaled(uint32_t time_ns, const struct cc_flow *flow, const uint32_t *parameter)
{
	uint32_t reference_ns = parameter[P_reference_rtt];

	return reference_ns ? (uint64_t)time_ns * flow->base_rtt_ns / reference_ns : time_ns;
}

static inline void timely_set(uint32_t *state, const uint32_t *parameter, uint64_t rate)
{
	uint64_t least = 64ull * parameter[P_rate_min];

	state[TIMELY_RATE] = (uint32_t)(rate < least ? least : rate > TIMELY_LINE ? TIMELY_LINE : rate);
}

/* R *= 1 - cut, cut in Q24: 26 + 24 bits. */
static inline void timely_cut(uint32_t *state, const uint32_t *parameter, uint64_t cut)
{
	uint64_t left = cut < TIMELY_ONE ? TIMELY_ONE - cut : 0;

	timely_set(state, parameter, state[TIMELY_RATE] * left >> 24);
}

static inline void timely_add(uint32_t *state, const uint32_t *parameter, uint32_t steps)
{
	timely_set(state, parameter, state[TIMELY_RATE] + 64ull * parameter[P_delta] * steps);
}

/* R *= 1 - b (1 - T_high / RTT) */
static inline void timely_above(uint32_t *state, const uint32_t *parameter, uint32_t rtt_ns, uint64_t high_ns)
{
	uint64_t share = TIMELY_ONE - (high_ns << 24) / rtt_ns; /* high < rtt: below 1 */

	timely_cut(state, parameter, parameter[P_beta] * share >> 16);
}

static inline int64_t timely_diff(const uint32_t *state)
{
	return (int64_t)((uint64_t)state[TIMELY_DIFF_HIGH] << 32 | state[TIMELY_DIFF]);
}

/* diff: 31 + 16 bits and a sign, 43 of them times the 17 of a. */
static inline void timely_observe(uint32_t *state, const uint32_t *parameter, uint32_t rtt_ns)
{
	int64_t newest = state[TIMELY_RTT] ? ((int64_t)rtt_ns - state[TIMELY_RTT]) * 65536 : 0;
	int64_t diff = timely_diff(state);

	diff += ((newest - diff) >> 4) * parameter[P_alpha] >> 12;
	state[TIMELY_DIFF] = (uint32_t)diff;
	state[TIMELY_DIFF_HIGH] = (uint32_t)((uint64_t)diff >> 32);
	state[TIMELY_RTT] = rtt_ns;
}

/* |gradient| in Q16: 47 bits over at least 1, kept below 2^31. */
static inline uint32_t timely_steepness(const uint32_t *state, const struct cc_flow *flow,
					const uint32_t *parameter)
{
	int64_t diff = timely_diff(state);
	uint64_t min_ns = timely_scaled(parameter[P_min_rtt], flow, parameter);
	uint64_t steepness = (uint64_t)(diff < 0 ? -diff : diff) / (min_ns ? min_ns : 1);

	return steepness < 0x7fffffff ? (uint32_t)steepness : 0x7fffffff;
}

static inline bool timely_rises(const uint32_t *state)
{
	return timely_diff(state) > 0;
}

#ifndef TIMELY_PATCHED
/* The raise of a gradient <= 0: one d, or N of them if it is late enough in a row. */
static inline void timely_raise(uint32_t *state, const uint32_t *parameter)
{
	if (state[TIMELY_IN_A_ROW] < parameter[P_hai_after])
		state[TIMELY_IN_A_ROW]++;
	timely_add(state, parameter,
		   state[TIMELY_IN_A_ROW] < parameter[P_hai_after] ? 1 : parameter[P_hai_steps]);
}

static inline void timely_below(uint32_t *state, const uint32_t *parameter)
{
	if (parameter[P_hai_below]) {
		timely_raise(state, parameter);
		return;
	}
	state[TIMELY_IN_A_ROW] = 0;
	timely_add(state, parameter, 1);
}

static inline void timely_between(uint32_t *state, const uint32_t *parameter, const struct cc_flow *flow)
{
	uint64_t steepness = timely_steepness(state, flow, parameter);

	if (steepness && timely_rises(state)) {
		state[TIMELY_IN_A_ROW] = 0;
		timely_cut(state, parameter, parameter[P_beta] * steepness >> 8); /* Q16 Q16 to Q24 */
		return;
	}
	timely_raise(state, parameter);
}
#else
static inline void timely_below(uint32_t *state, const uint32_t *parameter)
{
	timely_add(state, parameter, 1);
}

static inline void timely_between(uint32_t *state, const uint32_t *parameter, const struct cc_flow *flow);
#endif

static inline void timely_on_rtt(uint32_t *state, const uint32_t *parameter, const struct cc_flow *flow,
				 uint32_t rtt_ns)
{
	uint64_t low_ns = timely_scaled(parameter[P_t_low], flow, parameter);
	uint64_t high_ns = timely_scaled(parameter[P_t_high], flow, parameter);

	timely_observe(state, parameter, rtt_ns);
	if (rtt_ns >= low_ns && rtt_ns <= high_ns) {
		timely_between(state, parameter, flow);
		return;
	}
	if (rtt_ns < low_ns) {
		timely_below(state, parameter);
		return;
	}
	state[TIMELY_IN_A_ROW] = 0;
	timely_above(state, parameter, rtt_ns, high_ns);
}

/* A loss says what no round trip could: its packet did not come back. */
static inline void timely_on_loss(uint32_t *state, const uint32_t *parameter, uint32_t now_ns)
{
	if (!parameter[P_loss_cut] || now_ns - state[TIMELY_LOSS] < state[TIMELY_RTT])
		return;
	state[TIMELY_LOSS] = now_ns;
	state[TIMELY_IN_A_ROW] = 0;
	timely_cut(state, parameter, (uint64_t)parameter[P_loss_cut] << 8);
}

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	uint32_t rtt_ns;

	(void)table;
	if (!state[TIMELY_RATE]) {
		state[TIMELY_RATE] = (uint32_t)TIMELY_LINE;
		state[TIMELY_LOSS] = event->now_ns - TIMELY_RTT_MAX;
	}
	if (event->type == CC_RTT) {
		rtt_ns = cc_rtt_ns(event);
		rtt_ns = rtt_ns < 1 ? 1 : rtt_ns > TIMELY_RTT_MAX ? TIMELY_RTT_MAX : rtt_ns;
		timely_on_rtt(state, parameter, flow, rtt_ns);
	} else if (event->type == CC_NACK) {
		timely_on_loss(state, parameter, event->now_ns);
	}
	result->rate = cc_clamp(state[TIMELY_RATE] >> 6);
	result->window_bytes = 0;
	result->probe = true;
}

#endif
