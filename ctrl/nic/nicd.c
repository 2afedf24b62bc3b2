// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * nicd: loads the NIC shim's data path (shim.bpf.c), attaches it to the NICs of a ground, and takes it away
 * when it is told to stop. Meanwhile it copies the algorithm's decisions to a file, or hands them to the host
 * at barriers of virtual time, if asked.
 */
#include "barrier.h"
#include "data_path.h"
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

static const char usage[] =
	"usage: nicd --object FILE --nics FILE --flows FILE --settings FILE [--table FILE] [--capped FILE]\n"
	"            [--t0 NS --trace FILE | --t0 NS --step NS --channel DEVICE]\n"
	"  --object FILE    the algorithm's data path, nic-NAME.bpf.o\n"
	"  --nics FILE      CSV, header nic,netns,wire,ring,tail,line_bps\n"
	"  --flows FILE     CSV, header flow,src_nic,dst_nic,src_addr,dst_addr,src_mac,dst_mac,src_port,\n"
	"                   payload_bytes,message_bytes,total_bytes,base_rtt_ns,hops\n"
	"  --settings FILE  lines name=value (ctrl/nic/shim.h), and parameter.INDEX=value\n"
	"  --table FILE     words of a policy\n"
	"  --capped FILE    CSV, header flow,src_port,dst_port: the flows that are the host's TCP, whose "
	"segments\n"
	"                   the NIC gives departure times; the wire's root qdisc must be fq\n"
	"  --t0 NS          when the run begins, on CLOCK_MONOTONIC\n"
	"  --trace FILE     where decisions go: struct nic_decision, one after the other; looked for at t0,\n"
	"                   t0 + 5 ms, ...\n"
	"  --channel DEVICE lab channel: at t0 + step, t0 + 2 step, ... the lab stands still until the host\n"
	"                   has the decisions (struct nic_step), and left a table if it will\n"
	"Prints `ready SENDERS RECEIVERS PORTS`, the ids of its maps, and runs until its standard input ends "
	"or "
	"SIGTERM.\n";

struct options {
	const char *object, *nics, *flows, *settings, *table, *trace, *capped, *channel;
	uint64_t t0_ns, step_ns;
};

struct nicd {
	struct nics nics;
	struct nic_flows flows;
	struct nic_capped capped;
	struct nic_settings settings;
	struct data_path path;
	struct barrier barrier;
	struct ring_buffer *decisions;
	FILE *trace;
	uint64_t t0_ns;
	int timer_fd;
};

static int take_option(int c, void *arg)
{
	struct options *o = arg;

	switch (c) {
	case 't':
		return program_number("t0", optarg, 1, UINT64_MAX / 2, &o->t0_ns);
	case 's':
		return program_number("step", optarg, LEAST_STEP_NS, 3600 * NS_PER_SEC, &o->step_ns);
	default:
		*((const char **)arg + c) = optarg;
		return 0;
	}
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const char *const required[] = { "object", "nics", "flows", "settings" };
	static const struct option longs[] = {
		{ "object", required_argument, NULL, 0 },    { "nics", required_argument, NULL, 1 },
		{ "flows", required_argument, NULL, 2 },     { "settings", required_argument, NULL, 3 },
		{ "table", required_argument, NULL, 4 },     { "trace", required_argument, NULL, 5 },
		{ "capped", required_argument, NULL, 6 },    { "channel", required_argument, NULL, 7 },
		{ "t0", required_argument, NULL, 't' },      { "step", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, PROGRAM_HELP }, { 0 },
	};
	int rc = program_options(argc, argv, longs, usage, take_option, o);

	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]) && !rc; i++)
		if (!((const char **)o)[i])
			rc = program_fail(EXIT_USAGE, "--%s is missing; see nicd --help", required[i]);
	if (!rc && o->channel && (!o->t0_ns || !o->step_ns || o->trace))
		rc = program_fail(EXIT_USAGE, "--channel: give --t0 and --step with it, and no --trace");
	if (!rc && o->trace && !o->t0_ns)
		rc = program_fail(EXIT_USAGE, "--trace: give --t0 with it");
	return rc;
}

/* ---- set-up ---- */

static int read_nics(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return nics_parse(buf, len, &d->nics, f);
}

static int read_flows(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return nic_flows_parse(buf, len, &d->nics, &d->flows, f);
}

static int read_capped(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return nic_capped_parse(buf, len, &d->flows, &d->capped, f);
}

static int read_settings(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return nic_settings_parse(buf, len, &d->settings, f);
}

static int read_table(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return data_path_table(&d->path, buf, len, f);
}

static int read_with(struct nicd *d, const char *option, const char *path,
		     int (*parse)(struct nicd *d, const char *buf, size_t len, struct fault *f),
		     struct fault *f)
{
	struct fault inner = { 0 };
	char *buf = NULL;
	long len = program_read_file(option, path, &buf, f);
	int rc = len < 0 ? (int)len : parse(d, buf, (size_t)len, &inner);

	free(buf);
	if (len >= 0 && rc)
		fault_say(f, rc, "%s: '%.120s': %.300s", option, path, inner.text);
	return rc;
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
	int rc = read_with(d, "--nics", o->nics, read_nics, f);

	d->t0_ns = o->t0_ns;
	if (!rc)
		rc = read_with(d, "--flows", o->flows, read_flows, f);
	if (!rc && o->capped)
		rc = read_with(d, "--capped", o->capped, read_capped, f);
	if (!rc)
		rc = read_with(d, "--settings", o->settings, read_settings, f);
	if (rc)
		return rc;
	if (o->channel)
		d->settings.trace = NIC_TRACE_STATES;
	else if (!o->trace)
		d->settings.trace = NIC_TRACE_NONE;
	else if (!d->settings.trace)
		d->settings.trace = NIC_TRACE_CHANGES;
	d->settings.caps = d->capped.n > 0;
	rc = data_path_open(&d->path, o->object, &d->nics, &d->flows, &d->capped, &d->settings, f);
	if (!rc && o->table)
		rc = read_with(d, "--table", o->table, read_table, f);
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
		rc = data_path_table(&d->path, table, CC_TABLE_WORDS * sizeof(*table), f);
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

/* Until the end of standard input. A signal is let in while we wait, and nowhere between a look at it and the
 * wait. */
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
	free(d.capped.flow);
	free(d.flows.flow);
	free(d.nics.nic);
	return program_end(rc ? rc : closed, &f);
}
