/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_udp.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "tgen_flow.h"
#include "tgen_net.h"
#include "tgen_publish.h"

#define DRAIN_COUNT  48 /* datagrams that a sink should find; NET_BATCH is the most that one call takes */
#define ROW_MAX      16 /* datagrams that one system call sends */
#define DRAIN_MIN_NS 20000
#define DRAIN_MAX_NS 100000000

static int plan_drain(struct run *run, uint32_t listener, int64_t at)
{
	struct sink *sink = &run->receivers.sinks[listener];
	unsigned __int128 ns = (unsigned __int128)DRAIN_COUNT * sink->datagram_bytes * 8 * NS_PER_S;

	if (sink->timed || !sink->rate_bps)
		return 0;
	ns /= sink->rate_bps;
	ns = ns < DRAIN_MIN_NS ? DRAIN_MIN_NS : ns > DRAIN_MAX_NS ? DRAIN_MAX_NS : ns;
	sink->timed = true;
	return timers_add(&run->timers, (struct timer){ at + (int64_t)ns, TIMER_DRAIN, listener });
}

int udp_start(struct run *run, uint32_t number)
{
	struct flow *flow = &run->flows.flow[number];
	const struct flow_spec *spec = flow->spec;
	const char *step;
	int rc;

	flow->phase = PHASE_SENDING;
	receivers_join(&run->receivers, spec);
	rc = flow_open(run, number, EPOLLOUT | EPOLLET, &step);
	flow->start_ns = flow->established_ns = clock_read(&run->clock);
	if (rc)
		return flow_fail(run, number, rc, step);
	rc = plan_drain(run, spec->listener, flow->start_ns);
	return rc ? rc : udp_offer(run, number, flow->start_ns);
}

/* Sends datagrams in a row; the socket is full at the first that it does not take. */
static int push_row(struct run *run, struct flow *flow, uint64_t offered, const char **step)
{
	static const char payload[FLOW_PACKET_MAX];
	uint32_t most = flow->spec->packet_bytes;
	const __s64 *sent[ROW_MAX];
	uint32_t count = 0;
	int rc;

	for (uint64_t at = flow->queued; at < offered && count < ROW_MAX; count++) {
		uint64_t want = offered - at < most ? offered - at : most;

		sent[count] = calls_add(&run->calls, "send", SYS_sendto,
					(__u64[6]){ (__u64)flow->sender, (uintptr_t)payload, want });
		at += want;
	}
	rc = run_calls(run, step);
	for (uint32_t i = 0; i<count && * sent[i]> 0; i++)
		flow->queued += (uint64_t)*sent[i];
	flow->full = rc == -EAGAIN;
	return flow->full ? 0 : rc;
}

static int push(struct run *run, struct flow *flow, uint64_t offered, const char **step)
{
	int rc = 0;

	flow->full = false;
	while (!rc && flow->queued < offered && !flow->full)
		rc = push_row(run, flow, offered, step);
	return rc;
}

int udp_offer(struct run *run, uint32_t number, int64_t at)
{
	struct flow *flow = &run->flows.flow[number];
	const char *step;
	int rc;

	if (flow->phase != PHASE_SENDING)
		return 0;
	rc = push(run, flow, pace_offered(&flow->pace, flow->spec, at - flow->start_ns), &step);
	if (rc)
		return flow_fail(run, number, rc, step);
	if (flow->spec->size_bytes && flow->queued == flow->spec->size_bytes)
		return flow_end(run, number, TGEN_DONE, clock_read(&run->clock));
	if (flow->full)
		return 0;
	return timers_add(&run->timers,
			  (struct timer){ flow->start_ns + pace_next(&flow->pace, flow->spec, flow->queued),
					  TIMER_OFFER, number });
}

int udp_on_sender(struct run *run, uint32_t number, uint32_t events)
{
	struct flow *flow = &run->flows.flow[number];
	int rc;

	if (events & EPOLLERR) {
		rc = net_error(flow->sender);
		return flow_fail(run, number, rc ? rc : -ECONNRESET, "send");
	}
	return flow->full ? udp_offer(run, number, clock_read(&run->clock)) : 0;
}

/* No sample will show bytes that arrive after a flow's end. */
static void count_datagram(struct run *run, uint32_t number, uint32_t bytes)
{
	struct flow *flow = &run->flows.flow[number];

	flow->received += bytes;
	if (flow->phase == PHASE_ENDED)
		publish_received(run, number, flow->received);
}

static int take(struct run *run, uint32_t listener)
{
	struct net_datagram datagrams[NET_BATCH];
	int n, fd = run->receivers.listeners[listener];

	do {
		n = net_receive(fd, datagrams);
		if (n < 0)
			return run_fault(run, n, "flow %u: receive datagrams", listener);
		for (int i = 0; i < n; i++) {
			uint32_t number = receivers_find(&run->receivers, listener, datagrams[i].from);

			if (number != SLOT_EMPTY)
				count_datagram(run, number, datagrams[i].bytes);
		}
	} while (n == NET_BATCH);
	return 0;
}

int udp_take(struct run *run)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < run->receivers.udp_count; i++)
		rc = take(run, run->receivers.udp[i]);
	return rc;
}

int udp_drain(struct run *run, uint32_t listener, int64_t at)
{
	int rc;

	run->receivers.sinks[listener].timed = false;
	rc = take(run, listener);
	return rc ? rc : plan_drain(run, listener, at);
}
