// SPDX-License-Identifier: Apache-2.0
/*
 * qmon: sweep the queues of many network namespaces on an absolute schedule.
 *
 * Each sweep dumps the qdiscs of every namespace once over a netlink socket that stays open, and
 * publishes a row a port in the state matrix and in a trace (docs/protocols.md). Sweep k belongs to
 * t0 + k * interval, and that is the time written with it. On a virtual clock it is also the time at
 * which it happens; on a real one a sweep can begin later, which --check-late counts.
 *
 * In a lab the loop makes one system call, to sleep and to sweep, and reads no clock: a system call is most
 * of what a sweep costs there, and reading the clock moves it.
 */
#include "options.h"
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

	if (__builtin_mul_overflow(o->interval_ns, o->count, &span) || span > INT64_MAX - o->t0_ns)
		return program_fail(EXIT_USAGE,
				    "--count: %" PRIu64 " sweeps end after the year 2262; give fewer",
				    o->count);
	return 0;
}

static int parse_options(int argc, char **argv, struct options *o)
{
	const struct program_option options[] = {
		{ "ports", "FILE", "record file of the ports", .text = &o->ports, .required = true },
		{ "interval", "NS", "between sweeps", .number = &o->interval_ns, .required = true,
		  .min = MIN_INTERVAL_NS, .max = MAX_INTERVAL_NS },
		{ "t0", "NS", "CLOCK_MONOTONIC of the first sweep", .number = &o->t0_ns, .required = true,
		  .min = 1, .max = INT64_MAX },
		{ "count", "N", "sweeps", .number = &o->count, .required = true, .min = 1, .max = INT64_MAX },
		{ "matrix", "FILE", "file or device that holds the state matrix", .text = &o->matrix },
		{ "flow-rows", "N", "rows in it for the traffic generator's flows (0)",
		  .number = &o->flow_rows, .max = MAX_FLOW_ROWS },
		{ "trace", "FILE", "every sweep, one after the other", .text = &o->trace },
		{ "check-late", NULL,
		  "count sweeps that began after the next was due; the last line is 'late COUNT'",
		  .flag = &o->check_late },
		{ 0 },
	};
	int rc = options_read(argc, argv, options, "");

	return rc ? rc : check_options(o);
}

/* ---- the schedule ---- */

/* The clock is read when the sweep is due. */
static int check_late(struct qmon *q, uint64_t t_ns, struct fault *f)
{
	int rc = sleep_until(t_ns);

	if (rc)
		return fault_say(f, -EIO, "sleep until %" PRIu64 ": %s", t_ns, strerror(-rc));
	if (now_ns() >= t_ns + q->opt.interval_ns)
		q->late++;
	return 0;
}

/* A stop that arrives between the test and the sleep is seen one interval later. */
static int run(struct qmon *q, struct fault *f)
{
	for (uint64_t k = 0; k < q->opt.count && !program_stop; k++) {
		uint64_t t_ns = q->opt.t0_ns + k * q->opt.interval_ns;
		int rc = q->opt.check_late ? check_late(q, t_ns, f) : 0;

		if (!rc)
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
		rc = program_ready(q.opt.t0_ns);
	if (!rc)
		rc = program_end(run(&q, &fault), &fault);
	if (!rc)
		rc = program_end(finish(&q, &fault), &fault);
	sweeper_close(&q.sweeper);
	return rc;
}
