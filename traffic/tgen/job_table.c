/* SPDX-License-Identifier: Apache-2.0 */
#include "job_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct record_kind node_kind = {
	JOB_MAGIC, "node", JOB_VERSION, sizeof(struct job_node), 0, JOB_MAX,
};
static const struct record_kind edge_kind = {
	JOB_EDGES_MAGIC, "edge", JOB_VERSION, sizeof(uint32_t), 0, UINT32_MAX,
};

static int check_send(const struct record_place *at, const struct job_node *node,
		      const struct flow_table *flows)
{
	int rc = record_number(at, "amount", node->amount, 1, JOB_BYTES_MAX);

	if (!rc && (node->subject >= flows->flows || flows->flow[node->subject].transport == FLOW_UDP))
		rc = record_refuse(at, "subject", "%u is no flow over tcp or rdma", node->subject);
	return rc;
}

static int check_node(const struct record_place *at, struct job_table *t, const struct flow_table *flows)
{
	const struct job_node *node = &t->node[at->number];
	int rc = record_number(at, "kind", node->kind, 0, NR_JOB_KINDS - 1);

	if (!rc)
		rc = record_number(at, "edges_start", node->edges_start, 0, t->nedges);
	if (!rc)
		rc = record_number(at, "edges_len", node->edges_len, 0, t->nedges - node->edges_start);
	if (rc)
		return rc;
	if (node->kind == JOB_SEND)
		return check_send(at, node, flows);
	if (node->kind == JOB_RECV)
		return node->subject < t->nodes && t->node[node->subject].kind == JOB_SEND
			       ? 0
			       : record_refuse(at, "subject", "%u is no send", node->subject);
	rc = record_number(at, "amount", node->amount, 0, FLOW_TIME_MAX);
	if (!rc && node->kind == JOB_CALC)
		rc = record_number(at, "subject", node->subject, 0, t->nodes - 1);
	t->starts += node->kind == JOB_START;
	if (!rc && node->kind == JOB_CALC && node->subject >= t->processors)
		t->processors = node->subject + 1;
	return rc;
}

/* What a flow is to carry is what its messages have, or it would never end, or end too early. */
static int check_sums(const struct job_table *t, const struct flow_table *flows, struct fault *f)
{
	uint64_t *bytes = calloc(flows->flows + 1, sizeof(*bytes));
	struct record_place at = { &t->file, &node_kind, 0, f };
	int rc = bytes ? 0 : fault_say(f, -ENOMEM, "out of memory for %u flows", flows->flows);

	for (uint32_t i = 0; !rc && i < t->nodes; i++)
		if (t->node[i].kind == JOB_SEND)
			bytes[t->node[i].subject] += t->node[i].amount;
	for (; !rc && at.number < t->nodes; at.number++) {
		uint32_t flow = t->node[at.number].subject;

		if (t->node[at.number].kind == JOB_SEND && bytes[flow] != flows->flow[flow].size_bytes)
			rc = record_refuse(&at, "subject",
					   "the messages of flow %u have %" PRIu64
					   " bytes, the flow has %" PRIu64,
					   flow, bytes[flow], flows->flow[flow].size_bytes);
	}
	free(bytes);
	return rc;
}

int job_table_take(struct job_table *t, const struct flow_table *flows, struct fault *f)
{
	struct record_place at = { &t->file, &node_kind, 0, f };
	struct record_place edge = { &t->file, &edge_kind, 0, f };
	const void *records;
	int rc = record_file_take(&t->file, &node_kind, &records, &t->nodes, f);

	if (rc)
		return rc;
	t->node = records;
	rc = record_file_take(&t->file, &edge_kind, &records, &t->nedges, f);
	if (rc)
		return rc;
	t->edges = records;
	for (; !rc && at.number < t->nodes; at.number++)
		rc = check_node(&at, t, flows);
	for (; !rc && edge.number < t->nedges; edge.number++)
		rc = record_number(&edge, "node", t->edges[edge.number] / 2, 0, t->nodes - 1);
	if (!rc)
		rc = check_sums(t, flows, f);
	return rc ? rc : record_file_end(&t->file, f);
}

void job_table_free(struct job_table *table)
{
	record_file_close(&table->file);
	memset(table, 0, sizeof(*table));
}
