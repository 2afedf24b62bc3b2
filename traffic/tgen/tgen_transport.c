/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_transport.h"

#include "tgen_flow.h"
#include "tgen_publish.h"
#include "tgen_rdma.h"
#include "tgen_udp.h"

static int64_t stop_of(const struct run *run, const struct flow *flow)
{
	const struct flow_spec *spec = flow->spec;
	int64_t stop = spec->stop_ns ? run->config->t0_ns + spec->stop_ns : INT64_MAX;
	int64_t end = spec->length_ns ? flow->due_ns + spec->length_ns : INT64_MAX;

	return stop < end ? stop : end;
}

static int (*const starters[NR_TRANSPORTS])(struct run *run, uint32_t number) = {
	[FLOW_TCP] = tcp_start,
	[FLOW_UDP] = udp_start,
	[FLOW_RDMA] = rdma_start,
};

/* A flow whose time is up before it is due keeps waiting, and what waits for it does too. */
int transport_start(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows.flow[number];
	int64_t stop;
	int rc;

	flow->due_ns = at;
	stop = stop_of(run, flow);
	if (stop <= at)
		return 0;
	rc = stop == INT64_MAX ? 0 : timers_add(&run->timers, (struct timer){ stop, TIMER_STOP, number });
	if (rc)
		return rc;
	flow_begin(run, number);
	run->clock.now = 0; /* the connect() before this one took its microsecond */
	rc = starters[flow->spec->transport](run, number);
	publish_state(run, number);
	return rc;
}

static int (*const offerers[NR_TRANSPORTS])(struct run *run, uint32_t number, int64_t at) = {
	[FLOW_TCP] = tcp_offer,
	[FLOW_UDP] = udp_offer,
	[FLOW_RDMA] = rdma_offer,
};

int transport_offer(struct run *run, uint32_t number, int64_t at)
{
	return offerers[run->table->flow[number].transport](run, number, at);
}

/* Samples of TCP and RDMA go on until all has arrived. */
int transport_stop(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows.flow[number];
	enum phase phase = flow->phase;
	int rc;

	if (phase != PHASE_CONNECTING && phase != PHASE_SENDING)
		return 0;
	rc = flow_end(run, number, TGEN_STOPPED, at);
	if (rc || flow->spec->transport == FLOW_UDP)
		return rc;
	flow_set_draining(&run->flows, number, true);
	if (flow->spec->transport == FLOW_TCP)
		return tcp_stop(run, number, phase);
	rdma_stop(run, number);
	return 0;
}

int transport_on_sender(struct run *run, uint32_t number, uint32_t events)
{
	const struct flow *flow = &run->flows.flow[number];

	if (flow->sender < 0)
		return 0;
	return flow->spec->transport == FLOW_UDP ? udp_on_sender(run, number, events)
						 : tcp_on_sender(run, number, events);
}

static bool is_sampled(const struct run *run, uint32_t number)
{
	return run->flows.flow[number].phase == PHASE_SENDING || flow_drains(&run->flows, number);
}

void transport_plan_look(struct run *run, struct look *look)
{
	if (run->flows.flow[look->flow].spec->transport == FLOW_TCP && is_sampled(run, look->flow))
		tcp_plan_look(run, look);
}

int transport_sample(struct run *run, const struct look *look, int64_t at, unsigned int uses)
{
	uint32_t number = look->flow;
	const struct flow *flow = &run->flows.flow[number];
	struct tgen_sample_record sample = {
		.t_ns = at - run->config->t0_ns,
		.flow = number,
		.pacing_rate_bps = UINT64_MAX,
		.ssthresh_packets = UINT32_MAX,
		.ca_state = UINT32_MAX,
	};
	int rc = 0;

	if (!is_sampled(run, number))
		return 0;
	if (flow->spec->transport == FLOW_TCP)
		rc = tcp_sample(run, look, &sample);
	else if (flow->spec->transport == FLOW_RDMA)
		rdma_sample(run, number, &sample);
	else
		sample.bytes_acked = flow->queued, sample.bytes_received = flow->received;
	if (rc)
		return rc;
	if (uses & SAMPLE_PUBLISH)
		publish_sample(run, number, &sample);
	rc = uses & SAMPLE_LOG ? tgen_log_add(&run->logs.samples, &sample) : 0;
	if (rc)
		return run_fault(run, rc, "write samples.bin");
	return flow->spec->transport == FLOW_RDMA ? rdma_sampled(run, number) : 0;
}

int transport_settle(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows.flow[number];
	int rc = 0;

	if (flow->spec->transport == FLOW_UDP)
		flow->sent = flow->queued;
	else
		rc = flow->spec->transport == FLOW_RDMA ? rdma_settle(run, number) : tcp_settle(run, number);
	if (rc)
		return rc;
	if (flow->phase == PHASE_CONNECTING || flow->phase == PHASE_SENDING)
		flow->status = TGEN_RUNNING; /* and counts as under way until it is closed */
	else if (flow->phase == PHASE_WAITING)
		flow->status = TGEN_WAITING;
	publish_state(run, number);
	return 0;
}
