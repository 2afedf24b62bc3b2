// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The tables that nicd reads: see nics.h. */
#include "nics.h"

#include <errno.h>
#include <string.h>

#define LINE_BPS_MIN 100000 /* below it, gaps in ns do not fit 64 bits at the least rate */
#define LINE_BPS_MAX 10000000000000
#define NS_MAX       100000000000ULL /* 100 s */
#define DSCP_MAX     63

/* ---- NICs ---- */

static int check_nic(const struct record_place *at, const struct nic *nic)
{
	int rc = record_word(at, "name", nic->name, sizeof(nic->name));

	if (!rc)
		rc = record_word(at, "netns", nic->netns, sizeof(nic->netns));
	if (!rc)
		rc = record_word(at, "wire", nic->wire, sizeof(nic->wire));
	if (!rc)
		rc = record_word(at, "ring", nic->ring, sizeof(nic->ring));
	if (!rc)
		rc = record_word(at, "tail", nic->tail, sizeof(nic->tail));
	return rc ? rc : record_number(at, "line_bps", nic->line_bps, LINE_BPS_MIN, LINE_BPS_MAX);
}

static int take_nics(struct nics *nics, struct fault *f)
{
	static const struct record_kind kind = {
		NIC_MAGIC, "NIC", NICS_VERSION, sizeof(struct nic), 1, NICS_MAX,
	};
	struct record_place at = { &nics->file, &kind, 0, f };
	const void *records;
	int rc = record_file_take(&nics->file, &kind, &records, &nics->n, f);

	if (rc)
		return rc;
	nics->nic = records;
	for (; at.number < nics->n && !rc; at.number++)
		rc = check_nic(&at, &nics->nic[at.number]);
	return rc;
}

/* ---- flows ---- */

static int check_flow(const struct record_place *at, const struct nic_flow *flow, const struct nics *nics)
{
	const struct {
		const char *field;
		uint64_t value, min, max;
	} numbers[] = {
		{ "flow", flow->flow, nics->rows, NIC_FLOWS_MAX - 1 },
		{ "src_nic", flow->src_nic, 0, nics->n - 1 },
		{ "dst_nic", flow->dst_nic, 0, nics->n - 1 },
		{ "src_port", flow->src_port, 1, UINT16_MAX },
		{ "payload_bytes", flow->payload_bytes, 1, NIC_PAYLOAD_MAX },
		{ "message_bytes", flow->message_bytes, 1, 1ULL << 40 },
		{ "total_bytes", flow->total_bytes, 1, UINT64_MAX },
		{ "base_rtt_ns", flow->base_rtt_ns, 1, UINT32_MAX },
		{ "hops", flow->hops, 1, UINT8_MAX },
		{ "dscp", flow->dscp, 0, DSCP_MAX },
		{ "answer_dscp", flow->answer_dscp, 0, DSCP_MAX },
		{ "cnp_dscp", flow->cnp_dscp, 0, DSCP_MAX },
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !rc; i++)
		rc = record_number(at, numbers[i].field, numbers[i].value, numbers[i].min, numbers[i].max);
	if (!rc && flow->message_bytes / flow->payload_bytes >= UINT32_MAX)
		rc = record_refuse(at, "message_bytes", "they are more than 2^32 packets of %u bytes",
				   flow->payload_bytes);
	if (!rc && flow->int_bytes && flow->int_bytes != LAB_INT_BYTES)
		rc = record_refuse(at, "int_bytes", "%u; give %d, or 0", flow->int_bytes, LAB_INT_BYTES);
	if (!rc && !flow->tcp_src_port != !flow->tcp_dst_port)
		rc = record_refuse(at, "tcp_src_port", "%u, and tcp_dst_port %u; give both or neither",
				   flow->tcp_src_port, flow->tcp_dst_port);
	return rc;
}

static int take_flows(struct nics *nics, struct fault *f)
{
	static const struct record_kind kind = {
		NIC_FLOW_MAGIC, "NIC flow", NICS_VERSION, sizeof(struct nic_flow), 0, NIC_FLOWS_MAX,
	};
	struct record_place at = { &nics->file, &kind, 0, f };
	const void *records;
	int rc = record_file_take(&nics->file, &kind, &records, &nics->flows, f);

	if (rc)
		return rc;
	nics->flow = records;
	for (; at.number < nics->flows && !rc; at.number++) {
		const struct nic_flow *flow = &nics->flow[at.number];

		rc = check_flow(&at, flow, nics);
		nics->rows = flow->flow + 1;
		nics->capped += flow->tcp_src_port != 0;
	}
	nics->rows += !nics->rows; /* a table has at least one row */
	return rc;
}

/* ---- settings ---- */

static int check_settings(const struct record_place *at, const struct nic_settings *s)
{
	const struct {
		const char *field;
		uint64_t value, min, max;
	} numbers[] = {
		{ "latency_ns", s->latency_ns, 0, NS_MAX },
		{ "cnp_interval_ns", s->cnp_interval_ns, 0, NS_MAX },
		{ "nack_interval_ns", s->nack_interval_ns, 0, NS_MAX },
		{ "timeout_ns", s->timeout_ns, 1, NS_MAX },
		{ "timeout_max_ns", s->timeout_max_ns, 1, NS_MAX },
		{ "probe_timeout_ns", s->probe_timeout_ns, 1, NS_MAX },
		{ "probe_timeout_max_ns", s->probe_timeout_max_ns, 1, NS_MAX },
		{ "ack_packets", s->ack_packets, 1, 1 << 16 },
		{ "burst_packets", s->burst_packets, 1, 1 << 16 },
		{ "selective", s->selective, 0, 1 },
		{ "trace", s->trace, 0, NIC_TRACE_ALL },
		{ "in_turn", s->in_turn, 0, 1 },
		{ "event_loss_ppm", s->event_loss_ppm, 0, 1000000 },
		{ "event_coalesce", s->event_coalesce, 1, 1 << 16 },
		{ "spaced", s->spaced, 0, 1 },
		{ "beside", s->beside, 0, 1 },
		{ "trims", s->trims, 0, s->selective ? 64 : 0 },
		{ "entropies", s->entropies, 0, s->selective ? NIC_ENTROPIES_MAX : 0 },
		{ "balancer", s->balancer, 0, NIC_REPS },
		{ "event_cost_ns", s->event_cost_ns, 0, s->in_turn ? NS_MAX : 0 },
		{ "event_queue", s->event_queue, 0, s->in_turn ? NIC_QUEUE_MAX : 0 },
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !rc; i++)
		rc = record_number(at, numbers[i].field, numbers[i].value, numbers[i].min, numbers[i].max);
	if (!rc && s->entropies & (s->entropies - 1))
		rc = record_refuse(at, "entropies", "%u is no power of two", s->entropies);
	return rc;
}

/* Products of these fit 64 bits (telemetry.h). An entry without a rate is not used. */
static int check_rates(const struct record_place *at, const struct nic_settings *s)
{
	int rc = 0;

	for (size_t i = 0; i < LAB_INT_RATES && !rc; i++) {
		const struct cc_rate *rate = &s->int_rate[i];
		const struct lab_int_unit *unit = &rate->unit;

		if (!rate->mbps)
			continue;
		rc = record_number(at, "int_rate mbps", rate->mbps, 1, CC_RATE_MBPS_MAX);
		if (!rc)
			rc = record_number(at, "int_rate time_ns", unit->time_ns, 1, CC_UNIT_NS_MAX);
		if (!rc)
			rc = record_number(at, "int_rate sent_bytes", unit->sent_bytes, 1, CC_UNIT_BYTES_MAX);
		if (!rc)
			rc = record_number(at, "int_rate queue_bytes", unit->queue_bytes, 1,
					   CC_UNIT_BYTES_MAX);
	}
	return rc;
}

static int take_settings(struct nics *nics, struct fault *f)
{
	static const struct record_kind kind = {
		NIC_SETTING_MAGIC, "NIC settings", NICS_VERSION, sizeof(struct nic_settings), 1, 1,
	};
	struct record_place at = { &nics->file, &kind, 0, f };
	const void *records;
	uint32_t count;
	int rc = record_file_take(&nics->file, &kind, &records, &count, f);

	if (rc)
		return rc;
	memcpy(&nics->settings, records, sizeof(nics->settings));
	rc = check_settings(&at, &nics->settings);
	return rc ? rc : check_rates(&at, &nics->settings);
}

int nics_take(struct nics *nics, struct fault *f)
{
	int rc = take_nics(nics, f);

	if (!rc)
		rc = take_flows(nics, f);
	if (!rc)
		rc = take_settings(nics, f);
	return rc ? rc : record_file_end(&nics->file, f);
}
