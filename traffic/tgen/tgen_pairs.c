/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_pairs.h"

#include <string.h>

struct ends {
	uint32_t src_addr, dst_addr;
};

static int same_ends(const void *context, uint32_t element, const void *key)
{
	const struct flow_spec *spec = &((const struct flow_table *)context)->flow[element];
	const struct ends *ends = key;

	return spec->transport == FLOW_RDMA && spec->src_addr == ends->src_addr &&
	       spec->dst_addr == ends->dst_addr;
}

int pairs_open(struct pairs *pairs, const struct flow_table *table)
{
	pairs->table = table;
	return slots_init(&pairs->newest, table->flows);
}

void pairs_close(struct pairs *pairs)
{
	slots_free(&pairs->newest);
	pairs->table = NULL;
}

static void take_over(struct nic_sender *row, const struct nic_sender *before)
{
	row->kept = 1;
	row->rate = before->rate;
	row->byte_ns = before->byte_ns;
	row->due_ns = before->due_ns;
	row->left_ns = before->left_ns;
	row->left_bytes = before->left_bytes;
	row->window_bytes = before->window_bytes;
	row->next_rate = before->next_rate;
	row->next_window = before->next_window;
	row->next_probe = before->next_probe;
	row->decided_ns = before->decided_ns;
	memcpy(row->state, before->state, sizeof(row->state));
	/* A probe that is under way answers to the row before. */
	row->probe_wanted = before->probe_wanted || before->probe_sent_ns;
}

void pairs_take(struct pairs *pairs, const struct nic_tables *nics, uint32_t number)
{
	const struct flow_spec *spec;
	struct ends ends;
	uint32_t *newest;

	if (!pairs->table)
		return;
	spec = &pairs->table->flow[number];
	ends = (struct ends){ spec->src_addr, spec->dst_addr };
	newest = slots_find(&pairs->newest, hash_bytes(&ends, sizeof(ends)), same_ends, pairs->table, &ends);
	if (*newest != SLOT_EMPTY)
		take_over(nic_sender(nics, number), nic_sender(nics, *newest));
	*newest = number;
}
