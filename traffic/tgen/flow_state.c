/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_state.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int flows_init(struct flows *flows, const struct flow_table *table, uint64_t seed)
{
	*flows = (struct flows){ 0 };
	flows->flow = calloc(table->flows + 1, sizeof(*flows->flow));
	flows->under_way = calloc(table->flows / 64 + 1, sizeof(*flows->under_way));
	flows->draining = calloc(table->flows / 64 + 1, sizeof(*flows->draining));
	if (!flows->flow || !flows->under_way || !flows->draining)
		return -ENOMEM;
	flows->count = table->flows;
	for (uint32_t i = 0; i < flows->count; i++)
		flows->flow[i] = (struct flow){ .spec = &table->flow[i],
						.sender = -1,
						.receiver = -1,
						.due_ns = -1,
						.start_ns = -1,
						.established_ns = -1,
						.end_ns = -1,
						.pace.seed = pace_seed(seed, i),
						.messages = { .first = JOB_NONE } };
	return gates_init(&flows->gates, table);
}

bool flow_drains(const struct flows *flows, uint32_t number)
{
	return flows->draining[number / 64] >> (number % 64) & 1;
}

void flow_set_draining(struct flows *flows, uint32_t number, bool drains)
{
	uint64_t bit = UINT64_C(1) << (number % 64);

	if (drains)
		flows->draining[number / 64] |= bit;
	else
		flows->draining[number / 64] &= ~bit;
}

void flow_close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void flows_close(struct flows *flows)
{
	for (uint32_t i = 0; flows->flow && i < flows->count; i++) {
		flow_close_end(&flows->flow[i].sender);
		flow_close_end(&flows->flow[i].receiver);
	}
	free(flows->flow);
	free(flows->under_way);
	free(flows->draining);
	gates_free(&flows->gates);
	*flows = (struct flows){ 0 };
}
