/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* No congestion control: each flow sends at the line rate, and only PFC or a limit of what is under way holds
 * it. */
#ifndef DCGYM_NONE_H
#define DCGYM_NONE_H

#include "../../cc.h"

#define CC_NAME        "none"
#define CC_HELP        "the line rate always, for PFC alone"
#define CC_EVENTS      CC_MASK(CC_TX)
#define CC_FIRST_TX    /* one decision a flow, which says its rate */
#define CC_STATE_WORDS 0

#define CC_PARAMETERS(X)
#define CC_PRESETS(X)

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	(void)state;
	(void)event;
	(void)flow;
	(void)parameter;
	(void)table;
	result->rate = CC_LINE_RATE;
}

#endif
