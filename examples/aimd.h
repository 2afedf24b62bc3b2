/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An algorithm of one's own (docs/nic-algorithms.md): additive increase, multiplicative decrease on round trips.
 *
 * The rule is that of the RTT template in NVIDIA's DOCA PCC samples. NACKs and CNPs only leave a note, which the
 * next round trip finds: a NACK and a delay at its limit cut by 5 f, a CNP or such a delay by 2 f, a round trip
 * above the threshold by f; else the rate grows by a share of the line.
 */
#include "cc.h"

#define CC_NAME        "aimd"
#define CC_HELP        "additive increase, multiplicative decrease on round trips"
#define CC_EVENTS      (CC_MASK(CC_RTT) | CC_MASK(CC_CNP) | CC_MASK(CC_NACK) | CC_MASK(CC_TX))
#define CC_STATE_WORDS 1 /* events that were noted */

#define CC_PARAMETERS(X)                                                                                            \
	X(increase, "Q20", 52429, 1, CC_LINE_RATE, "DOCA rtt_template: 5 %", "added to the rate a round trip")      \
	X(factor, "Q16", 6554, 0, 13107, "DOCA rtt_template: 10 %", "f: share of the rate that a cut takes")        \
	X(threshold, "Q8", 333, 256, 65535, "ours: 13 us of 10 us", "round trip that cuts, in base round trips")    \
	X(limit, "Q8", 3840, 256, 65535, "ours: 150 us of 10 us", "round trip at its limit, in base round trips")
#define CC_PRESETS(X) X(template, "as in the sample, times as multiples of a base round trip of 10 us")

enum { CC_PARAMETERS(CC_INDEX) };

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	uint64_t rtt = (uint64_t)cc_rtt_ns(event) << 8; /* Q8 ns, as base x parameter is */
	uint64_t base = flow->base_rtt_ns;
	bool late = rtt >= base * parameter[P_limit];
	uint32_t cuts;

	(void)table;
	result->probe = true;
	if (event->type != CC_RTT) {
		state[0] |= CC_MASK(event->type);
		return;
	}
	cuts = late && state[0] & CC_MASK(CC_NACK)   ? 5
	       : late || state[0] & CC_MASK(CC_CNP)  ? 2
	       : rtt > base * parameter[P_threshold] ? 1
						     : 0;
	if (cuts)
		result->rate -= (uint64_t)result->rate * cuts * parameter[P_factor] >> 16;
	else
		result->rate = cc_clamp((uint64_t)result->rate + parameter[P_increase]);
	state[0] = 0;
}
