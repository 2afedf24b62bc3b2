/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tgen_net.h"
#include "tgen_run.h"

#define PAYLOAD_CALL (16u << 20)       /* the most that one call offers */
#define READ_CALL    ((size_t)1 << 30) /* more than any receive buffer holds */
#define AHEAD_PER_S  250u              /* a greedy one keeps about 4 ms of its flow's rate ahead */

/* --- how a flow ends --------------------------------------------------------------------------------- */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* The kernel counts the SYN, and the FIN once it is acknowledged; the FIN comes after all payload. */
static uint64_t payload_acked(const struct flow *flow, const struct tcp_info *info)
{
	uint64_t acked = info->tcpi_bytes_acked ? info->tcpi_bytes_acked - 1 : 0;

	return acked < flow->queued ? acked : flow->queued;
}

static uint64_t payload_arrived(const struct flow *flow, const struct tcp_info *info)
{
	return info->tcpi_bytes_received < flow->queued ? info->tcpi_bytes_received : flow->queued;
}

#define TCP_INFINITE_SSTHRESH 0x7fffffff /* of the kernel, whose headers do not export it */

static void fill_sample(const struct flow *flow, const struct tcp_info *info, uint64_t received,
			struct tgen_sample_record *sample)
{
	sample->delivery_rate_bps = 8 * info->tcpi_delivery_rate;
	sample->bytes_acked = payload_acked(flow, info);
	sample->bytes_received = received;
	sample->srtt_us = info->tcpi_rtt;
	sample->min_rtt_us = info->tcpi_min_rtt;
	sample->cwnd_packets = info->tcpi_snd_cwnd;
	sample->notsent_bytes = info->tcpi_notsent_bytes;
	sample->retransmits = info->tcpi_total_retrans;
	if (info->tcpi_pacing_rate != UINT64_MAX)
		sample->pacing_rate_bps = 8 * info->tcpi_pacing_rate;
	if (info->tcpi_snd_ssthresh < TCP_INFINITE_SSTHRESH)
		sample->ssthresh_packets = info->tcpi_snd_ssthresh;
	sample->ca_state = info->tcpi_ca_state;
}

static int take_counts(struct run *run, uint32_t number, int rc, const struct tcp_info *info)
{
	struct flow *flow = &run->flows[number];
	struct tgen_sample_record last = { 0 };

	if (rc)
		return run_fault(run, rc, "flow %u: TCP_INFO", number);
	fill_sample(flow, info, flow->received, &last);
	flow->sent = last.bytes_acked;
	flow->retransmits = last.retransmits;
	publish_sample(run, number, &last);
	return 0;
}

static int take_sender_counts(struct run *run, uint32_t number)
{
	struct tcp_info info;
	int rc = net_tcp_info(run->flows[number].sender, &info);

	return take_counts(run, number, rc, &info);
}

static bool drains(const struct run *run, uint32_t number)
{
	return run->draining[number / 64] >> (number % 64) & 1;
}

static int close_tcp_sender(struct run *run, uint32_t number)
{
	struct net_tcp_look look;
	const char *step;
	int rc;

	net_plan_tcp_info(&run->calls, run->flows[number].sender, &look);
	net_plan_close(&run->calls, run->flows[number].sender);
	rc = run_calls(run, &step);
	if (*look.result >= 0)
		run->flows[number].sender = -1;
	return take_counts(run, number, rc ? rc : net_finish_tcp_info(&look), &look.info);
}

static int close_sender(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	int rc = 0;

	if (flow->sender >= 0 && flow->spec->transport == FLOW_TCP)
		rc = close_tcp_sender(run, number);
	close_fd(&flow->sender);
	run->draining[number / 64] &= ~(UINT64_C(1) << (number % 64));
	return rc;
}

static int open_gate(struct run *run, uint32_t gate, int64_t at)
{
	int64_t over = run->config->t0_ns + run->config->duration_ns;
	int rc = 0;

	for (uint32_t i = run->gate_start[gate]; !rc && i < run->gate_start[gate + 1]; i++) {
		uint32_t number = run->gate_flows[i];
		struct flow *flow = &run->flows[number];

		flow->due_ns = at + flow->spec->start_ns;
		if (flow->due_ns < over)
			rc = timers_add(&run->timers, (struct timer){ flow->due_ns, TIMER_START, number });
	}
	return rc;
}

static void set_under_way(struct run *run, uint32_t number, bool is)
{
	const struct flow_spec *spec = run->flows[number].spec;
	uint64_t bit = UINT64_C(1) << (number % 64);

	tgen_matrix_count(&run->matrix, run->table->rows + spec->path_start, spec->path_len, is ? 1 : -1);
	run->under_way[number / 64] ^= bit;
	run->active += is ? 1u : -1u;
}

int flow_end(struct run *run, uint32_t number, enum tgen_status status, int64_t at)
{
	struct flow *flow = &run->flows[number];
	int rc = 0;

	set_under_way(run, number, false);
	flow->phase = PHASE_ENDED;
	flow->status = status;
	flow->end_ns = status == TGEN_FAILED ? -1 : at;
	if (flow->spec->transport == FLOW_UDP) {
		udp_leave(run, number);
		close_fd(&flow->sender);
	}
	publish_state(run, number);
	for (uint32_t i = 0; !rc && i < flow->spec->opens_len; i++) {
		uint32_t gate = run->table->opens[flow->spec->opens_start + i];

		if (--run->gate_left[gate] == 0)
			rc = open_gate(run, gate, at);
	}
	return rc ? run_fault(run, rc, "flow %u: open a gate", number) : 0;
}

int flow_fail(struct run *run, uint32_t number, int error, const char *failed)
{
	struct flow *flow = &run->flows[number];
	int rc = close_sender(run, number);

	close_fd(&flow->receiver);
	if (rc || flow->phase == PHASE_ENDED)
		return rc;
	flow->error = -error;
	flow->failed = failed;
	return flow_end(run, number, TGEN_FAILED, run_now(run));
}

/* --- the sending end --------------------------------------------------------------------------------- */

struct net_sender flow_sender(const struct run *run, uint32_t number, int ahead)
{
	const struct flow_spec *spec = &run->table->flow[number];

	return (struct net_sender){ .from = { spec->src_addr, spec->src_port },
				    .to = { spec->dst_addr, spec->dst_port },
				    .cc = spec->transport == FLOW_TCP ? spec->cc : NULL,
				    .limits = &run->limits[spec->src_ns],
				    .ahead = ahead,
				    .dscp = spec->dscp };
}

int flow_open(struct run *run, uint32_t number, uint32_t events, const char **step)
{
	struct flow *flow = &run->flows[number];
	const struct net_sender sender = flow_sender(run, number, flow->ahead);
	struct net_plan plan;
	int rc;

	run_plan_enter(run, flow->spec->src_ns);
	net_plan_sender(&run->calls, &plan, &sender);
	run_plan_clock(run);
	net_plan_connect(&run->calls, &plan);
	net_plan_watch(&run->calls, &plan, -1, run->epoll, run_event(events, WATCH_SENDER, number));
	rc = run_calls(run, step);
	flow->sender = *plan.opened < 0 ? -1 : (int)*plan.opened;
	return rc;
}

static int connect_sender(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	const char *step;
	int rc;

	flow->ahead = run_share(run, AHEAD_FIRST);
	rc = flow_open(run, number, EPOLLOUT | EPOLLRDHUP | EPOLLET, &step);
	flow->start_ns = run_now(run);
	flow->phase = PHASE_CONNECTING;
	return rc ? flow_fail(run, number, rc, step) : 0;
}

static int64_t stop_of(const struct run *run, const struct flow *flow)
{
	const struct flow_spec *spec = flow->spec;
	int64_t stop = spec->stop_ns ? run->config->t0_ns + spec->stop_ns : INT64_MAX;
	int64_t end = spec->length_ns ? flow->due_ns + spec->length_ns : INT64_MAX;

	return stop < end ? stop : end;
}

static int (*const starters[NR_TRANSPORTS])(struct run *run, uint32_t number) = {
	[FLOW_TCP] = connect_sender,
	[FLOW_UDP] = udp_start,
	[FLOW_RDMA] = rdma_start,
};

/* A flow whose time is up before it is due keeps waiting, and what waits for it does too. */
int flow_start(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows[number];
	int64_t stop;
	int rc;

	flow->due_ns = at;
	stop = stop_of(run, flow);
	if (stop <= at)
		return 0;
	rc = stop == INT64_MAX ? 0 : timers_add(&run->timers, (struct timer){ stop, TIMER_STOP, number });
	if (rc)
		return rc;
	set_under_way(run, number, true);
	run->now = 0; /* the connect() before this one took its microsecond */
	rc = starters[flow->spec->transport](run, number);
	publish_state(run, number);
	return rc;
}

/* No more data: the FIN follows what the socket holds. */
static int finish_sending(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];

	flow->closed = true;
	if (shutdown(flow->sender, SHUT_WR) < 0)
		return flow_fail(run, number, -errno, "shutdown");
	return 0;
}

/* Hands the socket what one call can, and the FIN after the flow's last byte. One that takes less is full. */
static int push_once(struct run *run, struct flow *flow, uint64_t left, const char **step)
{
	size_t want = left < PAYLOAD_CALL ? (size_t)left : PAYLOAD_CALL;
	bool last = flow->spec->size_bytes && flow->queued + want == flow->spec->size_bytes;
	const __s64 *sent;
	off_t from = 0;
	int rc;

	sent = calls_add(&run->calls, "sendfile", SYS_sendfile,
			 (__u64[6]){ (__u64)flow->sender, (__u64)run->payload, (uintptr_t)&from, want });
	if (last) {
		calls_want_whole(&run->calls, 3);
		calls_add(&run->calls, "shutdown", SYS_shutdown, (__u64[6]){ (__u64)flow->sender, SHUT_WR });
	}
	rc = run_calls(run, step);
	if (*sent > 0)
		flow->queued += (uint64_t)*sent;
	flow->full = *sent < (ssize_t)want;
	flow->closed = last && !flow->full;
	return *sent == -EAGAIN ? 0 : rc;
}

/* The clock has been planned where it is wanted before the first byte. */
static int push(struct run *run, struct flow *flow, uint64_t offered, const char **step)
{
	int rc = 0;

	flow->full = false;
	while (!rc && flow->queued < offered && !flow->full)
		rc = push_once(run, flow, offered - flow->queued, step);
	return rc;
}

int flow_offer(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows[number];
	const char *step;
	int rc;

	if (flow->spec->transport == FLOW_UDP)
		return udp_offer(run, number, at);
	if (flow->spec->transport == FLOW_RDMA)
		return rdma_offer(run, number, at);
	if (flow->phase != PHASE_SENDING || flow->closed)
		return 0;
	rc = push(run, flow, pace_offered(run, flow, at - flow->established_ns), &step);
	if (rc)
		return flow_fail(run, number, rc, step);
	if (flow->closed || flow->full || !flow->spec->rate_bps)
		return 0;
	return timers_add(&run->timers, (struct timer){ .at = flow->established_ns + pace_next(flow),
							.kind = TIMER_OFFER,
							.flow = number });
}

int flow_stop(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows[number];
	enum phase phase = flow->phase;
	int rc;

	if (phase != PHASE_CONNECTING && phase != PHASE_SENDING)
		return 0;
	rc = flow_end(run, number, TGEN_STOPPED, at);
	if (rc || flow->spec->transport == FLOW_UDP)
		return rc;
	if (phase == PHASE_CONNECTING)
		return close_sender(run, number);
	run->draining[number / 64] |= UINT64_C(1) << (number % 64); /* samples go on until all has arrived */
	if (flow->spec->transport == FLOW_RDMA) {
		rdma_stop(run, number);
		return 0;
	}
	return flow->closed ? 0 : finish_sending(run, number);
}

/* What an application without a rate offers does not hang on the time, so one system call dates and sends. */
static int established(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	int rc;

	flow->phase = PHASE_SENDING;
	if (flow->spec->rate_bps)
		flow->established_ns = run_now(run);
	else
		run_plan_clock(run);
	rc = flow_offer(run, number, flow->established_ns);
	flow->established_ns = run_now(run);
	return rc;
}

int flow_on_sender(struct run *run, uint32_t number, uint32_t events)
{
	static const char connection[] = "connection";
	struct flow *flow = &run->flows[number];
	int rc;

	if (flow->sender < 0)
		return 0;
	if (flow->spec->transport == FLOW_UDP)
		return udp_on_sender(run, number, events);
	if (events & EPOLLERR) {
		rc = net_error(flow->sender);
		return flow_fail(run, number, rc ? rc : -ECONNRESET, connection);
	}
	if (events &
	    (EPOLLRDHUP | EPOLLHUP)) /* the receiver closes when it has everything, else something is wrong */
		return flow->phase == PHASE_ENDED ? close_sender(run, number)
						  : flow_fail(run, number, -ECONNRESET, connection);
	if (!(events & EPOLLOUT))
		return 0;
	if (flow->phase == PHASE_CONNECTING)
		return established(run, number);
	if (flow->full)
		return flow_offer(run, number, flow->spec->rate_bps ? run_now(run) : flow->established_ns);
	return 0;
}

/* --- the receiving end ------------------------------------------------------------------------------- */

struct peer {
	uint32_t listener, addr;
	uint16_t port;
};

static int same_peer(const void *context, uint32_t element, const void *key)
{
	const struct flow_spec *spec = &((const struct flow_table *)context)->flow[element];
	const struct peer *peer = key;

	return spec->listener == peer->listener && spec->src_addr == peer->addr &&
	       spec->src_port == peer->port;
}

static uint32_t *find_peer(const struct run *run, struct peer peer)
{
	uint32_t key[] = { peer.listener, peer.addr, peer.port };

	return slots_find(&run->peers, hash_bytes(key, sizeof(key)), same_peer, run->table, &peer);
}

uint32_t flow_of_peer(const struct run *run, uint32_t listener, struct net_end peer)
{
	return *find_peer(run, (struct peer){ listener, peer.addr, peer.port });
}

int flow_index_peers(struct run *run)
{
	int rc = slots_init(&run->peers, run->table->flows);

	if (rc)
		return run_fault(run, rc, "allocate %u flows", run->table->flows);
	for (uint32_t i = 0; i < run->table->flows; i++) {
		const struct flow_spec *spec = &run->table->flow[i];
		uint32_t *slot =
			find_peer(run, (struct peer){ spec->listener, spec->src_addr, spec->src_port });

		if (*slot != SLOT_EMPTY)
			return run_fault(run, -EINVAL,
					 "--flows: flow %u, src_port: %u is that of flow %u, too; give flows "
					 "between the same ends ports of their own",
					 i, spec->src_port, *slot);
		*slot = i;
	}
	return 0;
}

/* The last bytes of a flow may be fewer than the batch that the receiver is woken for. */
static bool takes_final_batch(const struct run *run, struct flow *flow)
{
	uint64_t left = flow->spec->size_bytes - flow->received;

	if (!flow->spec->size_bytes || flow->final_batch || left >= (uint64_t)run_share(run, BATCH_MAX))
		return false;
	flow->final_batch = true;
	return true;
}

/* Called with less left than a batch. */
static int left_of(const struct flow *flow)
{
	return (int)(flow->spec->size_bytes - flow->received);
}

int flow_accept(struct run *run, uint32_t listener)
{
	struct net_end peer;
	struct net_plan plan;
	const char *step;
	uint32_t number;
	int fd, rc;

	fd = net_accept(run->listeners[listener], &peer);
	if (fd == -EAGAIN || fd == -ECONNABORTED)
		return 0;
	if (fd < 0)
		return run_fault(run, fd, "flow %u: accept", listener);
	number = flow_of_peer(run, listener, peer);
	if (number == SLOT_EMPTY || run->flows[number].receiver >= 0 ||
	    run->flows[number].phase == PHASE_WAITING) {
		close(fd); /* not one of ours */
		return 0;
	}
	run->flows[number].receiver = fd;
	if (takes_final_batch(run, &run->flows[number]))
		net_plan_batch(&run->calls, &plan, fd, left_of(&run->flows[number]));
	net_plan_watch(&run->calls, &plan, fd, run->epoll,
		       run_event(EPOLLIN | EPOLLRDHUP | EPOLLET, WATCH_RECEIVER, number));
	rc = run_calls(run, &step);
	return rc ? run_fault(run, rc, "flow %u: receiver: %s", number, step) : 0;
}

static int received(struct run *run, uint32_t number, uint64_t bytes)
{
	struct flow *flow = &run->flows[number];
	int rc;

	flow->received += bytes;
	if (flow->spec->size_bytes && flow->received == flow->spec->size_bytes) {
		close_fd(&flow->receiver);
		return flow->phase == PHASE_ENDED ? 0 : flow_end(run, number, TGEN_DONE, run_now(run));
	}
	rc = takes_final_batch(run, flow) ? net_set_batch(flow->receiver, left_of(flow)) : 0;
	return rc ? run_fault(run, rc, "flow %u: SO_RCVLOWAT", number) : 0;
}

/* Takes what has arrived. If that is the last, the socket is closed and the moment is read at once. */
static int64_t take_arrived(struct run *run, struct flow *flow)
{
	uint64_t left = flow->spec->size_bytes ? flow->spec->size_bytes - flow->received : UINT64_MAX;
	uint64_t want = left < READ_CALL ? left : READ_CALL;
	const __s64 *got;
	const char *step;

	got = calls_add(&run->calls, "recv", SYS_recvfrom, /* counts and drops, copies nothing */
			(__u64[6]){ (__u64)flow->receiver, 0, want, MSG_TRUNC });
	if (want == left) {
		calls_want_whole(&run->calls, 2);
		net_plan_close(&run->calls, flow->receiver);
		if (flow->phase != PHASE_ENDED)
			run_plan_clock(run);
	}
	run_calls(run, &step);
	if (want == left && *got == (__s64)left)
		flow->receiver = -1;
	return *got;
}

int flow_on_receiver(struct run *run, uint32_t number, uint32_t events)
{
	struct flow *flow = &run->flows[number];
	int64_t n;
	int rc;

	if (flow->receiver < 0)
		return 0;
	n = take_arrived(run, flow);
	if (n < 0)
		return n == -EAGAIN ? 0 : flow_fail(run, number, (int)n, "recv");
	rc = received(run, number, (uint64_t)n);
	/* After the FIN there is nothing left: all data before it was read by the one call. */
	if (n == 0 || (events & EPOLLRDHUP))
		close_fd(&flow->receiver);
	return rc;
}

/* --- counts ------------------------------------------------------------------------------------------ */

/* Enough for AHEAD_PER_S wake-ups a second, so that little is left to send when a slow flow is told to stop.
 */
static int adapt_ahead(struct run *run, struct flow *flow, uint64_t bytes_per_s)
{
	int max = run_share(run, AHEAD_MAX), want = max < AHEAD_MIN ? max : AHEAD_MIN;

	while (want < max && (uint64_t)want < bytes_per_s / AHEAD_PER_S)
		want *= 2;
	if (want > max)
		want = max;
	if (flow->spec->rate_bps || (want <= flow->ahead && want > flow->ahead / 4))
		return 0;
	flow->ahead = want;
	return net_set_ahead(flow->sender, want);
}

static int arrived(const struct flow *flow, uint64_t *bytes)
{
	struct tcp_info info;
	int rc;

	*bytes = flow->received;
	if (flow->receiver < 0)
		return 0;
	rc = net_tcp_info(flow->receiver, &info);
	if (!rc)
		*bytes = payload_arrived(flow, &info);
	return rc;
}

static bool is_sampled(const struct run *run, uint32_t number)
{
	return run->flows[number].phase == PHASE_SENDING || drains(run, number);
}

void flow_plan_look(struct run *run, struct look *look)
{
	const struct flow *flow = &run->flows[look->flow];

	if (flow->spec->transport != FLOW_TCP || !is_sampled(run, look->flow))
		return;
	net_plan_tcp_info(&run->calls, flow->sender, &look->sender);
	if (flow->receiver >= 0)
		net_plan_tcp_info(&run->calls, flow->receiver, &look->receiver);
}

static int sample_tcp(struct run *run, const struct look *look, struct tgen_sample_record *sample)
{
	struct flow *flow = &run->flows[look->flow];
	const struct tcp_info *sender = &look->sender.info;
	uint64_t bytes = flow->received;
	int rc;

	rc = net_finish_tcp_info(&look->sender);
	if (!rc && flow->receiver >= 0)
		rc = net_finish_tcp_info(&look->receiver);
	if (rc)
		return run_fault(run, rc, "flow %u: TCP_INFO", look->flow);
	if (!sender->tcpi_unacked)
		bytes = payload_acked(flow, sender);
	else if (flow->receiver >= 0)
		bytes = payload_arrived(flow, &look->receiver.info);
	fill_sample(flow, sender, bytes, sample);
	rc = sender->tcpi_delivery_rate && !flow->closed ? adapt_ahead(run, flow, sender->tcpi_delivery_rate)
							 : 0;
	return rc ? run_fault(run, rc, "flow %u: TCP_NOTSENT_LOWAT", look->flow) : 0;
}

int flow_sample(struct run *run, const struct look *look, int64_t at, unsigned int uses)
{
	uint32_t number = look->flow;
	const struct flow *flow = &run->flows[number];
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
		rc = sample_tcp(run, look, &sample);
	else if (flow->spec->transport == FLOW_RDMA)
		rdma_sample(run, number, &sample);
	else
		sample.bytes_acked = flow->queued, sample.bytes_received = flow->received;
	if (rc)
		return rc;
	if (uses & SAMPLE_PUBLISH)
		publish_sample(run, number, &sample);
	rc = uses & SAMPLE_LOG ? tgen_log_add(&run->samples, &sample) : 0;
	if (rc)
		return run_fault(run, rc, "write samples.bin");
	return flow->spec->transport == FLOW_RDMA ? rdma_sampled(run, number) : 0;
}

/*
 * Counts as read the bytes that the receiver's socket has in order, since the application would take them
 * now. Asking costs no virtual time, a recv() that finds nothing would.
 */
int flow_settle(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	int rc = 0;

	if (flow->spec->transport == FLOW_UDP)
		flow->sent = flow->queued;
	else if (flow->spec->transport == FLOW_RDMA)
		rc = rdma_settle(run, number);
	else if (flow->sender >= 0)
		rc = take_sender_counts(run, number);
	if (!rc)
		rc = arrived(flow, &flow->received);
	if (rc)
		return run_fault(run, rc, "flow %u: TCP_INFO", number);
	if (flow->phase == PHASE_CONNECTING || flow->phase == PHASE_SENDING)
		flow->status = TGEN_RUNNING; /* and counts as under way until it is closed */
	else if (flow->phase == PHASE_WAITING)
		flow->status = TGEN_WAITING;
	publish_state(run, number);
	return 0;
}
