/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* One rate for good: what pacing is measured with, and a limiter. */
#ifndef DCGYM_FIXED_H
#define DCGYM_FIXED_H

#include "../../cc.h"

#define CC_NAME        "fixed"
#define CC_HELP        "one rate, whatever happens"
#define CC_EVENTS      CC_MASK(CC_TX)
#define CC_STATE_WORDS 0

#define CC_PARAMETERS(X) X(rate, "Q20", CC_LINE_RATE, CC_MIN_RATE, CC_LINE_RATE, "none", "of the line rate")
#define CC_PRESETS(X)

enum { CC_PARAMETERS(CC_INDEX) };

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	(void)state;
	(void)event;
	(void)flow;
	(void)table;
	result->rate = parameter[P_rate];
}

#endif
