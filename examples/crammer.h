/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An algorithm that has learned the arena's public cases by heart (docs/arena.md). It controls nothing: it
 * knows a case by its base round trip, and sends at the share of the line that a flow ends up with there. On
 * cases that it does not know it sends at line rate. Held-out cases expose it.
 */
#include "cc.h"

#define CC_NAME   "crammer"
#define CC_HELP   "knows the arena's public cases by heart, and controls nothing"
#define CC_EVENTS CC_MASK(CC_TX)
#define CC_FIRST_TX
#define CC_STATE_WORDS 0
#define CC_PARAMETERS(X)                                                                                     \
	X(slack, "Q20", 20972, 0, CC_LINE_RATE, "ours: 2 %",                                                 \
	  "of the line that is left free, so that queues drain")
#define CC_PRESETS(X)

enum { CC_PARAMETERS(CC_INDEX) };

static inline uint32_t flows_of(const struct cc_flow *flow)
{
	switch (flow->base_rtt_ns) {
	case 12604: /* many-to-one-10g, beside-dctcp-10g */
		return 8;
	case 4262: /* joins-100g */
		return 4;
	case 5042: /* shared-buffer-25g, trimming-25g */
		return 16;
	case 10060: /* pfc-25g, all-reduce-25g */
		return 10;
	case 6604: /* flow-sizes-10g, by hops */
	case 13148:
	case 19692:
		return 3;
	default:
		return 1;
	}
}

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	uint32_t flows = flows_of(flow);

	(void)state, (void)event, (void)table;
	result->rate = flows == 1 ? CC_LINE_RATE : cc_clamp((CC_LINE_RATE - parameter[P_slack]) / flows);
}
