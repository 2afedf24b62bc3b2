/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_rdma.h"

#include <errno.h>
#include <sys/epoll.h>

#include "tgen_flow.h"
#include "tgen_publish.h"

#define NS_PER_US  1000u
#define UDP_OFFSET 34 /* where UDP begins in a frame */

static uint64_t packets_a_message(uint64_t message, uint32_t payload)
{
	return (message + payload - 1) / payload;
}

uint64_t rdma_bytes(uint64_t packets, uint32_t payload, uint64_t message, uint64_t total)
{
	uint64_t each = packets_a_message(message, payload), bytes, rest;

	rest = packets % each * payload;
	bytes = packets / each * message + (rest < message ? rest : message);
	return bytes < total ? bytes : total;
}

uint64_t rdma_packets(uint64_t bytes, uint32_t payload, uint64_t message, uint64_t total)
{
	uint64_t rest = bytes % message, whole = bytes / message * packets_a_message(message, payload);

	if (bytes == UINT64_MAX)
		return UINT64_MAX;
	return whole + (bytes == total ? packets_a_message(rest, payload) : rest / payload);
}

static uint64_t acked_bytes(const struct nic_sender *row)
{
	return rdma_bytes(row->acked, row->payload_bytes, row->message_bytes, row->total_bytes);
}

static uint64_t arrived_bytes(const struct nic_receiver *row)
{
	return rdma_bytes(row->expected, row->payload_bytes, row->message_bytes, row->total_bytes);
}

/* --- setting up -------------------------------------------------------------------------------------- */

static int open_nic(struct run *run, uint32_t number, uint32_t nic, uint32_t ns)
{
	const char *step;
	int rc;

	if (nic >= run->nics.ports.count)
		return run_fault(run, -EINVAL, "flow %u: --nic: its row names NIC %u of %u", number, nic,
				 run->nics.ports.count);
	if (run->nics.sockets[nic] >= 0)
		return 0;
	rc = run_enter(run, ns);
	if (rc)
		return rc;
	rc = nic_listen(&run->nics, nic, &step);
	if (rc)
		return run_fault(run, rc, "flow %u: NIC %u: %s", number, nic, step);
	return run_watch(run, run->nics.sockets[nic], EPOLLIN, WATCH_BELL, nic);
}

static int open_flow(struct run *run, uint32_t number)
{
	const struct flow_spec *spec = &run->table->flow[number];
	const struct nic_sender *row;
	int rc;

	if (!run->nics.sockets)
		return run_fault(run, -EINVAL, "flow %u: transport rdma needs --nic", number);
	if (number >= run->nics.senders.count || number >= run->nics.receivers.count)
		return run_fault(run, -EINVAL, "flow %u: --nic: the NICs have rows for %u flows", number,
				 run->nics.senders.count);
	row = nic_sender(&run->nics, number);
	if (!row->payload_bytes || !row->message_bytes ||
	    row->total_bytes != (spec->size_bytes ? spec->size_bytes : UINT64_MAX))
		return run_fault(run, -EINVAL, "flow %u: --nic: its row is of another list of flows", number);
	rc = open_nic(run, number, row->port, spec->src_ns);
	return rc ? rc : open_nic(run, number, nic_receiver(&run->nics, number)->port, spec->dst_ns);
}

int rdma_open(struct run *run)
{
	const struct nic_ids *ids = &run->config->nic;
	const char *step;
	int rc = run->config->keep_pairs ? pairs_open(&run->pairs, run->table) : 0;

	if (!rc && ids->senders) {
		rc = nic_tables_open(&run->nics, *ids, &step);
		if (rc)
			return run_fault(run, rc, "--nic: %s", step);
	}
	for (uint32_t i = 0; !rc && i < run->table->flows; i++)
		if (run->table->flow[i].transport == FLOW_RDMA)
			rc = open_flow(run, i);
	return rc;
}

void rdma_ports(const struct run *run, uint32_t number, uint16_t *src, uint16_t *dst)
{
	const uint8_t *udp = nic_sender(&run->nics, number)->frame + UDP_OFFSET;

	*src = (uint16_t)(udp[0] << 8 | udp[1]);
	*dst = (uint16_t)(udp[2] << 8 | udp[3]);
}

void rdma_answer_ports(const struct run *run, uint32_t number, uint16_t *src, uint16_t *dst)
{
	const uint8_t *udp = nic_receiver(&run->nics, number)->frame + UDP_OFFSET;

	*src = (uint16_t)(udp[0] << 8 | udp[1]);
	*dst = (uint16_t)(udp[2] << 8 | udp[3]);
}

/* --- sending ----------------------------------------------------------------------------------------- */

static int post(struct run *run, uint32_t number, uint64_t bytes)
{
	struct nic_sender *row = nic_sender(&run->nics, number);
	uint64_t end = rdma_packets(bytes, row->payload_bytes, row->message_bytes, row->total_bytes);

	if (end <= __atomic_load_n(&row->end, __ATOMIC_RELAXED))
		return 0;
	__atomic_store_n(&row->end, end, __ATOMIC_RELEASE);
	return nic_ring(&run->nics, number); /* the NIC knows whether it need be woken */
}

int rdma_start(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows.flow[number];

	/* Reading the clock takes time, by which a job would begin too late. */
	flow->start_ns = flow->messages.any ? flow->due_ns : clock_read(&run->clock);
	flow->established_ns = flow->start_ns;
	flow->phase = PHASE_SENDING;
	pairs_take(&run->pairs, &run->nics, number);
	if (flow->messages.any)
		nic_ring_each(&run->nics, number);
	return rdma_offer(run, number, flow->start_ns);
}

int rdma_offer(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows.flow[number];
	int rc;

	if (flow->phase != PHASE_SENDING)
		return 0;
	flow->queued = flow_offered(flow, at - flow->start_ns);
	rc = post(run, number, flow->queued);
	if (rc)
		return flow_fail(run, number, rc, "ring the NIC");
	if (!flow->spec->rate_bps || (flow->spec->size_bytes && flow->queued == flow->spec->size_bytes))
		return 0;
	return timers_add(&run->timers,
			  (struct timer){ flow->start_ns + pace_next(&flow->pace, flow->spec, flow->queued),
					  TIMER_OFFER, number });
}

/* Packets that were sent once are still sent until they have arrived, and nothing more. */
void rdma_stop(struct run *run, uint32_t number)
{
	struct nic_sender *row = nic_sender(&run->nics, number);

	__atomic_store_n(&row->end, row->high, __ATOMIC_RELEASE);
}

void rdma_abort(struct run *run)
{
	for (uint32_t i = 0; run->nics.sockets && i < run->table->flows; i++)
		if (run->table->flow[i].transport == FLOW_RDMA)
			__atomic_store_n(&nic_sender(&run->nics, i)->end, 0, __ATOMIC_RELEASE);
}

/* --- what has arrived -------------------------------------------------------------------------------- */

int rdma_look(struct run *run, uint32_t number)
{
	const struct nic_receiver *row = nic_receiver(&run->nics, number);
	struct flow *flow = &run->flows.flow[number];

	flow->received = arrived_bytes(row);
	if (flow->messages.any && flow->phase == PHASE_SENDING && !row->broken_messages)
		job_arrived(&run->job, &flow->messages, flow->received, (int64_t)row->last_ns);
	if (flow->phase != PHASE_SENDING || !flow->spec->size_bytes ||
	    flow->received < flow->spec->size_bytes)
		return 0;
	if (row->broken_messages)
		return flow_fail(run, number, -EBADMSG, "checksum of a message");
	return flow_end(run, number, TGEN_DONE, (int64_t)row->last_ns);
}

int rdma_on_bell(struct run *run, uint32_t nic)
{
	uint32_t number;
	int rc = nic_heard(&run->nics, nic, &number);

	if (rc == -EAGAIN || rc == -EBADMSG)
		return 0;
	if (rc)
		return run_fault(run, rc, "NIC %u: hear its bell", nic);
	if (number >= run->table->flows || run->table->flow[number].transport != FLOW_RDMA)
		return 0;
	return rdma_look(run, number);
}

static uint32_t in_us(uint32_t ns)
{
	return ns ? (ns + NS_PER_US / 2) / NS_PER_US + (ns < NS_PER_US / 2) : 0;
}

static uint64_t rate_of(const struct run *run, const struct nic_sender *row)
{
	unsigned __int128 line = nic_port(&run->nics, row->port)->line_bps;

	return (uint64_t)(line * row->rate / CC_LINE_RATE);
}

static uint32_t not_sent(const struct flow *flow, const struct nic_sender *row)
{
	uint64_t sent = rdma_bytes(row->high, row->payload_bytes, row->message_bytes, row->total_bytes);
	uint64_t left = flow->queued != UINT64_MAX && flow->queued > sent ? flow->queued - sent : 0;

	return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

void rdma_sample(const struct run *run, uint32_t number, struct tgen_sample_record *sample)
{
	const struct nic_sender *row = nic_sender(&run->nics, number);

	sample->delivery_rate_bps = rate_of(run, row);
	sample->bytes_acked = acked_bytes(row);
	sample->bytes_received = arrived_bytes(nic_receiver(&run->nics, number));
	sample->srtt_us = in_us(row->rtt_ns);
	sample->min_rtt_us = in_us(row->least_rtt_ns);
	sample->cwnd_packets = row->flow.packet_bytes ? row->window_bytes / row->flow.packet_bytes : 0;
	sample->notsent_bytes = not_sent(&run->flows.flow[number], row);
	sample->retransmits = (uint32_t)row->resent_packets;
}

/* A stopped flow drains until all that it sent is acknowledged. A bell can be lost, if far too many come. */
int rdma_sampled(struct run *run, uint32_t number)
{
	const struct nic_sender *row = nic_sender(&run->nics, number);

	if (run->flows.flow[number].phase == PHASE_ENDED && row->acked >= row->end)
		flow_set_draining(&run->flows, number, false);
	return rdma_look(run, number);
}

int rdma_settle(struct run *run, uint32_t number)
{
	struct tgen_sample_record last = { 0 };
	struct flow *flow = &run->flows.flow[number];

	if (flow->phase == PHASE_WAITING)
		return 0;
	rdma_sample(run, number, &last);
	flow->sent = last.bytes_acked;
	flow->retransmits = last.retransmits;
	publish_sample(run, number, &last);
	return rdma_look(run, number);
}

void rdma_record(const struct run *run, uint32_t number, struct tgen_nic_record *record)
{
	const struct nic_sender *sender = nic_sender(&run->nics, number);
	const struct nic_receiver *receiver = nic_receiver(&run->nics, number);

	*record = (struct tgen_nic_record){
		.flow = number,
		.rtt_ns = sender->rtt_ns,
		.least_rtt_ns = sender->least_rtt_ns,
		.window_bytes = sender->window_bytes,
		.rate_bps = rate_of(run, sender),
		.sent_packets = sender->sent_packets,
		.sent_bytes = sender->sent_bytes,
		.resent_packets = sender->resent_packets,
		.received_packets = receiver->received_packets,
		.marked_packets = receiver->marked_packets,
		.dropped_packets = receiver->dropped_packets,
		.messages = receiver->messages,
		.broken_messages = receiver->broken_messages,
		.cnps = sender->cnps,
		.nacks = sender->nacks,
		.timeouts = sender->timeouts,
		.rtts = sender->rtts,
		.probes = sender->probes,
		.probe_bytes = sender->probe_bytes,
		.decisions = sender->decisions,
		.lost_events = sender->lost_events,
	};
}
