// SPDX-License-Identifier: Apache-2.0
/*
 * qmon: sweep the queues of many network namespaces on an absolute schedule.
 *
 * Each sweep dumps the qdiscs of every namespace once over a netlink socket that stays open, and
 * publishes a row a port in the state matrix and in a trace (docs/protocols.md). Sweep k belongs to
 * t0 + k * interval, and that is the time written with it. On a virtual clock it is also the time at
 * which it happens; on a real one a sweep can begin later, which --check-late counts.
 *
 * The loop makes one system call to sweep and one to sleep, and reads no clock: in a lab kernel a system call
 * is most of what a sweep costs, and reading the clock moves it.
 */
#include "program.h"
#include "sweeper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_INTERVAL_NS 10000ULL
#define MAX_INTERVAL_NS (3600 * NS_PER_SEC)
#define MAX_FLOW_ROWS   (1u << 20) /* tgen's limit */

static const char usage[] =
	"usage: qmon --ports FILE --interval NS --t0 NS --count N [--matrix FILE] [--flow-rows N]\n"
	"            [--trace FILE] [--check-late]\n"
	"  --ports FILE    CSV, header row,name,netns,ifname\n"
	"  --interval NS   between sweeps, at least 10000\n"
	"  --t0 NS         CLOCK_MONOTONIC of the first sweep\n"
	"  --count N       sweeps\n"
	"  --matrix FILE   file or device that holds the state matrix\n"
	"  --flow-rows N   rows in it for the traffic generator's flows (0)\n"
	"  --trace FILE    every sweep, one after the other\n"
	"  --check-late    count sweeps that began after the next was due (costs a clock read a sweep),\n"
	"                  and end with the line 'late COUNT'\n";

struct options {
	const char *ports, *matrix, *trace;
	uint64_t interval_ns, t0_ns, count, flow_rows;
	bool check_late;
};

struct qmon {
	struct options opt;
	struct sweeper sweeper;
	uint64_t late;
};

/* ---- options ---- */

static int check_options(const struct options *o)
{
	uint64_t span;

	if (!o->ports)
		return program_fail(
			EXIT_USAGE,
			"--ports is missing; name a CSV file with the header row,name,netns,ifname");
	if (!o->interval_ns)
		return program_fail(EXIT_USAGE,
				    "--interval is missing; give the nanoseconds between two sweeps");
	if (!o->t0_ns)
		return program_fail(
			EXIT_USAGE,
			"--t0 is missing; give the CLOCK_MONOTONIC of the first sweep in nanoseconds");
	if (!o->count)
		return program_fail(EXIT_USAGE, "--count is missing; give the number of sweeps");
	if (__builtin_mul_overflow(o->interval_ns, o->count, &span) || span > INT64_MAX - o->t0_ns)
		return program_fail(EXIT_USAGE,
				    "--count: %" PRIu64 " sweeps end after the year 2262; give fewer",
				    o->count);
	return 0;
}

static int take_option(int c, void *arg)
{
	struct options *o = arg;

	switch (c) {
	case 'p':
		o->ports = optarg;
		return 0;
	case 'm':
		o->matrix = optarg;
		return 0;
	case 't':
		o->trace = optarg;
		return 0;
	case 'l':
		o->check_late = true;
		return 0;
	case 'i':
		return program_number("interval", optarg, MIN_INTERVAL_NS, MAX_INTERVAL_NS, &o->interval_ns);
	case '0':
		return program_number("t0", optarg, 1, INT64_MAX, &o->t0_ns);
	case 'n':
		return program_number("count", optarg, 1, INT64_MAX, &o->count);
	case 'f':
		return program_number("flow-rows", optarg, 0, MAX_FLOW_ROWS, &o->flow_rows);
	default:
		return program_fail(EXIT_USAGE, "option %d is not handled", c);
	}
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "ports", required_argument, NULL, 'p' },   { "interval", required_argument, NULL, 'i' },
		{ "t0", required_argument, NULL, '0' },      { "count", required_argument, NULL, 'n' },
		{ "matrix", required_argument, NULL, 'm' },  { "flow-rows", required_argument, NULL, 'f' },
		{ "trace", required_argument, NULL, 't' },   { "check-late", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, PROGRAM_HELP }, { 0 },
	};
	int rc;

	rc = program_options(argc, argv, longs, usage, take_option, o);
	return rc ? rc : check_options(o);
}

/* ---- the schedule ---- */

/* A stop that arrives between the test and the sleep is seen one interval later. */
static int run(struct qmon *q, struct fault *f)
{
	for (uint64_t k = 0; k < q->opt.count && !program_stop; k++) {
		uint64_t t_ns = q->opt.t0_ns + k * q->opt.interval_ns;
		int rc = sleep_until(t_ns);

		if (rc)
			return fault_say(f, -EIO, "sleep until %" PRIu64 ": %s", t_ns, strerror(-rc));
		if (program_stop)
			break;
		if (q->opt.check_late && now_ns() >= t_ns + q->opt.interval_ns)
			q->late++;
		rc = sweeper_sweep(&q->sweeper, t_ns, f);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- main ---- */

static int prepare(struct qmon *q, struct fault *f)
{
	const struct options *o = &q->opt;
	int rc = sweeper_open(&q->sweeper, o->ports, f);

	if (!rc)
		rc = sweeper_open_matrix(&q->sweeper, o->matrix, (uint32_t)o->flow_rows, 0, o->interval_ns,
					 o->t0_ns, f);
	if (!rc && o->trace)
		rc = sweeper_open_trace(&q->sweeper, o->trace, o->interval_ns, o->t0_ns, f);
	return rc;
}

static int say_ready(const struct qmon *q)
{
	uint64_t now = now_ns();

	if (now >= q->opt.t0_ns)
		return program_fail(EXIT_USAGE,
				    "--t0: %" PRIu64 " is past, it is %" PRIu64 " already; give a later time",
				    q->opt.t0_ns, now);
	return program_say("ready\n");
}

static int finish(struct qmon *q, struct fault *f)
{
	int rc = sweeper_finish_trace(&q->sweeper, f);

	if (!rc && q->opt.check_late)
		printf("late %" PRIu64 "\n", q->late);
	return rc;
}

int main(int argc, char **argv)
{
	struct qmon q = { .sweeper = SWEEPER_INIT };
	struct fault fault;
	int rc = parse_options(argc, argv, &q.opt);

	if (rc)
		return rc;
	rc = program_prepare();
	if (!rc)
		rc = program_end(prepare(&q, &fault), &fault);
	if (!rc)
		rc = say_ready(&q);
	if (!rc)
		rc = program_end(run(&q, &fault), &fault);
	if (!rc)
		rc = program_end(finish(&q, &fault), &fault);
	sweeper_close(&q.sweeper);
	return rc;
}
