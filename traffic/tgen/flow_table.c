/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct record_kind netns_kind = {
	FLOW_NETNS_MAGIC, "namespace", FLOW_VERSION, sizeof(struct flow_netns), 0, 2 * FLOW_MAX,
};
static const struct record_kind flow_kind = {
	FLOW_MAGIC, "flow", FLOW_SPEC_VERSION, sizeof(struct flow_spec), 0, FLOW_MAX,
};
static const struct record_kind opens_kind = {
	FLOW_OPENS_MAGIC, "gate that opens", FLOW_VERSION, sizeof(uint32_t), 0, UINT32_MAX,
};
static const struct record_kind rows_kind = {
	FLOW_ROWS_MAGIC, "row of a path", FLOW_VERSION, sizeof(uint32_t), 0, UINT32_MAX,
};

/* --- tables ------------------------------------------------------------------------------------------ */

static int take_netns(struct flow_table *t, struct fault *f)
{
	struct record_place at = { &t->file, &netns_kind, 0, f };
	const void *records;
	int rc = record_file_take(&t->file, &netns_kind, &records, &t->namespaces, f);

	if (rc)
		return rc;
	t->netns = records;
	for (; at.number < t->namespaces && !rc; at.number++)
		rc = record_word(&at, "path", t->netns[at.number].path, FLOW_NETNS_LEN);
	return rc;
}

static int take_numbers(struct flow_table *t, const struct record_kind *kind, uint32_t max,
			const uint32_t **numbers, uint32_t *count, struct fault *f)
{
	struct record_place at = { &t->file, kind, 0, f };
	const void *records;
	int rc = record_file_take(&t->file, kind, &records, count, f);

	if (rc)
		return rc;
	*numbers = records;
	for (; at.number < *count && !rc; at.number++)
		rc = record_number(&at, "number", (*numbers)[at.number], 0, max);
	return rc;
}

static int take_all(struct flow_table *t, struct fault *f)
{
	const void *records;
	int rc = take_netns(t, f);

	if (!rc)
		rc = record_file_take(&t->file, &flow_kind, &records, &t->flows, f);
	if (rc)
		return rc;
	t->flow = records;
	rc = take_numbers(t, &opens_kind, FLOW_MAX - 1, &t->opens, &t->nopens, f);
	if (!rc)
		rc = take_numbers(t, &rows_kind, UINT16_MAX, &t->rows, &t->nrows, f);
	return rc ? rc : record_file_end(&t->file, f);
}

/* --- flows ------------------------------------------------------------------------------------------- */

static int check_numbers(const struct record_place *at, const struct flow_table *t,
			 const struct flow_spec *flow)
{
	const struct {
		const char *field;
		uint64_t value, min, max;
	} numbers[] = {
		{ "start_ns", (uint64_t)flow->start_ns, 0, FLOW_TIME_MAX },
		{ "stop_ns", (uint64_t)flow->stop_ns, 0, FLOW_TIME_MAX },
		{ "length_ns", (uint64_t)flow->length_ns, 0, FLOW_TIME_MAX },
		{ "size_bytes", flow->size_bytes, 0, FLOW_AMOUNT_MAX },
		{ "transport", flow->transport, 0, NR_TRANSPORTS - 1 },
		{ "rate_bps", flow->rate_bps, flow->transport == FLOW_UDP, FLOW_AMOUNT_MAX },
		{ "src_ns", flow->src_ns, 0, t->namespaces - 1 },
		{ "dst_ns", flow->dst_ns, 0, t->namespaces - 1 },
		{ "src_port", flow->src_port, 1, UINT16_MAX },
		{ "dst_port", flow->dst_port, 1, UINT16_MAX },
		{ "gaps", flow->gaps, 0, NR_GAPS - 1 },
		{ "dscp", flow->dscp, 0, FLOW_DSCP_MAX },
		{ "acks", flow->acks, 0, flow->transport == FLOW_TCP },
		{ "packet_bytes", flow->packet_bytes, 1, FLOW_PACKET_MAX },
		{ "opens_start", flow->opens_start, 0, t->nopens },
		{ "opens_len", flow->opens_len, 0, FLOW_LIST_MAX },
		{ "path_start", flow->path_start, 0, t->nrows },
		{ "path_len", flow->path_len, 0, FLOW_LIST_MAX },
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !rc; i++)
		rc = record_number(at, numbers[i].field, numbers[i].value, numbers[i].min, numbers[i].max);
	if (!rc)
		rc = record_number(at, "opens_len", flow->opens_len, 0, t->nopens - flow->opens_start);
	if (!rc)
		rc = record_number(at, "path_len", flow->path_len, 0, t->nrows - flow->path_start);
	return rc;
}

static bool share_a_listener(const struct flow_spec *a, const struct flow_spec *b)
{
	return a->transport == b->transport && a->dst_ns == b->dst_ns && a->dst_addr == b->dst_addr &&
	       a->dst_port == b->dst_port && !memcmp(a->cc, b->cc, sizeof(a->cc));
}

static int check_flow(const struct record_place *at, const struct flow_table *t)
{
	const struct flow_spec *flow = &t->flow[at->number], *first;
	int rc = check_numbers(at, t, flow);

	if (!rc)
		rc = record_word(at, "cc", flow->cc, sizeof(flow->cc));
	if (!rc && flow->gate == FLOW_NO_GATE && flow->stop_ns && flow->stop_ns <= flow->start_ns)
		rc = record_refuse(at, "stop_ns", "not after start_ns; 0 is a flow without a stop");
	if (!rc)
		rc = record_number(at, "listener", flow->listener, 0, at->number);
	if (rc)
		return rc;
	first = &t->flow[flow->listener];
	if (first->listener != flow->listener || !share_a_listener(first, flow))
		return record_refuse(at, "listener", "flow %u has a receiver, dst_port or cc of its own",
				     flow->listener);
	return 0;
}

static int check_flows(const struct flow_table *t, struct fault *f)
{
	struct record_place at = { &t->file, &flow_kind, 0, f };
	int rc = 0;

	if (t->flows && !t->namespaces)
		return record_refuse(&at, "src_ns", "there is no namespace");
	for (; at.number < t->flows && !rc; at.number++)
		rc = check_flow(&at, t);
	return rc;
}

/* --- gates ------------------------------------------------------------------------------------------- */

/* Counts the flows that open each gate. A gate that nothing opens would keep its flows for ever. */
static int count_gates(struct flow_table *t, struct fault *f)
{
	struct record_place at = { &t->file, &flow_kind, 0, f };

	for (uint32_t i = 0; i < t->nopens; i++)
		t->gates = t->opens[i] >= t->gates ? t->opens[i] + 1 : t->gates;
	t->needs = calloc(t->gates + 1, sizeof(*t->needs));
	if (!t->needs)
		return fault_say(f, -ENOMEM, "out of memory for %u gates", t->gates);
	for (uint32_t i = 0; i < t->flows; i++)
		for (uint32_t k = 0; k < t->flow[i].opens_len; k++)
			t->needs[t->opens[t->flow[i].opens_start + k]]++;
	for (; at.number < t->flows; at.number++) {
		uint32_t gate = t->flow[at.number].gate;

		if (gate != FLOW_NO_GATE && (gate >= t->gates || !t->needs[gate]))
			return record_refuse(&at, "gate", "%u is a gate that no flow opens", gate);
	}
	return 0;
}

int flow_table_take(struct flow_table *table, struct fault *f)
{
	int rc = take_all(table, f);

	if (!rc)
		rc = check_flows(table, f);
	return rc ? rc : count_gates(table, f);
}

void flow_table_free(struct flow_table *table)
{
	record_file_close(&table->file);
	free(table->needs);
	memset(table, 0, sizeof(*table));
}
