/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_gates.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A counting sort. */
int gates_init(struct gates *gates, const struct flow_table *table)
{
	uint32_t *start;

	start = gates->start = calloc(table->gates + 2, sizeof(*gates->start));
	gates->flows = calloc(table->flows + 1, sizeof(*gates->flows));
	gates->left = calloc(table->gates + 1, sizeof(*gates->left));
	if (!gates->start || !gates->flows || !gates->left)
		return -ENOMEM;
	memcpy(gates->left, table->needs, table->gates * sizeof(*table->needs));
	for (uint32_t i = 0; i < table->flows; i++)
		if (table->flow[i].gate != FLOW_NO_GATE)
			start[table->flow[i].gate + 2]++;
	for (uint32_t g = 2; g < table->gates + 2; g++)
		start[g] += start[g - 1];
	for (uint32_t i = 0; i < table->flows; i++) /* start[g + 1] runs from where g starts to its end */
		if (table->flow[i].gate != FLOW_NO_GATE)
			gates->flows[start[table->flow[i].gate + 1]++] = i;
	return 0;
}

void gates_free(struct gates *gates)
{
	free(gates->start);
	free(gates->flows);
	free(gates->left);
	*gates = (struct gates){ 0 };
}
