/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_tcp.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tgen_flow.h"
#include "tgen_orders.h"
#include "tgen_publish.h"

#define AHEAD_MIN    (32 << 10)
#define AHEAD_MAX    (512 << 10)
#define AHEAD_PER_S  250u              /* a greedy one keeps about 4 ms of its flow's rate ahead */
#define PAYLOAD_CALL (16u << 20)       /* the most that one call offers */
#define READ_CALL    ((size_t)1 << 30) /* more than any receive buffer holds */

/* --- counts, and how a flow ends --------------------------------------------------------------------- */

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
	struct flow *flow = &run->flows.flow[number];
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
	int rc = net_tcp_info(run->flows.flow[number].sender, &info);

	return take_counts(run, number, rc, &info);
}

static int close_and_count(struct run *run, uint32_t number)
{
	struct net_tcp_look look;
	const char *step;
	int rc;

	net_plan_tcp_info(&run->calls, run->flows.flow[number].sender, &look);
	net_plan_close(&run->calls, run->flows.flow[number].sender);
	rc = run_calls(run, &step);
	if (*look.result >= 0)
		run->flows.flow[number].sender = -1;
	return take_counts(run, number, rc ? rc : net_finish_tcp_info(&look), &look.info);
}

static int close_sender(struct run *run, uint32_t number)
{
	int rc = 0;

	if (run->flows.flow[number].sender >= 0)
		rc = close_and_count(run, number);
	flow_close_end(&run->flows.flow[number].sender);
	flow_set_draining(&run->flows, number, false);
	return rc;
}

static int fail(struct run *run, uint32_t number, int error, const char *failed)
{
	int rc = close_sender(run, number);

	return rc ? rc : flow_fail(run, number, error, failed);
}

/* --- the sending end --------------------------------------------------------------------------------- */

int tcp_start(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows.flow[number];
	const char *step;
	int rc;

	flow->ahead = memory_share(&run->memory, AHEAD_FIRST);
	rc = flow_open(run, number, EPOLLOUT | EPOLLRDHUP | EPOLLET, &step);
	flow->start_ns = clock_read(&run->clock);
	flow->phase = PHASE_CONNECTING;
	return rc ? fail(run, number, rc, step) : orders_set(run, number);
}

/* No more data: the FIN follows what the socket holds. */
static int finish_sending(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows.flow[number];

	flow->closed = true;
	if (shutdown(flow->sender, SHUT_WR) < 0)
		return fail(run, number, -errno, "shutdown");
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

int tcp_offer(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows.flow[number];
	const char *step;
	int rc;

	if (flow->phase != PHASE_SENDING || flow->closed)
		return 0;
	rc = push(run, flow, flow_offered(flow, at - flow->established_ns), &step);
	if (rc)
		return fail(run, number, rc, step);
	if (flow->closed || flow->full || !flow->spec->rate_bps)
		return 0;
	return timers_add(
		&run->timers,
		(struct timer){ .at = flow->established_ns + pace_next(&flow->pace, flow->spec, flow->queued),
				.kind = TIMER_OFFER,
				.flow = number });
}

int tcp_stop(struct run *run, uint32_t number, enum phase phase)
{
	if (phase == PHASE_CONNECTING)
		return close_sender(run, number);
	return run->flows.flow[number].closed ? 0 : finish_sending(run, number);
}

/* What an application without a rate offers does not hang on the time, so one system call dates and sends. */
static int established(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows.flow[number];
	int rc;

	flow->phase = PHASE_SENDING;
	if (flow->spec->rate_bps)
		flow->established_ns = clock_read(&run->clock);
	else
		clock_plan(&run->clock, &run->calls);
	rc = tcp_offer(run, number, flow->established_ns);
	flow->established_ns = clock_read(&run->clock);
	return rc;
}

int tcp_on_sender(struct run *run, uint32_t number, uint32_t events)
{
	static const char connection[] = "connection";
	struct flow *flow = &run->flows.flow[number];
	int rc;

	if (events & EPOLLERR) {
		rc = net_error(flow->sender);
		return fail(run, number, rc ? rc : -ECONNRESET, connection);
	}
	if (events &
	    (EPOLLRDHUP | EPOLLHUP)) /* the receiver closes when it has everything, else something is wrong */
		return flow->phase == PHASE_ENDED ? close_sender(run, number)
						  : fail(run, number, -ECONNRESET, connection);
	if (!(events & EPOLLOUT))
		return 0;
	if (flow->phase == PHASE_CONNECTING)
		return established(run, number);
	if (flow->full)
		return tcp_offer(run, number,
				 flow->spec->rate_bps ? clock_read(&run->clock) : flow->established_ns);
	return 0;
}

/* --- the receiving end ------------------------------------------------------------------------------- */

/* Bytes up to where the receiver has to be woken: the end of the flow, or of a message that is under way. */
static uint64_t left_of(const struct flow *flow)
{
	if (flow->messages.any)
		return flow->messages.boundary - flow->received;
	return flow->spec->size_bytes ? flow->spec->size_bytes - flow->received : UINT64_MAX;
}

/* The last bytes of a flow or of a message may be fewer than the batch that the receiver is woken for. */
static bool takes_final_batch(const struct run *run, struct flow *flow)
{
	uint64_t left = left_of(flow);

	if (flow->final_batch || !left || left >= (uint64_t)memory_share(&run->memory, BATCH_MAX))
		return false;
	flow->final_batch = true;
	return true;
}

/* The receiver is woken for so many bytes. Setting it wakes it at once if they are there. */
static int batch_of(const struct run *run, struct flow *flow)
{
	return takes_final_batch(run, flow) ? (int)left_of(flow) : memory_share(&run->memory, BATCH_MAX);
}

int tcp_expect(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows.flow[number];
	int rc;

	flow->final_batch = false;
	if (flow->receiver < 0)
		return 0;
	rc = net_set_batch(flow->receiver, batch_of(run, flow));
	return rc ? run_fault(run, rc, "flow %u: SO_RCVLOWAT", number) : 0;
}

int tcp_accept(struct run *run, uint32_t listener)
{
	struct net_end peer;
	struct net_plan plan;
	const char *step;
	uint32_t number;
	int fd, rc;

	fd = net_accept(run->receivers.listeners[listener], &peer);
	if (fd == -EAGAIN || fd == -ECONNABORTED)
		return 0;
	if (fd < 0)
		return run_fault(run, fd, "flow %u: accept", listener);
	number = receivers_find(&run->receivers, listener, peer);
	if (number == SLOT_EMPTY || run->flows.flow[number].receiver >= 0 ||
	    run->flows.flow[number].phase == PHASE_WAITING) {
		close(fd); /* not one of ours */
		return 0;
	}
	run->flows.flow[number].receiver = fd;
	if (takes_final_batch(run, &run->flows.flow[number]))
		net_plan_batch(&run->calls, &plan, fd, (int)left_of(&run->flows.flow[number]));
	net_plan_watch(&run->calls, &plan, fd, run->watches.epoll,
		       watch_event(EPOLLIN | EPOLLRDHUP | EPOLLET, WATCH_RECEIVER, number));
	rc = run_calls(run, &step);
	return rc ? run_fault(run, rc, "flow %u: receiver: %s", number, step) : 0;
}

static int received(struct run *run, uint32_t number, uint64_t bytes)
{
	struct flow *flow = &run->flows.flow[number];
	int rc = 0;

	flow->received += bytes;
	if (flow->messages.any && bytes && !left_of(flow) &&
	    job_arrived(&run->job, &flow->messages, flow->received, clock_read(&run->clock)))
		rc = tcp_expect(run, number);
	if (rc)
		return rc;
	if (flow->spec->size_bytes && flow->received == flow->spec->size_bytes) {
		flow_close_end(&flow->receiver);
		return flow->phase == PHASE_ENDED ? 0
						  : flow_end(run, number, TGEN_DONE, clock_read(&run->clock));
	}
	if (flow->receiver >= 0 && takes_final_batch(run, flow))
		rc = net_set_batch(flow->receiver, (int)left_of(flow));
	return rc ? run_fault(run, rc, "flow %u: SO_RCVLOWAT", number) : 0;
}

/* Takes what has arrived, up to the end of a message. If that is the last of the flow, the socket is closed;
 * the moment is read at once. */
static int64_t take_arrived(struct run *run, struct flow *flow)
{
	uint64_t left = left_of(flow), want = left < READ_CALL ? left : READ_CALL;
	bool last = flow->received + want == flow->spec->size_bytes;
	const __s64 *got;
	const char *step;

	got = calls_add(&run->calls, "recv", SYS_recvfrom, /* counts and drops, copies nothing */
			(__u64[6]){ (__u64)flow->receiver, 0, want, MSG_TRUNC });
	if (want == left) {
		calls_want_whole(&run->calls, 1 + last);
		if (last)
			net_plan_close(&run->calls, flow->receiver);
		if (flow->phase != PHASE_ENDED)
			clock_plan(&run->clock, &run->calls);
	}
	run_calls(run, &step);
	if (last && *got == (__s64)want)
		flow->receiver = -1;
	return *got;
}

int tcp_on_receiver(struct run *run, uint32_t number, uint32_t events)
{
	struct flow *flow = &run->flows.flow[number];
	int64_t n;
	int rc;

	if (flow->receiver < 0 || !left_of(flow)) /* none of a job's messages is under way */
		return 0;
	n = take_arrived(run, flow);
	if (n < 0)
		return n == -EAGAIN ? 0 : fail(run, number, (int)n, "recv");
	rc = received(run, number, (uint64_t)n);
	/* After the FIN there is nothing left: all data before it was read by the one call, but for a job's.
	 */
	if (n == 0 || ((events & EPOLLRDHUP) && !flow->messages.any))
		flow_close_end(&flow->receiver);
	return rc;
}

/* --- counts ------------------------------------------------------------------------------------------ */

/* Enough for AHEAD_PER_S wake-ups a second, so that little is left to send when a slow flow is told to stop.
 */
static int adapt_ahead(struct run *run, struct flow *flow, uint64_t bytes_per_s)
{
	int max = memory_share(&run->memory, AHEAD_MAX), want = max < AHEAD_MIN ? max : AHEAD_MIN;

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

void tcp_plan_look(struct run *run, struct look *look)
{
	const struct flow *flow = &run->flows.flow[look->flow];

	net_plan_tcp_info(&run->calls, flow->sender, &look->sender);
	if (flow->receiver >= 0)
		net_plan_tcp_info(&run->calls, flow->receiver, &look->receiver);
}

int tcp_sample(struct run *run, const struct look *look, struct tgen_sample_record *sample)
{
	struct flow *flow = &run->flows.flow[look->flow];
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
	orders_read_back(run, look->flow, sample->cwnd_packets);
	rc = sender->tcpi_delivery_rate && !flow->closed ? adapt_ahead(run, flow, sender->tcpi_delivery_rate)
							 : 0;
	return rc ? run_fault(run, rc, "flow %u: TCP_NOTSENT_LOWAT", look->flow) : 0;
}

/*
 * Counts as read the bytes that the receiver's socket has in order, since the application would take them
 * now. Asking costs no virtual time, a recv() that finds nothing would.
 */
int tcp_settle(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows.flow[number];
	int rc = flow->sender >= 0 ? take_sender_counts(run, number) : 0;

	if (!rc)
		rc = arrived(flow, &flow->received);
	return rc ? run_fault(run, rc, "flow %u: TCP_INFO", number) : 0;
}
