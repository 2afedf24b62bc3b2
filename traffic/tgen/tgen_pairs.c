/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs that outlive a flow: with --keep-pairs a flow over RDMA begins as the last one between its two
 * ends was left, as the messages of one connection do. What is taken over is what the NIC knows of the path
 * (rate, window, the algorithm's state, when the next packet is due), not the transport: packets are numbered
 * from 0.
 */
#include <string.h>

#include "tgen_run.h"

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

int pairs_open(struct run *run)
{
	return run->config->keep_pairs ? slots_init(&run->pairs, run->table->flows) : 0;
}

void pairs_close(struct run *run)
{
	slots_free(&run->pairs);
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

void pairs_take(struct run *run, uint32_t number)
{
	const struct flow_spec *spec = &run->table->flow[number];
	struct ends ends = { spec->src_addr, spec->dst_addr };
	uint32_t *newest;

	if (!run->config->keep_pairs)
		return;
	newest = slots_find(&run->pairs, hash_bytes(&ends, sizeof(ends)), same_ends, run->table, &ends);
	if (*newest != SLOT_EMPTY)
		take_over(nic_sender(&run->nics, number), nic_sender(&run->nics, *newest));
	*newest = number;
}
