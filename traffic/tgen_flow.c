/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tgen_net.h"
#include "tgen_run.h"

#define PAYLOAD_CALL (16u << 20)       /* the most that one call offers */
#define READ_CALL    ((size_t)1 << 30) /* more than any receive buffer holds */
#define CHUNK_UNIT   1448u             /* payload of a full segment on Ethernet */
#define CHUNK_UNITS  45u               /* at most 64 kB a write */
#define CHUNK_PER_S  1000u             /* an application with a rate writes about once a millisecond */
#define AHEAD_PER_S  250u              /* a greedy one keeps about 4 ms of its flow's rate ahead */
#define NS_PER_S     1000000000u

/* --- an application with a rate ---------------------------------------------------------------------- */

static uint64_t chunk_of(const struct flow_spec *spec)
{
	uint64_t units = spec->rate_bps / 8 / CHUNK_PER_S / CHUNK_UNIT;

	units = units < 1 ? 1 : units > CHUNK_UNITS ? CHUNK_UNITS : units;
	return units * CHUNK_UNIT;
}

static uint64_t limit_of(const struct flow_spec *spec)
{
	return spec->size_bytes ? spec->size_bytes : UINT64_MAX;
}

uint64_t offered_bytes(const struct flow_spec *spec, int64_t elapsed)
{
	unsigned __int128 bits;
	uint64_t bytes;

	if (!spec->rate_bps)
		return limit_of(spec);
	bits = (unsigned __int128)spec->rate_bps * (uint64_t)elapsed / NS_PER_S;
	bytes = bits / 8 > UINT64_MAX ? UINT64_MAX : (uint64_t)(bits / 8);
	if (bytes >= limit_of(spec))
		return limit_of(spec);
	return bytes - bytes % chunk_of(spec);
}

int64_t offered_next(const struct flow_spec *spec, uint64_t queued)
{
	uint64_t chunk = chunk_of(spec), next = queued - queued % chunk + chunk;
	unsigned __int128 ns;

	if (next > limit_of(spec))
		next = limit_of(spec);
	ns = ((unsigned __int128)next * 8 * NS_PER_S + spec->rate_bps - 1) / spec->rate_bps;
	return ns > FLOW_TIME_MAX ? FLOW_TIME_MAX : (int64_t)ns;
}

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

static int take_sender_counts(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	struct tcp_info info;
	int rc;

	rc = net_tcp_info(flow->sender, &info);
	if (rc)
		return run_fault(run, rc, "flow %u: TCP_INFO", number);
	flow->sent = payload_acked(flow, &info);
	flow->retransmits = info.tcpi_total_retrans;
	return 0;
}

static int close_sender(struct run *run, uint32_t number)
{
	int rc = 0;

	if (run->flows[number].sender >= 0)
		rc = take_sender_counts(run, number);
	close_fd(&run->flows[number].sender);
	return rc;
}

static void end(struct run *run, struct flow *flow, enum tgen_status status, int64_t at)
{
	activity_add(&run->activity, run->table->rows + flow->spec->path_start, flow->spec->path_len, -1);
	flow->phase = PHASE_ENDED;
	flow->status = status;
	flow->end_ns = at;
}

static int fail(struct run *run, uint32_t number, int error)
{
	struct flow *flow = &run->flows[number];
	int rc = close_sender(run, number);

	close_fd(&flow->receiver);
	if (flow->phase != PHASE_ENDED) {
		end(run, flow, TGEN_FAILED, -1);
		flow->error = -error;
	}
	return rc;
}

/* --- the sending end --------------------------------------------------------------------------------- */

int flow_start(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	const struct flow_spec *spec = flow->spec;
	int rc;

	run->now = 0; /* the connect() before this one took its microsecond */
	flow->start_ns = run_now(run);
	flow->phase = PHASE_CONNECTING;
	activity_add(&run->activity, run->table->rows + spec->path_start, spec->path_len, 1);
	rc = net_connect(flow->sender, (struct net_end){ spec->dst_addr, spec->dst_port });
	if (rc)
		return fail(run, number, rc);
	return run_watch(run, flow->sender, EPOLLOUT | EPOLLRDHUP | EPOLLET, WATCH_SENDER, number);
}

/* No more data: the FIN follows what the socket holds. */
static int finish_sending(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];

	flow->closed = true;
	if (shutdown(flow->sender, SHUT_WR) < 0)
		return fail(run, number, -errno);
	return 0;
}

/* Hands the socket all that is offered. One call that takes less means that the socket is full. */
static int push(struct run *run, struct flow *flow, uint64_t offered)
{
	flow->full = false;
	while (flow->queued < offered && !flow->full) {
		uint64_t left = offered - flow->queued;
		size_t want = left < PAYLOAD_CALL ? (size_t)left : PAYLOAD_CALL;
		off_t from = 0;
		ssize_t n = sendfile(flow->sender, run->payload, &from, want);

		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n > 0)
			flow->queued += (uint64_t)n;
		flow->full = n < (ssize_t)want;
	}
	return 0;
}

int flow_offer(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows[number];
	int rc;

	if (flow->phase != PHASE_SENDING || flow->closed)
		return 0;
	rc = push(run, flow, offered_bytes(flow->spec, at - flow->established_ns));
	if (rc)
		return fail(run, number, rc);
	if (flow->queued == limit_of(flow->spec))
		return finish_sending(run, number);
	if (flow->full || !flow->spec->rate_bps)
		return 0;
	return timers_add(&run->timers,
			  (struct timer){ .at = flow->established_ns + offered_next(flow->spec, flow->queued),
					  .kind = TIMER_OFFER,
					  .flow = number });
}

int flow_stop(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows[number];
	enum phase phase = flow->phase;

	if (phase != PHASE_CONNECTING && phase != PHASE_SENDING)
		return 0;
	end(run, flow, TGEN_STOPPED, at);
	if (phase == PHASE_CONNECTING)
		return close_sender(run, number);
	return flow->closed ? 0 : finish_sending(run, number);
}

static int established(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];

	flow->phase = PHASE_SENDING;
	flow->established_ns = run_now(run);
	return flow_offer(run, number, flow->established_ns);
}

int flow_on_sender(struct run *run, uint32_t number, uint32_t events)
{
	struct flow *flow = &run->flows[number];
	int rc;

	if (flow->sender < 0)
		return 0;
	if (events & EPOLLERR) {
		rc = net_error(flow->sender);
		return fail(run, number, rc ? rc : -ECONNRESET);
	}
	if (events &
	    (EPOLLRDHUP | EPOLLHUP)) /* the receiver closes when it has everything, else something is wrong */
		return flow->phase == PHASE_ENDED ? close_sender(run, number)
						  : fail(run, number, -ECONNRESET);
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

	return slots_find(&run->peers, hash_bytes(0, key, sizeof(key)), same_peer, run->table, &peer);
}

int flow_index_peers(struct run *run)
{
	int rc = slots_init(&run->peers, run->table->flows);

	for (uint32_t i = 0; !rc && i < run->table->flows; i++) {
		const struct flow_spec *spec = &run->table->flow[i];

		*find_peer(run, (struct peer){ spec->listener, spec->src_addr, spec->src_port }) = i;
	}
	return rc;
}

/* The last bytes of a flow may be fewer than the batch that the receiver is woken for. */
static int shrink_batch(struct run *run, struct flow *flow)
{
	uint64_t left = flow->spec->size_bytes - flow->received;

	if (!flow->spec->size_bytes || flow->final_batch || left >= (uint64_t)run->batch)
		return 0;
	flow->final_batch = true;
	return net_set_batch(flow->receiver, (int)left);
}

int flow_accept(struct run *run, uint32_t listener)
{
	struct net_end peer;
	uint32_t number;
	int fd, rc;

	fd = net_accept(run->listeners[listener], &peer);
	if (fd == -EAGAIN || fd == -ECONNABORTED)
		return 0;
	if (fd < 0)
		return run_fault(run, fd, "flow %u: accept", listener);
	number = *find_peer(run, (struct peer){ listener, peer.addr, peer.port });
	if (number == SLOT_EMPTY || run->flows[number].receiver >= 0 ||
	    run->flows[number].phase == PHASE_WAITING) {
		close(fd); /* not one of ours */
		return 0;
	}
	run->flows[number].receiver = fd;
	rc = shrink_batch(run, &run->flows[number]);
	if (rc)
		return run_fault(run, rc, "flow %u: SO_RCVLOWAT", number);
	return run_watch(run, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, WATCH_RECEIVER, number);
}

static int received(struct run *run, uint32_t number, uint64_t bytes)
{
	struct flow *flow = &run->flows[number];
	int rc;

	flow->received += bytes;
	if (flow->spec->size_bytes && flow->received == flow->spec->size_bytes) {
		if (flow->phase != PHASE_ENDED)
			end(run, flow, TGEN_DONE, run_now(run));
		close_fd(&flow->receiver);
		return 0;
	}
	rc = shrink_batch(run, flow);
	return rc ? run_fault(run, rc, "flow %u: SO_RCVLOWAT", number) : 0;
}

int flow_on_receiver(struct run *run, uint32_t number, uint32_t events)
{
	struct flow *flow = &run->flows[number];
	ssize_t n;
	int rc;

	if (flow->receiver < 0)
		return 0;
	n = recv(flow->receiver, NULL, READ_CALL, MSG_TRUNC); /* counts and drops, copies nothing */
	if (n < 0)
		return errno == EAGAIN ? 0 : fail(run, number, -errno);
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
	int min = run->ahead_max < AHEAD_MIN ? run->ahead_max : AHEAD_MIN, want = min;

	while (want < run->ahead_max && (uint64_t)want < bytes_per_s / AHEAD_PER_S)
		want *= 2;
	if (want > run->ahead_max)
		want = run->ahead_max;
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

int flow_sample(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows[number];
	struct tgen_sample_record record;
	struct tcp_info info;
	uint64_t bytes;
	int rc;

	if (flow->phase != PHASE_SENDING)
		return 0;
	rc = net_tcp_info(flow->sender, &info);
	if (!rc)
		rc = arrived(flow, &bytes);
	if (rc)
		return run_fault(run, rc, "flow %u: TCP_INFO", number);
	record = (struct tgen_sample_record){
		.t_ns = at - run->config->t0_ns,
		.delivery_rate_bps = 8 * info.tcpi_delivery_rate,
		.bytes_acked = payload_acked(flow, &info),
		.bytes_received = bytes,
		.flow = number,
		.srtt_us = info.tcpi_rtt,
		.min_rtt_us = info.tcpi_min_rtt,
		.cwnd_packets = info.tcpi_snd_cwnd,
		.notsent_bytes = info.tcpi_notsent_bytes,
		.retransmits = info.tcpi_total_retrans,
	};
	rc = tgen_log_add(&run->samples, &record);
	if (rc)
		return run_fault(run, rc, "write samples.bin");
	rc = info.tcpi_delivery_rate ? adapt_ahead(run, flow, info.tcpi_delivery_rate) : 0;
	return rc ? run_fault(run, rc, "flow %u: TCP_NOTSENT_LOWAT", number) : 0;
}

/*
 * What the receiver's socket has in order counts as read: the application would take it now. Asking costs no
 * virtual time, a recv() that finds nothing would.
 */
int flow_settle(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows[number];
	int rc = 0;

	if (flow->sender >= 0 && flow->phase != PHASE_WAITING)
		rc = take_sender_counts(run, number);
	if (!rc)
		rc = arrived(flow, &flow->received);
	if (rc)
		return run_fault(run, rc, "flow %u: TCP_INFO", number);
	if (flow->phase == PHASE_CONNECTING || flow->phase == PHASE_SENDING)
		end(run, flow, TGEN_RUNNING, -1);
	else if (flow->phase == PHASE_WAITING)
		flow->status = TGEN_RUNNING;
	return 0;
}
