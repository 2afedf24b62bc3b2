/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

#include "tgen_job.h"
#include "tgen_orders.h"
#include "tgen_rdma.h"
#include "tgen_transport.h"
#include "tgen_udp.h"

#define EVENTS    256
#define LOOKS_MAX ((RUN_CALLS - 2) / 2) /* two calls a flow, beside those that set the timer and wait */
/* After so many waits in a row that ended alike, the next one is taken to end so, too. */
#define ALIKE_MIN 2

/* The next instant at which flows are looked at, for the log, for the state matrix or for both. */
static int plan_sample(struct loop *loop)
{
	const struct run_config *c = loop->run->config;
	int64_t at = loop->next_sample < loop->next_publish ? loop->next_sample : loop->next_publish;

	return at < c->t0_ns + c->duration_ns
		       ? timers_add(&loop->run->timers, (struct timer){ .at = at, .kind = TIMER_SAMPLE })
		       : 0;
}

int loop_open(struct loop *loop, struct run *run)
{
	const struct run_config *c = run->config;
	int rc;

	*loop = (struct loop){ .run = run,
			       .next_sample = c->sample_ns ? c->t0_ns : INT64_MAX,
			       .next_publish = c->publish_ns ? c->t0_ns : INT64_MAX };
	loop->looks = calloc(LOOKS_MAX, sizeof(*loop->looks));
	rc = loop->looks ? plan_sample(loop) : -ENOMEM;
	return rc ? run_fault(run, rc, "allocate %u flows", run->table->flows) : 0;
}

void loop_close(struct loop *loop)
{
	free(loop->looks);
	loop->looks = NULL;
}

/* Returns true if `*next` is now, and moves it on. */
static bool is_due(int64_t *next, int64_t interval_ns, int64_t at)
{
	if (*next != at)
		return false;
	*next += interval_ns;
	return true;
}

/* Chooses the flows to look at from the flow `*next` on, at most LOOKS_MAX: how many. */
static uint32_t choose_looks(struct loop *loop, uint32_t *next)
{
	const struct flows *flows = &loop->run->flows;
	uint32_t count = 0;

	for (; *next < flows->count && count < LOOKS_MAX; ++*next) {
		uint64_t bits = (flows->under_way[*next / 64] | flows->draining[*next / 64]) >> *next % 64;

		if (!bits) /* none in the rest of this word */
			*next |= 63;
		else if (bits & 1)
			loop->looks[count++].flow = *next;
	}
	return count;
}

static void plan_looks(struct loop *loop, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		transport_plan_look(loop->run, &loop->looks[i]);
}

/* The kernel is asked about all of them by one call. */
static int look(struct loop *loop, uint32_t count)
{
	struct run *run = loop->run;
	const char *step;
	int rc;

	plan_looks(loop, count);
	rc = run->calls.n ? run_calls(run, &step) : 0;
	return rc ? run_fault(run, rc, "%s of %u flows", step, count) : 0;
}

static int sample_flows(struct loop *loop, uint32_t count, int64_t at, unsigned int uses)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < count; i++)
		rc = transport_sample(loop->run, &loop->looks[i], at, uses);
	return rc;
}

static int sample(struct loop *loop, int64_t at)
{
	const struct run_config *c = loop->run->config;
	unsigned int uses = 0;
	uint32_t next = 0, count;
	int rc;

	uses |= is_due(&loop->next_sample, c->sample_ns, at) ? SAMPLE_LOG : 0;
	uses |= is_due(&loop->next_publish, c->publish_ns, at) ? SAMPLE_PUBLISH : 0;
	rc = loop->foreseen ? sample_flows(loop, loop->foreseen, at, uses) : udp_take(loop->run);
	while (!rc && !loop->foreseen && (count = choose_looks(loop, &next))) {
		rc = look(loop, count);
		if (!rc)
			rc = sample_flows(loop, count, at, uses);
	}
	return rc ? rc : plan_sample(loop);
}

static int act(struct loop *loop, struct timer timer)
{
	struct run *run = loop->run;

	switch ((enum timer_kind)timer.kind) {
	case TIMER_END:
		loop->over = true;
		return 0;
	case TIMER_SAMPLE:
		return sample(loop, timer.at);
	case TIMER_STOP:
		return transport_stop(run, timer.flow, timer.at);
	case TIMER_START:
		return transport_start(run, timer.flow, timer.at);
	case TIMER_OFFER:
		return transport_offer(run, timer.flow, timer.at);
	case TIMER_DRAIN:
		return udp_drain(run, timer.flow, timer.at);
	case TIMER_JOB:
		return job_on_timer(run, timer.flow, timer.at);
	}
	return 0;
}

static bool is_stale(const struct run *run, struct timer timer)
{
	return (timer.kind == TIMER_STOP || timer.kind == TIMER_OFFER) &&
	       run->flows.flow[timer.flow].phase == PHASE_ENDED;
}

/* Something else happened than that it is time to look at flows. */
static void surprise(struct loop *loop)
{
	loop->foreseen = loop->alike = 0;
}

/* The timer is armed for one instant; when it fires, everything planned for then is due, and no clock need be
 * read. */
static int on_timer(struct loop *loop)
{
	struct timers *timers = &loop->run->timers;
	int64_t due = loop->run->watches.armed;
	int rc = 0;

	loop->run->watches.armed = 0;
	while (!rc && !loop->over && timers->count && timers->heap[0].at <= due) {
		struct timer first = timers->heap[0];

		timers_drop_first(timers);
		if (first.kind != TIMER_SAMPLE)
			surprise(loop);
		rc = act(loop, first);
		if (!rc)
			rc = job_go_on(loop->run);
	}
	return rc;
}

/* Returns the time at which something is due next. */
static int64_t next_due(struct run *run)
{
	while (run->timers.count && is_stale(run, run->timers.heap[0]))
		timers_drop_first(&run->timers);
	return run->timers.heap[0].at; /* there always is the end */
}

/* Takes the looks that are due next with the wait for their time, where it is likely to end with that. A run
 * of long flows, as an agent's, then enters the kernel half as often. */
static void foresee(struct loop *loop)
{
	const struct run *run = loop->run;
	uint32_t next = 0;

	loop->foreseen = 0;
	if (loop->alike < ALIKE_MIN || run->receivers.udp_count || run->timers.heap[0].kind != TIMER_SAMPLE)
		return;
	loop->foreseen = choose_looks(loop, &next);
	if (loop->foreseen == LOOKS_MAX) /* there may be more, which a second call would ask about */
		loop->foreseen = 0;
	plan_looks(loop, loop->foreseen);
}

/* Arms the timer and waits, by one call: how many events. */
static int wait_for_events(struct loop *loop, struct epoll_event events[EVENTS])
{
	struct run *run = loop->run;
	int64_t at = next_due(run);
	const struct itimerspec when = { .it_value = { at / NS_PER_S, at % NS_PER_S } };
	const char *step;
	const __s64 *waited;
	int rc;

	if (at != run->watches.armed)
		calls_add(&run->calls, "timerfd_settime", SYS_timerfd_settime,
			  (__u64[6]){ (__u64)run->watches.timer, TFD_TIMER_ABSTIME, (uintptr_t)&when });
	waited = calls_add(&run->calls, "epoll_wait", SYS_epoll_wait,
			   (__u64[6]){ (__u64)run->watches.epoll, (uintptr_t)events, EVENTS, (__u64)-1 });
	foresee(loop);
	rc = run_calls(run, &step);
	if (rc)
		return run_fault(run, rc, "%s", step);
	run->watches.armed = at;
	return (int)*waited;
}

static int dispatch(struct loop *loop, const struct epoll_event *e)
{
	struct run *run = loop->run;
	uint32_t number = (uint32_t)e->data.u64;

	switch ((enum watch)(e->data.u64 >> 32)) {
	case WATCH_TIMER:
		return on_timer(loop);
	case WATCH_SIGNAL:
		return run_fault(run, -EINTR, "run the flows");
	case WATCH_LISTENER:
		return tcp_accept(run, number);
	case WATCH_SENDER:
		return transport_on_sender(run, number, e->events);
	case WATCH_RECEIVER:
		return tcp_on_receiver(run, number, e->events);
	case WATCH_BELL:
		return rdma_on_bell(run, number);
	case WATCH_ORDERS:
		return orders_on_signal(run);
	}
	return 0;
}

/* An event may make nodes of jobs ready. */
static int dispatch_one(struct loop *loop, const struct epoll_event *e)
{
	int rc = dispatch(loop, e);

	return rc ? rc : job_go_on(loop->run);
}

int loop_run(struct loop *loop)
{
	struct epoll_event events[EVENTS];
	int rc = 0;

	while (!rc && !loop->over) {
		int n = wait_for_events(loop, events);

		if (n < 0)
			return n;
		loop->run->clock.now = 0;
		loop->alike++;
		if (n != 1 || events[0].data.u64 >> 32 != WATCH_TIMER)
			surprise(loop);
		for (int i = 0; !rc && !loop->over && i < n; i++)
			rc = dispatch_one(loop, &events[i]);
	}
	return rc;
}
