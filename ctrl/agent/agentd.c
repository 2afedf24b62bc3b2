// SPDX-License-Identifier: Apache-2.0
/*
 * agentd: the ground's end of a central agent. It sweeps the queues as qmon does, and at each step lets the
 * host decide what each actuator is to have, which it enforces and reads back (docs/protocols.md).
 *
 * It is told of each episode on standard input and says on standard output how it ended.
 */
#include "episode.h"
#include "options.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIN_INTERVAL_NS    10000ULL
#define MAX_INTERVAL_NS    (3600 * NS_PER_SEC)
#define MAX_FLOW_ROWS      (1u << 20) /* tgen's limit */
#define MAX_PENDING        65536
#define DEFAULT_TIMEOUT_NS 10000000ULL
#define LINE_LEN           128

struct options {
	const char *ports, *actuators, *matrix, *channel, *trace, *control_netns;
	uint64_t flow_rows, timeout_ns;
	struct timing timing;
};

struct agentd {
	struct options opt;
	struct agent agent;
	char line[LINE_LEN]; /* what was read of standard input and not yet used */
	size_t line_len;
};

/* ---- options ---- */

/* Returns the time between two looks for commands: a step, or without a channel a sweep, at most LOOK_NS. */
static uint64_t command_interval_ns(const struct options *o)
{
	const struct timing *t = &o->timing;

	if (o->channel)
		return t->step_ns;
	return t->interval_ns < LOOK_NS ? t->interval_ns : LOOK_NS;
}

static int check_options(const struct options *o)
{
	const struct timing *t = &o->timing;

	if (t->step_ns % t->interval_ns)
		return program_fail(EXIT_USAGE,
				    "--step: %" PRIu64 " is no multiple of the interval, %" PRIu64
				    "; sweeps and steps must coincide",
				    t->step_ns, t->interval_ns);
	if (t->latency_ns / command_interval_ns(o) >= MAX_PENDING)
		return program_fail(EXIT_USAGE, "--latency: %" PRIu64 " is more than %d %s; give less",
				    t->latency_ns, MAX_PENDING, o->channel ? "steps" : "intervals");
	return 0;
}

static int parse_options(int argc, char **argv, struct options *o)
{
	struct timing *t = &o->timing;
	const struct program_option options[] = {
		{ "ports", "FILE", "record file of the ports", .text = &o->ports, .required = true },
		{ "actuators", "FILE", "record file of what the agent may set", .text = &o->actuators,
		  .required = true },
		{ "interval", "NS", "between sweeps", .number = &t->interval_ns, .required = true,
		  .min = MIN_INTERVAL_NS, .max = MAX_INTERVAL_NS },
		{ "step", "NS", "between decisions: a multiple of the interval", .number = &t->step_ns,
		  .required = true, .min = MIN_INTERVAL_NS, .max = MAX_INTERVAL_NS },
		{ "matrix", "FILE", "file or device that holds the state matrix", .text = &o->matrix,
		  .required = true },
		{ "latency", "NS", "from a step to the enforcement of what was decided (0)",
		  .number = &t->latency_ns, .max = MAX_INTERVAL_NS },
		{ "channel", "DEVICE", "lab channel: each step waits for the host", .text = &o->channel },
		{ "flow-rows", "N", "rows for the traffic generator's flows (0)", .number = &o->flow_rows,
		  .max = MAX_FLOW_ROWS },
		{ "trace", "FILE", "every sweep of all episodes, one after the other", .text = &o->trace },
		{ "check-late", NULL,
		  "count sweeps that began after the next was due; the last line is 'late COUNT'",
		  .flag = &t->check_late },
		{ "control-netns", "PATH",
		  "commands go to the hosts' agents by control packets, from this namespace",
		  .text = &o->control_netns },
		{ "timeout", "NS", "after which a command without echo is sent again (10000000)",
		  .number = &o->timeout_ns, .min = MIN_INTERVAL_NS, .max = MAX_INTERVAL_NS },
		{ 0 },
	};
	int rc = options_read(argc, argv, options,
			      "It reads lines 'episode T0 COUNT' and answers each with 'over STEP CODE'.\n");

	return rc ? rc : check_options(o);
}

/* ---- set-up ---- */

static int open_channel(struct agentd *d, struct fault *f)
{
	if (!d->opt.channel)
		return 0;
	d->agent.channel_fd = open(d->opt.channel, O_RDWR | O_CLOEXEC);
	if (d->agent.channel_fd < 0)
		return fault_say(f, -EINVAL, "--channel: open '%s': %s; in a lab it is /dev/lab",
				 d->opt.channel, strerror(errno));
	return 0;
}

static int open_control(struct agentd *d, struct fault *f)
{
	struct agent *a = &d->agent;

	a->by_packets = d->opt.control_netns;
	return a->by_packets
		       ? control_open(&a->control, &a->actuators, d->opt.control_netns, d->opt.timeout_ns, f)
		       : 0;
}

static int open_actuators(struct agentd *d, struct fault *f)
{
	struct agent *a = &d->agent;
	int rc = record_file_open(&a->actuators.file, "--actuators", d->opt.actuators, f);

	if (!rc)
		rc = actuators_take(&a->actuators, &a->sweeper.ports, d->opt.control_netns, f);
	return rc ? rc : enforcer_open(&a->enforcer, &a->actuators, &a->sweeper, f);
}

static int open_matrix(struct agentd *d, struct fault *f)
{
	struct agent *a = &d->agent;
	int rc = sweeper_open_matrix(&a->sweeper, d->opt.matrix, (uint32_t)d->opt.flow_rows, a->actuators.n,
				     a->timing.interval_ns, 0, f);

	for (uint32_t i = 0; !rc && i < a->actuators.n; i++) {
		const struct actuator_row *r = &a->actuators.row[i];

		matrix_assign(&a->sweeper.matrix, i, r->row, r->actuator, r->n_values);
	}
	return rc;
}

static int prepare(struct agentd *d, struct fault *f)
{
	struct agent *a = &d->agent;
	const struct timing *t = &d->opt.timing;
	uint32_t room = (uint32_t)(t->latency_ns / command_interval_ns(&d->opt)) + 2;
	int rc;

	a->timing = *t;
	rc = sweeper_open(&a->sweeper, d->opt.ports, f);
	if (!rc)
		rc = open_actuators(d, f);
	if (!rc && commands_open(&a->pending, room, a->actuators.n * SM_MAX_VALUES))
		rc = fault_say(f, -ENOMEM, "--latency: out of memory for %u commands", room);
	if (!rc)
		rc = open_channel(d, f);
	if (!rc)
		rc = open_control(d, f);
	if (!rc)
		rc = open_matrix(d, f);
	return rc;
}

/* ---- episodes ---- */

/* Wait for input; a signal that stops us is let in here and nowhere between a look at it and the wait. */
static int wait_for_input(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	sigset_t before;
	int rc = 0;

	program_hold_stop(&before);
	if (!program_stop)
		rc = ppoll(&in, 1, NULL, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc < 0 && errno != EINTR ? -errno : 0;
}

/* The next line of standard input without its end: 1, 0 at the end of input or of ourselves, or -errno. */
static int next_line(struct agentd *d, char *line, struct fault *f)
{
	char *nl;

	while (!(nl = memchr(d->line, '\n', d->line_len))) {
		ssize_t n;
		int rc = wait_for_input();

		if (program_stop)
			return 0;
		n = rc ? rc : read(STDIN_FILENO, d->line + d->line_len, sizeof(d->line) - d->line_len);
		if (n < 0)
			return fault_say(f, -EIO, "read standard input: %s", strerror(rc ? -rc : errno));
		if (n == 0)
			return d->line_len ? fault_say(f, -EINVAL, "standard input ends within a line") : 0;
		d->line_len += (size_t)n;
		if (d->line_len == sizeof(d->line) && !memchr(d->line, '\n', d->line_len))
			return fault_say(f, -EINVAL,
					 "standard input: a line is too long; write 'episode T0 COUNT'");
	}
	*nl++ = 0;
	strcpy(line, d->line);
	d->line_len -= (size_t)(nl - d->line);
	memmove(d->line, nl, d->line_len);
	return 1;
}

static int parse_episode(const struct agentd *d, const char *line, uint64_t *t0_ns, uint64_t *count,
			 struct fault *f)
{
	uint64_t span;
	int used = 0;

	if (strchr(line, '-') ||
	    sscanf(line, "episode %" SCNu64 " %" SCNu64 "%n", t0_ns, count, &used) != 2 || line[used] ||
	    !*count)
		return fault_say(f, -EINVAL, "standard input: '%.60s' is not 'episode T0 COUNT'", line);
	if (__builtin_mul_overflow(d->opt.timing.step_ns, *count, &span) || *t0_ns > INT64_MAX ||
	    span > INT64_MAX - *t0_ns)
		return fault_say(f, -EINVAL, "standard input: '%.60s' ends after the year 2262", line);
	if (now_ns() >= *t0_ns)
		return fault_say(f, -EINVAL,
				 "standard input: '%.60s': t0 is past, it is %" PRIu64 "; give a later time",
				 line, now_ns());
	return 0;
}

static int run_episode(struct agentd *d, const char *line, struct fault *f)
{
	struct sweeper *s = &d->agent.sweeper;
	uint64_t t0_ns, count;
	struct end end;
	int rc = parse_episode(d, line, &t0_ns, &count, f);

	if (!rc && d->opt.trace && s->trace.fd < 0)
		rc = sweeper_open_trace(s, d->opt.trace, d->opt.timing.interval_ns, t0_ns, f);
	if (!rc)
		rc = episode_run(&d->agent, t0_ns, count, &end, f);
	if (rc || end.code < 0)
		return rc;
	return program_say("over %" PRIu64 " %d\n", end.step, end.code)
		       ? fault_say(f, -EIO, "nobody reads our answers")
		       : 0;
}

static int run(struct agentd *d, struct fault *f)
{
	char line[LINE_LEN];
	int rc = 0, more = 0;

	while (!rc && !program_stop && (more = next_line(d, line, f)) > 0)
		rc = run_episode(d, line, f);
	if (!rc)
		rc = more < 0 ? more : sweeper_finish_trace(&d->agent.sweeper, f);
	if (!rc && d->opt.timing.check_late)
		program_say("late %" PRIu64 "\n", d->agent.late);
	return rc;
}

static void release(struct agentd *d)
{
	struct agent *a = &d->agent;

	if (a->channel_fd >= 0)
		close(a->channel_fd);
	control_close(&a->control);
	commands_close(&a->pending);
	enforcer_close(&a->enforcer);
	record_file_close(&a->actuators.file);
	sweeper_close(&a->sweeper);
}

int main(int argc, char **argv)
{
	struct agentd d = {
		.opt.timeout_ns = DEFAULT_TIMEOUT_NS,
		.agent = { .sweeper = SWEEPER_INIT, .channel_fd = -1 },
	};
	struct fault fault;
	int rc = parse_options(argc, argv, &d.opt);

	if (rc)
		return rc;
	rc = program_prepare();
	if (!rc)
		rc = program_end(prepare(&d, &fault), &fault);
	if (!rc)
		rc = program_say("ready\n");
	if (!rc)
		rc = program_end(run(&d, &fault), &fault);
	release(&d);
	return rc;
}
