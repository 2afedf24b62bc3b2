/* SPDX-License-Identifier: Apache-2.0 */
/* The gates of a flow table: which flows wait at each, and how many have yet to end until it opens. */
#ifndef FLOW_GATES_H
#define FLOW_GATES_H

#include "flow_table.h"

#include <stdint.h>

struct gates {
	uint32_t *start, *flows; /* the flows that wait at gate g: flows[start[g] ...] up to start[g + 1] */
	uint32_t *left;          /* flows that have yet to end */
};

int gates_init(struct gates *gates, const struct flow_table *table); /* 0 or -ENOMEM */
void gates_free(struct gates *gates);

#endif
