/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_publish.h"

static enum sm_flow_status status_of(const struct flow *flow)
{
	if (flow->phase == PHASE_WAITING)
		return SM_FLOW_WAITING;
	if (flow->phase != PHASE_ENDED || flow->status == TGEN_RUNNING)
		return SM_FLOW_RUNNING;
	if (flow->status == TGEN_DONE)
		return SM_FLOW_DONE;
	return flow->status == TGEN_STOPPED ? SM_FLOW_STOPPED : SM_FLOW_FAILED;
}

/* A sample asks the receiver's socket and may know more than the application has read since. */
static void raise_to(uint64_t *count, uint64_t value)
{
	if (*count < value)
		*count = value;
}

void publish_reset(const struct run *run)
{
	const struct sm_flow waiting = { .start_ns = -1, .end_ns = -1, .status = SM_FLOW_WAITING };

	for (uint32_t i = 0; i < run->matrix.flow_rows; i++)
		tgen_matrix_store(&run->matrix, i, &waiting);
}

void publish_state(const struct run *run, uint32_t number)
{
	const struct flow *flow = &run->flows.flow[number];
	struct sm_flow row;

	if (!run->matrix.flow_rows)
		return;
	row = run->matrix.flows[number];
	row.status = status_of(flow);
	row.start_ns = run_after_t0(run, flow->start_ns);
	row.end_ns = run_after_t0(run, flow->end_ns);
	raise_to(&row.received_bytes, flow->received);
	if (flow->spec->transport == FLOW_UDP)
		row.acked_bytes = flow->queued;
	tgen_matrix_store(&run->matrix, number, &row);
}

/* Returns the CNPs of a flow that a NIC sends or caps, or 0. */
static uint32_t cnps_of(const struct run *run, uint32_t number)
{
	if (!nic_has_row(&run->nics, number))
		return 0;
	return (uint32_t)nic_sender(&run->nics, number)->cnps;
}

void publish_sample(const struct run *run, uint32_t number, const struct tgen_sample_record *sample)
{
	struct sm_flow row;

	if (!run->matrix.flow_rows)
		return;
	row = run->matrix.flows[number];
	raise_to(&row.received_bytes, sample->bytes_received);
	row.acked_bytes = sample->bytes_acked;
	row.srtt_us = sample->srtt_us;
	row.min_rtt_us = sample->min_rtt_us == UINT32_MAX ? 0 : sample->min_rtt_us; /* the kernel's "none" */
	row.cwnd_packets = sample->cwnd_packets;
	row.retransmits = sample->retransmits;
	row.cnps = cnps_of(run, number);
	row.rate_bps = sample->delivery_rate_bps;
	tgen_matrix_store(&run->matrix, number, &row);
}

void publish_received(const struct run *run, uint32_t number, uint64_t bytes)
{
	struct sm_flow row;

	if (!run->matrix.flow_rows)
		return;
	row = run->matrix.flows[number];
	raise_to(&row.received_bytes, bytes);
	tgen_matrix_store(&run->matrix, number, &row);
}
