// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * nicd: loads the NIC shim's data path (shim.bpf.c), attaches it to the NICs of a ground, and takes it away
 * when it is told to stop. Meanwhile it copies the algorithm's decisions to a file, or hands them to the host
 * at barriers of virtual time, if asked.
 */
#include "barrier.h"
#include "cctrace.h"
#include "data_path.h"
#include "options.h"
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TRACE_NS      5000000 /* between looks at the decisions: 4 MiB of them must not come meanwhile */
#define LEAST_STEP_NS 10000

struct options {
	const char *object, *native, *nics, *table, *trace, *channel;
	uint64_t t0_ns, step_ns;
};

struct nicd {
	struct nics nics;
	struct data_path path;
	struct barrier barrier;
	struct ring_buffer *decisions;
	FILE *trace;
	uint64_t t0_ns;
	int timer_fd;
};

static int parse_options(int argc, char **argv, struct options *o)
{
	const struct program_option options[] = {
		{ "object", "FILE", "the algorithm's data path, nic-NAME.bpf.o", .text = &o->object,
		  .required = true },
		{ "native", "FILE",
		  "nic-NAME.native, which runs in place of the object's programs; a lab's kernel alone takes "
		  "it, if it was booted with it",
		  .text = &o->native },
		{ "nics", "FILE", "record file of the NICs, their flows and their settings", .text = &o->nics,
		  .required = true },
		{ "table", "FILE", "words of a policy", .text = &o->table },
		{ "t0", "NS", "when the run begins, on CLOCK_MONOTONIC", .number = &o->t0_ns, .min = 1,
		  .max = UINT64_MAX / 2 },
		{ "trace", "FILE", "where decisions go: struct nic_decision, one after the other",
		  .text = &o->trace },
		{ "step", "NS", "between barriers, of which the first is at t0 + step", .number = &o->step_ns,
		  .min = LEAST_STEP_NS, .max = 3600 * NS_PER_SEC },
		{ "channel", "DEVICE", "lab channel: at barriers the lab stands still for the host",
		  .text = &o->channel },
		{ 0 },
	};
	int rc = options_read(argc, argv, options,
			      "Where the flows are the host's TCP, the wire's root qdisc must be fq.\n"
			      "Prints `ready SENDERS RECEIVERS PORTS`, the ids of its maps, and runs until "
			      "its standard input ends or SIGTERM.\n");

	if (!rc && o->channel && (!o->t0_ns || !o->step_ns || o->trace))
		rc = program_fail(EXIT_USAGE, "--channel: give --t0 and --step with it, and no --trace");
	if (!rc && o->trace && !o->t0_ns)
		rc = program_fail(EXIT_USAGE, "--trace: give --t0 with it");
	return rc;
}

/* ---- set-up ---- */

static int read_nics(struct nicd *d, const struct options *o, struct fault *f)
{
	struct nic_settings *settings = &d->nics.settings;
	int rc = record_file_open(&d->nics.file, "--nics", o->nics, f);

	if (!rc)
		rc = nics_take(&d->nics, f);
	if (o->channel)
		settings->trace = NIC_TRACE_STATES;
	else if (!o->trace)
		settings->trace = NIC_TRACE_NONE;
	else if (!settings->trace)
		settings->trace = NIC_TRACE_CHANGES;
	settings->caps = d->nics.capped > 0;
	return rc;
}

static int read_table(struct nicd *d, const char *path, struct fault *f)
{
	static uint32_t words[CC_TABLE_WORDS];
	int rc = cctrace_table(path, words);

	if (rc)
		return fault_say(f, -EINVAL, "--table: read '%.200s': %s; give at most %d words of 4 bytes",
				 path, strerror(-rc), CC_TABLE_WORDS);
	return data_path_table(&d->path, words, f);
}

static int on_decision(void *trace, void *record, size_t len)
{
	return fwrite(record, len, 1, trace) == 1 ? 0 : -EIO;
}

static int on_step(void *barrier, void *record, size_t len)
{
	(void)len;
	barrier_take(barrier, record);
	return 0;
}

static int open_ring(struct nicd *d, ring_buffer_sample_fn take, void *arg, struct fault *f)
{
	d->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (d->timer_fd < 0)
		return fault_say(f, -errno, "make a timer: %s", strerror(errno));
	d->decisions = ring_buffer__new(data_path_map(&d->path, "decisions"), take, arg, NULL);
	if (!d->decisions)
		return fault_say(f, -errno, "read the ring of decisions: %s", strerror(errno));
	return 0;
}

static int open_trace(struct nicd *d, const char *path, struct fault *f)
{
	d->trace = fopen(path, "we");
	if (!d->trace)
		return fault_say(f, -EINVAL, "--trace: open '%s': %s", path, strerror(errno));
	return open_ring(d, on_decision, d->trace, f);
}

static int open_barrier(struct nicd *d, const struct options *o, struct fault *f)
{
	int rc = barrier_open(&d->barrier, o->channel, o->t0_ns, o->step_ns, f);

	return rc ? rc : open_ring(d, on_step, &d->barrier, f);
}

static int prepare(struct nicd *d, const struct options *o, struct fault *f)
{
	int rc = read_nics(d, o, f);

	d->t0_ns = o->t0_ns;
	if (!rc)
		rc = data_path_open(&d->path, o->object, o->native, &d->nics, f);
	if (!rc && o->table)
		rc = read_table(d, o->table, f);
	if (!rc && o->trace)
		rc = open_trace(d, o->trace, f);
	if (!rc && o->channel)
		rc = open_barrier(d, o, f);
	if (!rc)
		rc = data_path_attach(&d->path, f);
	return rc;
}

/* ---- while it runs ---- */

static int copy_decisions(struct nicd *d, struct fault *f)
{
	int rc = d->decisions ? ring_buffer__consume(d->decisions) : 0;

	return rc < 0 ? fault_say(f, rc, "--trace: write decisions: %s", strerror(-rc)) : 0;
}

static int stand_still(struct nicd *d, struct fault *f)
{
	const uint32_t *table;
	int rc = barrier_wait(&d->barrier, &table, f);

	if (!rc && table)
		rc = data_path_table(&d->path, table, f);
	return rc;
}

/* An absolute time, which does not depend on when this process was started. */
static uint64_t next_look_ns(const struct nicd *d, uint64_t now)
{
	uint64_t next = d->t0_ns;

	if (now >= next)
		next += ((now - next) / TRACE_NS + 1) * TRACE_NS;
	if (d->barrier.exchange && barrier_next_ns(&d->barrier) < next)
		next = barrier_next_ns(&d->barrier);
	return next;
}

/* Does what is due now, and sets the timer for what is next. */
static int look(struct nicd *d, struct fault *f)
{
	struct itimerspec when = { 0 };
	uint64_t now = now_ns(), next;
	int rc = copy_decisions(d, f);

	while (!rc && d->barrier.exchange && now >= barrier_next_ns(&d->barrier))
		rc = stand_still(d, f);
	if (rc || !d->decisions)
		return rc;
	next = next_look_ns(d, now);
	when.it_value.tv_sec = (time_t)(next / NS_PER_SEC);
	when.it_value.tv_nsec = (long)(next % NS_PER_SEC);
	if (timerfd_settime(d->timer_fd, TFD_TIMER_ABSTIME, &when, NULL))
		return fault_say(f, -errno, "set a timer: %s", strerror(errno));
	return 0;
}

/* Runs until the end of standard input. A signal is let in while we wait, and nowhere between a look at it
 * and the wait. */
static int wait_for_end(struct nicd *d, const sigset_t *waiting, struct fault *f)
{
	struct pollfd in[] = { { .fd = STDIN_FILENO, .events = POLLIN },
			       { .fd = d->timer_fd, .events = POLLIN } };
	int rc = look(d, f);

	while (!program_stop && !rc) {
		char scrap[64];
		int n = ppoll(in, 2, NULL, waiting);

		if (n > 0 && in[0].revents && read(STDIN_FILENO, scrap, sizeof(scrap)) <= 0)
			break;
		if (n > 0 && in[1].revents && read(d->timer_fd, scrap, sizeof(scrap)) < 0)
			return fault_say(f, -errno, "wait for a timer: %s", strerror(errno));
		rc = look(d, f);
	}
	return rc ? rc : copy_decisions(d, f);
}

static int run(struct nicd *d, struct fault *f)
{
	sigset_t before;
	int rc;

	program_hold_stop(&before);
	if (program_say("ready %" PRId64 " %" PRId64 " %" PRId64 "\n", data_path_map_id(&d->path, "senders"),
			data_path_map_id(&d->path, "receivers"), data_path_map_id(&d->path, "ports")))
		rc = fault_say(f, -EIO, "nobody hears that it is ready");
	else
		rc = wait_for_end(d, &before, f);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static int close_trace(struct nicd *d, struct fault *f)
{
	int rc = 0;

	ring_buffer__free(d->decisions);
	if (d->timer_fd >= 0)
		close(d->timer_fd);
	barrier_close(&d->barrier);
	if (d->trace && fclose(d->trace))
		rc = fault_say(f, -errno, "--trace: write decisions: %s", strerror(errno));
	return rc;
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	struct nicd d = { .barrier.channel_fd = -1, .timer_fd = -1 };
	struct fault f = { 0 };
	int rc = parse_options(argc, argv, &o), closed;

	if (rc || (rc = program_prepare()))
		return rc;
	rc = prepare(&d, &o, &f);
	if (!rc)
		rc = run(&d, &f);
	closed = close_trace(&d, &f);
	data_path_close(&d.path);
	record_file_close(&d.nics.file);
	return program_end(rc ? rc : closed, &f);
}
