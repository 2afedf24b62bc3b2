/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS       256
#define PAYLOAD_FILE (16 << 20) /* at least what one sendfile() offers; a hole */

int run_fault(struct run *run, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run->fault, sizeof(run->fault), format, args);
	va_end(args);
	return rc;
}

int64_t clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t run_now(struct run *run)
{
	if (!run->now)
		run->now = clock_now();
	return run->now;
}

void run_plan_clock(struct run *run)
{
	if (!run->now)
		calls_add(&run->calls, "clock_gettime", SYS_clock_gettime,
			  (__u64[6]){ CLOCK_MONOTONIC, (uintptr_t)&run->clock });
}

int run_calls(struct run *run, const char **step)
{
	int made = calls_run(&run->calls);

	if (run->clock.tv_sec || run->clock.tv_nsec)
		run->now = (int64_t)run->clock.tv_sec * NS_PER_S + run->clock.tv_nsec;
	run->clock = (struct timespec){ 0 };
	return calls_failed(&run->calls, made, step);
}

struct epoll_event run_event(uint32_t events, enum watch kind, uint32_t number)
{
	return (struct epoll_event){ .events = events, .data.u64 = (uint64_t)kind << 32 | number };
}

int run_watch(struct run *run, int fd, uint32_t events, enum watch kind, uint32_t number)
{
	struct epoll_event e = run_event(events, kind, number);

	if (epoll_ctl(run->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
		return run_fault(run, -errno, "epoll_ctl");
	return 0;
}

/* --- opening ----------------------------------------------------------------------------------------- */

static int *no_descriptors(uint32_t count)
{
	int *fds = malloc((count + 1) * sizeof(*fds));

	if (fds)
		memset(fds, 0xff, (count + 1) * sizeof(*fds));
	return fds;
}

static int allocate(struct run *run)
{
	const struct flow_table *t = run->table;

	run->flows = calloc(t->flows + 1, sizeof(*run->flows));
	run->sinks = calloc(t->flows + 1, sizeof(*run->sinks));
	run->udp = calloc(t->flows + 1, sizeof(*run->udp));
	run->under_way = calloc(t->flows / 64 + 1, sizeof(*run->under_way));
	run->draining = calloc(t->flows / 64 + 1, sizeof(*run->draining));
	run->limits = calloc(t->namespaces + 1, sizeof(*run->limits));
	run->namespaces = no_descriptors(t->namespaces);
	run->listeners = no_descriptors(t->flows);
	run->looks = calloc(LOOKS_MAX, sizeof(*run->looks));
	if (!run->flows || !run->sinks || !run->udp || !run->under_way || !run->draining || !run->limits ||
	    !run->namespaces || !run->listeners || !run->looks || calls_open(&run->calls, 2 + 2 * LOOKS_MAX))
		return -ENOMEM;
	for (uint32_t i = 0; i < t->flows; i++)
		run->flows[i] = (struct flow){ .spec = &t->flow[i],
					       .sender = -1,
					       .receiver = -1,
					       .due_ns = -1,
					       .start_ns = -1,
					       .established_ns = -1,
					       .end_ns = -1 };
	return 0;
}

/* The flows behind each gate, by a counting sort. */
static int index_gates(struct run *run)
{
	const struct flow_table *t = run->table;
	uint32_t *start;

	start = run->gate_start = calloc(t->gates + 2, sizeof(*run->gate_start));
	run->gate_flows = calloc(t->flows + 1, sizeof(*run->gate_flows));
	run->gate_left = calloc(t->gates + 1, sizeof(*run->gate_left));
	if (!run->gate_start || !run->gate_flows || !run->gate_left)
		return -ENOMEM;
	memcpy(run->gate_left, t->needs, t->gates * sizeof(*t->needs));
	for (uint32_t i = 0; i < t->flows; i++)
		if (t->flow[i].gate != FLOW_NO_GATE)
			start[t->flow[i].gate + 2]++;
	for (uint32_t g = 2; g < t->gates + 2; g++)
		start[g] += start[g - 1];
	for (uint32_t i = 0; i < t->flows; i++) /* start[g + 1] runs from where g starts to where it ends */
		if (t->flow[i].gate != FLOW_NO_GATE)
			run->gate_flows[start[t->flow[i].gate + 1]++] = i;
	return 0;
}

/* The next instant at which flows are looked at, for the log, for the state matrix or for both. */
static int plan_sample(struct run *run)
{
	const struct run_config *c = run->config;
	int64_t at = run->next_sample < run->next_publish ? run->next_sample : run->next_publish;

	return at < c->t0_ns + c->duration_ns
		       ? timers_add(&run->timers, (struct timer){ .at = at, .kind = TIMER_SAMPLE })
		       : 0;
}

/* A start, a stop and an offer a flow, a drain a sink, the next sample and the end. */
static int plan(struct run *run)
{
	const struct run_config *c = run->config;
	int rc = timers_init(&run->timers, 4 * run->table->flows + 2);

	if (!rc)
		rc = timers_add(&run->timers,
				(struct timer){ .at = c->t0_ns + c->duration_ns, .kind = TIMER_END });
	if (!rc)
		rc = plan_sample(run);
	for (uint32_t i = 0; !rc && i < run->table->flows; i++) {
		struct flow *flow = &run->flows[i];

		if (flow->spec->gate != FLOW_NO_GATE)
			continue;
		flow->due_ns = c->t0_ns + flow->spec->start_ns;
		if (flow->spec->start_ns < c->duration_ns) /* else it is logged as one that waited */
			rc = timers_add(&run->timers, (struct timer){ flow->due_ns, TIMER_START, i });
	}
	return rc;
}

static int open_machinery(struct run *run)
{
	int rc;

	run->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (run->epoll < 0)
		return run_fault(run, -errno, "epoll_create1");
	run->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (run->timer < 0)
		return run_fault(run, -errno, "timerfd_create");
	run->payload = memfd_create("payload", MFD_CLOEXEC);
	if (run->payload < 0 || ftruncate(run->payload, PAYLOAD_FILE) < 0)
		return run_fault(run, -errno, "memfd_create (the kernel needs CONFIG_TMPFS)");
	/* Edges: the timer need not be read. */
	rc = run_watch(run, run->timer, EPOLLIN | EPOLLET, WATCH_TIMER, 0);
	if (rc)
		return rc;
	return run_watch(run, run->config->signals, EPOLLIN, WATCH_SIGNAL, 0);
}

static int open_log(struct run *run, struct tgen_log *log, const char *name, const char *magic,
		    uint32_t record_size)
{
	const struct run_config *c = run->config;
	struct tgen_log_header header = {
		.version = TGEN_LOG_VERSION,
		.record_size = record_size,
		.t0_ns = c->t0_ns,
		.duration_ns = c->duration_ns,
		.sample_ns = c->sample_ns,
		.seed = c->seed,
	};
	int rc;

	memcpy(header.magic, magic, sizeof(header.magic));
	rc = tgen_log_open(log, c->out, name, &header);
	return rc ? run_fault(run, rc, "create %s in --out", name) : 0;
}

static int open_matrix(struct run *run)
{
	const char *why;
	int rc;

	if (!run->config->matrix)
		return 0;
	rc = tgen_matrix_open(&run->matrix, run->config->matrix, &why);
	if (rc)
		return run_fault(run, rc, "--matrix %s%s%s", run->config->matrix, why ? ": " : "",
				 why ? why : "");
	for (uint32_t i = 0; i < run->table->nrows; i++)
		if (run->table->rows[i] >= run->matrix.rows)
			return run_fault(run, -EINVAL,
					 "--matrix %s: it has %u rows, a flow's path names row %u",
					 run->config->matrix, run->matrix.rows, run->table->rows[i]);
	if (run->matrix.flow_rows && run->matrix.flow_rows < run->table->flows)
		return run_fault(run, -EINVAL,
				 "--matrix %s: it has rows for %u flows, --flows has %u; make it with "
				 "--flow-rows %u",
				 run->config->matrix, run->matrix.flow_rows, run->table->flows,
				 run->table->flows);
	publish_reset(run);
	return 0;
}

int run_open(struct run *run, const struct run_config *config, const struct flow_table *table)
{
	int rc;

	*run = (struct run){ .config = config,
			     .table = table,
			     .entered = UINT32_MAX,
			     .next_sample = config->sample_ns ? config->t0_ns : INT64_MAX,
			     .next_publish = config->publish_ns ? config->t0_ns : INT64_MAX,
			     .calls = CALLS_INIT,
			     .epoll = -1,
			     .timer = -1,
			     .payload = -1 };
	run->samples.fd = -1;
	run->log.fd = -1;
	run->nic_log.fd = -1;
	rc = allocate(run);
	if (!rc)
		rc = index_gates(run);
	if (!rc)
		rc = plan(run);
	if (rc)
		return run_fault(run, rc, "allocate %u flows", table->flows);
	rc = flow_index_peers(run);
	run->bad_input = rc == -EINVAL;
	if (!rc)
		rc = open_machinery(run);
	if (!rc) {
		rc = open_matrix(run);
		run->bad_input = rc != 0;
	}
	if (!rc)
		rc = open_log(run, &run->samples, "samples.bin", TGEN_SAMPLES_MAGIC,
			      sizeof(struct tgen_sample_record));
	if (!rc)
		rc = open_log(run, &run->log, "flows.bin", TGEN_FLOWS_MAGIC, sizeof(struct tgen_flow_record));
	if (!rc && config->nic.senders)
		rc = open_log(run, &run->nic_log, "nics.bin", TGEN_NICS_MAGIC,
			      sizeof(struct tgen_nic_record));
	if (!rc)
		rc = setup_sockets(run);
	if (!rc && config->warm)
		rc = setup_warm(run);
	return rc;
}

/* --- the loop ---------------------------------------------------------------------------------------- */

/* Returns true if `*next` is now, and moves it on. */
static bool is_due(int64_t *next, int64_t interval_ns, int64_t at)
{
	if (*next != at)
		return false;
	*next += interval_ns;
	return true;
}

/* Chooses the flows to look at from the flow `*next` on, at most LOOKS_MAX: how many. */
static uint32_t choose_looks(struct run *run, uint32_t *next)
{
	uint32_t count = 0;

	for (; *next < run->table->flows && count < LOOKS_MAX; ++*next) {
		uint64_t bits = (run->under_way[*next / 64] | run->draining[*next / 64]) >> *next % 64;

		if (!bits) /* none in the rest of this word */
			*next |= 63;
		else if (bits & 1)
			run->looks[count++].flow = *next;
	}
	return count;
}

static void plan_looks(struct run *run, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		flow_plan_look(run, &run->looks[i]);
}

/* The kernel is asked about all of them by one call. */
static int look(struct run *run, uint32_t count)
{
	const char *step;
	int rc;

	plan_looks(run, count);
	rc = run->calls.n ? run_calls(run, &step) : 0;
	return rc ? run_fault(run, rc, "%s of %u flows", step, count) : 0;
}

static int sample_flows(struct run *run, uint32_t count, int64_t at, unsigned int uses)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < count; i++)
		rc = flow_sample(run, &run->looks[i], at, uses);
	return rc;
}

static int sample(struct run *run, int64_t at)
{
	const struct run_config *c = run->config;
	unsigned int uses = 0;
	uint32_t next = 0, count;
	int rc;

	uses |= is_due(&run->next_sample, c->sample_ns, at) ? SAMPLE_LOG : 0;
	uses |= is_due(&run->next_publish, c->publish_ns, at) ? SAMPLE_PUBLISH : 0;
	rc = run->foreseen ? sample_flows(run, run->foreseen, at, uses) : udp_take(run);
	while (!rc && !run->foreseen && (count = choose_looks(run, &next))) {
		rc = look(run, count);
		if (!rc)
			rc = sample_flows(run, count, at, uses);
	}
	return rc ? rc : plan_sample(run);
}

static int act(struct run *run, struct timer timer)
{
	switch ((enum timer_kind)timer.kind) {
	case TIMER_END:
		run->over = true;
		return 0;
	case TIMER_SAMPLE:
		return sample(run, timer.at);
	case TIMER_STOP:
		return flow_stop(run, timer.flow, timer.at);
	case TIMER_START:
		return flow_start(run, timer.flow, timer.at);
	case TIMER_OFFER:
		return flow_offer(run, timer.flow, timer.at);
	case TIMER_DRAIN:
		return udp_drain(run, timer.flow, timer.at);
	}
	return 0;
}

static bool is_stale(const struct run *run, struct timer timer)
{
	return (timer.kind == TIMER_STOP || timer.kind == TIMER_OFFER) &&
	       run->flows[timer.flow].phase == PHASE_ENDED;
}

/* Something else happened than that it is time to look at flows. */
static void surprise(struct run *run)
{
	run->foreseen = run->alike = 0;
}

/* The timer is armed for one instant; when it fires, everything planned for then is due, and no clock need be
 * read. */
static int on_timer(struct run *run)
{
	int64_t due = run->armed;
	int rc = 0;

	run->armed = 0;
	while (!rc && !run->over && run->timers.count && run->timers.heap[0].at <= due) {
		struct timer first = run->timers.heap[0];

		timers_drop_first(&run->timers);
		if (first.kind != TIMER_SAMPLE)
			surprise(run);
		rc = act(run, first);
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
static void foresee(struct run *run)
{
	uint32_t next = 0;

	run->foreseen = 0;
	if (run->alike < ALIKE_MIN || run->udp_count || run->timers.heap[0].kind != TIMER_SAMPLE)
		return;
	run->foreseen = choose_looks(run, &next);
	if (run->foreseen == LOOKS_MAX) /* there may be more, which a second call would ask about */
		run->foreseen = 0;
	plan_looks(run, run->foreseen);
}

/* Arms the timer and waits, by one call: how many events. */
static int wait_for_events(struct run *run, struct epoll_event events[EVENTS])
{
	int64_t at = next_due(run);
	const struct itimerspec when = { .it_value = { at / NS_PER_S, at % NS_PER_S } };
	const char *step;
	const __s64 *waited;
	int rc;

	if (at != run->armed)
		calls_add(&run->calls, "timerfd_settime", SYS_timerfd_settime,
			  (__u64[6]){ (__u64)run->timer, TFD_TIMER_ABSTIME, (uintptr_t)&when });
	waited = calls_add(&run->calls, "epoll_wait", SYS_epoll_wait,
			   (__u64[6]){ (__u64)run->epoll, (uintptr_t)events, EVENTS, (__u64)-1 });
	foresee(run);
	rc = run_calls(run, &step);
	if (rc)
		return run_fault(run, rc, "%s", step);
	run->armed = at;
	return (int)*waited;
}

static int dispatch(struct run *run, const struct epoll_event *e)
{
	uint32_t number = (uint32_t)e->data.u64;

	switch ((enum watch)(e->data.u64 >> 32)) {
	case WATCH_TIMER:
		return on_timer(run);
	case WATCH_SIGNAL:
		return run_fault(run, -EINTR, "run the flows");
	case WATCH_LISTENER:
		return flow_accept(run, number);
	case WATCH_SENDER:
		return flow_on_sender(run, number, e->events);
	case WATCH_RECEIVER:
		return flow_on_receiver(run, number, e->events);
	case WATCH_BELL:
		return rdma_on_bell(run, number);
	}
	return 0;
}

int run_loop(struct run *run)
{
	struct epoll_event events[EVENTS];
	int rc = 0;

	while (!rc && !run->over) {
		int n = wait_for_events(run, events);

		if (n < 0)
			return n;
		run->now = 0;
		run->alike++;
		if (n != 1 || events[0].data.u64 >> 32 != WATCH_TIMER)
			surprise(run);
		for (int i = 0; !rc && !run->over && i < n; i++)
			rc = dispatch(run, &events[i]);
	}
	return rc;
}

/* --- the end ----------------------------------------------------------------------------------------- */

static int64_t after_t0(const struct run *run, int64_t at)
{
	return at < 0 ? -1 : at - run->config->t0_ns;
}

static struct tgen_flow_record record_of(const struct run *run, uint32_t number)
{
	const struct flow *flow = &run->flows[number];
	const struct flow_spec *spec = flow->spec;
	bool is_timed = flow->status == TGEN_DONE && spec->transport != FLOW_UDP;

	return (struct tgen_flow_record){
		.flow = number,
		.src_port = spec->src_port,
		.dst_port = spec->dst_port,
		.status = flow->status,
		.error = flow->error,
		.due_ns = after_t0(run, flow->due_ns),
		.start_ns = after_t0(run, flow->start_ns),
		.established_ns = after_t0(run, flow->established_ns),
		.end_ns = after_t0(run, flow->end_ns),
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

	if (run->nic_log.fd < 0)
		return 0;
	for (uint32_t i = 0; !rc && i < run->table->flows; i++) {
		struct tgen_nic_record record;

		if (!rdma_has_row(run, i))
			continue;
		rdma_record(run, i, &record);
		rc = tgen_log_add(&run->nic_log, &record);
	}
	if (!rc)
		rc = tgen_log_finish(&run->nic_log);
	return rc ? run_fault(run, rc, "write nics.bin in --out") : 0;
}

int run_settle(struct run *run)
{
	int rc = udp_take(run);

	for (uint32_t i = 0; !rc && i < run->table->flows; i++)
		rc = flow_settle(run, i);
	return rc ? rc : log_nics(run);
}

int run_finish(struct run *run)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < run->table->flows; i++) {
		struct tgen_flow_record record = record_of(run, i);

		rc = tgen_log_add(&run->log, &record);
	}
	if (!rc)
		rc = tgen_log_finish(&run->samples);
	if (!rc)
		rc = tgen_log_finish(&run->log);
	return rc ? run_fault(run, rc, "write the logs in --out") : 0;
}

/* SO_LINGER of 0 s: close() throws away what is queued, and a reset ends the peer's side. */
void run_abort(struct run *run)
{
	for (uint32_t i = 0; i < run->table->flows; i++) {
		net_abort(&run->flows[i].sender);
		net_abort(&run->flows[i].receiver);
	}
	rdma_abort(run);
	tgen_log_discard(&run->samples);
	tgen_log_discard(&run->log);
	tgen_log_discard(&run->nic_log);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_all(int *fds, uint32_t count)
{
	for (uint32_t i = 0; fds && i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(fds);
}

static void close_flows(struct run *run)
{
	for (uint32_t i = 0; run->flows && i < run->table->flows; i++) {
		struct flow *flow = &run->flows[i];

		if (flow->phase == PHASE_CONNECTING || flow->phase == PHASE_SENDING)
			tgen_matrix_count(&run->matrix, run->table->rows + flow->spec->path_start,
					  flow->spec->path_len, -1);
		if (flow->sender >= 0)
			close(flow->sender);
		if (flow->receiver >= 0)
			close(flow->receiver);
	}
	free(run->flows);
	run->flows = NULL;
}

void run_close(struct run *run)
{
	close_flows(run);
	close_all(run->listeners, run->table->flows);
	close_all(run->namespaces, run->table->namespaces);
	run->listeners = run->namespaces = NULL;
	slots_free(&run->peers);
	calls_close(&run->calls);
	free(run->looks);
	run->looks = NULL;
	free(run->limits);
	free(run->sinks);
	free(run->udp);
	free(run->under_way);
	free(run->draining);
	free(run->gate_start);
	free(run->gate_flows);
	free(run->gate_left);
	run->limits = NULL;
	run->sinks = NULL;
	run->udp = NULL;
	run->under_way = run->draining = NULL;
	run->gate_start = run->gate_flows = run->gate_left = NULL;
	tgen_log_close(&run->log);
	tgen_log_close(&run->samples);
	tgen_log_close(&run->nic_log);
	nic_tables_close(&run->nics);
	pairs_close(run);
	tgen_matrix_close(&run->matrix);
	timers_free(&run->timers);
	close_fd(&run->payload);
	close_fd(&run->timer);
	close_fd(&run->epoll);
}
