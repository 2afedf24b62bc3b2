/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_end.h"

#include <stdbool.h>
#include <stdint.h>

#include "tgen_job.h"
#include "tgen_log.h"
#include "tgen_net.h"
#include "tgen_rdma.h"
#include "tgen_transport.h"
#include "tgen_udp.h"

static struct tgen_flow_record record_of(const struct run *run, uint32_t number)
{
	const struct flow *flow = &run->flows.flow[number];
	const struct flow_spec *spec = flow->spec;
	bool is_timed = flow->status == TGEN_DONE && spec->transport != FLOW_UDP;

	return (struct tgen_flow_record){
		.flow = number,
		.src_port = spec->src_port,
		.dst_port = spec->dst_port,
		.status = flow->status,
		.error = flow->error,
		.due_ns = run_after_t0(run, flow->due_ns),
		.start_ns = run_after_t0(run, flow->start_ns),
		.established_ns = run_after_t0(run, flow->established_ns),
		.end_ns = run_after_t0(run, flow->end_ns),
		.size_bytes = spec->size_bytes,
		.sent_bytes = flow->sent,
		.received_bytes = flow->received,
		.retransmits = flow->retransmits,
		.fct_ns = is_timed ? flow->end_ns - flow->start_ns : -1,
	};
}

/* The counts of the NICs, for flows that they sent or capped. */
static int log_nics(struct run *run)
{
	int rc = 0;

	if (run->logs.nics.fd < 0)
		return 0;
	for (uint32_t i = 0; !rc && i < run->table->flows; i++) {
		struct tgen_nic_record record;

		if (!nic_has_row(&run->nics, i))
			continue;
		rdma_record(run, i, &record);
		rc = tgen_log_add(&run->logs.nics, &record);
	}
	if (!rc)
		rc = tgen_log_finish(&run->logs.nics);
	return rc ? run_fault(run, rc, "write nics.bin in --out") : 0;
}

int end_settle(struct run *run)
{
	int rc = udp_take(run);

	for (uint32_t i = 0; !rc && i < run->table->flows; i++)
		rc = transport_settle(run, i);
	return rc ? rc : log_nics(run);
}

int end_finish(struct run *run)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < run->table->flows; i++) {
		struct tgen_flow_record record = record_of(run, i);

		rc = tgen_log_add(&run->logs.flows, &record);
	}
	if (!rc && run->logs.job.fd >= 0)
		rc = job_log(run);
	if (!rc)
		rc = tgen_log_finish(&run->logs.samples);
	if (!rc)
		rc = tgen_log_finish(&run->logs.flows);
	return rc ? run_fault(run, rc, "write the logs in --out") : 0;
}

/* SO_LINGER of 0 s: close() throws away what is queued, and a reset ends the peer's side. */
void end_abort(struct run *run)
{
	for (uint32_t i = 0; i < run->table->flows; i++) {
		net_abort(&run->flows.flow[i].sender);
		net_abort(&run->flows.flow[i].receiver);
	}
	rdma_abort(run);
	tgen_logs_discard(&run->logs);
}
