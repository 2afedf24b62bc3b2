/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tgen: sends and sinks all traffic of a ground (docs/protocols.md).
 *
 * Exit codes: 0 done; 1 could not do it; 2 bad input; 143 or 130 given up on SIGTERM or SIGINT. One line on
 * standard error says what, where and the remedy; a signal needs none.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "options.h"
#include "program.h"
#include "tgen_clock.h"
#include "tgen_end.h"
#include "tgen_job.h"
#include "tgen_loop.h"
#include "tgen_orders.h"
#include "tgen_publish.h"
#include "tgen_run.h"
#include "tgen_setup.h"

enum { SIGNALLED = 128 };

struct options {
	const char *flows, *job, *out;
	struct run_config run;
};

/* --- options ----------------------------------------------------------------------------------------- */

/* Three ids of BPF maps, as the NICs' loader prints them. */
static int parse_nic(const char *text, struct nic_ids *ids)
{
	uint32_t *const id[] = { &ids->senders, &ids->receivers, &ids->ports };
	char part[3][16] = { "", "", "" };
	uint64_t v;
	int used = 0;

	if (sscanf(text, "%15[0-9],%15[0-9],%15[0-9]%n", part[0], part[1], part[2], &used) != 3)
		used = 0;
	for (int i = 0; i < 3; i++) {
		if (!used || text[used] || options_number(part[i], 1, UINT32_MAX, &v))
			return program_fail(EXIT_USAGE,
					    "--nic: '%s' is not three ids of BPF maps such as 3,4,5", text);
		*id[i] = (uint32_t)v;
	}
	return 0;
}

static int parse_options(struct options *o, int argc, char **argv)
{
	struct run_config *run = &o->run;
	uint64_t t0_ns, duration_ns, sample_ns, publish_ns = 0, warm_mask = UINT16_MAX;
	uint64_t burst = 64, gap_ns = 1000000, settle_ns = 100000000;
	const char *nic = NULL;
	const struct program_option options[] = {
		{ "flows", "FILE", "record file of the flows", .text = &o->flows, .required = true },
		{ "job", "FILE", "record file of the jobs that play over the flows", .text = &o->job },
		{ "out", "DIR", "where flows.bin and samples.bin go", .text = &o->out, .required = true },
		{ "t0", "NS", "CLOCK_MONOTONIC at which the flows' times begin", .number = &t0_ns,
		  .required = true, .min = 1, .max = FLOW_TIME_MAX },
		{ "duration", "NS", "of the run", .number = &duration_ns, .required = true, .min = 1,
		  .max = FLOW_TIME_MAX },
		{ "sample", "NS", "between samples; 0: none", .number = &sample_ns, .required = true,
		  .max = FLOW_TIME_MAX },
		{ "matrix", "FILE", "file or device that holds the state matrix", .text = &run->matrix },
		{ "publish", "NS", "between looks at the flows for the matrix (0: at their ends alone)",
		  .number = &publish_ns, .max = FLOW_TIME_MAX },
		{ "seed", "N", "of random gaps (0)", .number = &run->seed, .max = UINT64_MAX },
		{ "warm", NULL, "send a frame over each path before the start", .flag = &run->warm.on },
		{ "warm-mask", "BITS", "of the ports that switches look at (65535)", .number = &warm_mask,
		  .max = UINT16_MAX },
		{ "warm-burst", "N", "such frames that are sent at once (64)", .number = &burst, .min = 1,
		  .max = UINT32_MAX },
		{ "warm-gap", "NS", "pause after each burst (1000000)", .number = &gap_ns,
		  .max = FLOW_TIME_MAX },
		{ "warm-settle", "NS", "pause after the last: all frames arrive (100000000)",
		  .number = &settle_ns, .max = FLOW_TIME_MAX },
		{ "nic", "SENDERS,RECEIVERS,PORTS", "ids of the NICs' maps, as nicd prints them",
		  .text = &nic },
		{ "keep-pairs", NULL, "flows between the same ends are of one queue pair",
		  .flag = &run->keep_pairs },
		{ "stay", NULL, "keep the sockets at the end, until the line 'end'", .flag = &run->stay },
		{ 0 },
	};
	int rc = options_read(argc, argv, options, "Says 'ready' and waits for the line 'go'.\n");

	if (rc)
		return rc;
	run->t0_ns = (int64_t)t0_ns;
	run->duration_ns = (int64_t)duration_ns;
	run->sample_ns = (int64_t)sample_ns;
	run->publish_ns = (int64_t)publish_ns;
	run->warm.mask = (uint16_t)warm_mask;
	run->warm.burst = (uint32_t)burst;
	run->warm.gap_ns = (int64_t)gap_ns;
	run->warm.settle_ns = (int64_t)settle_ns;
	if (publish_ns && !run->matrix)
		return program_fail(EXIT_USAGE,
				    "--publish writes into the state matrix; name it with --matrix");
	return nic ? parse_nic(nic, &run->nic) : 0;
}

static int load_flows(const struct options *o, struct flow_table *table)
{
	struct fault f;
	int rc = record_file_open(&table->file, "--flows", o->flows, &f);

	if (!rc)
		rc = flow_table_take(table, &f);
	return program_end(rc, &f);
}

static int load_job(const struct options *o, const struct flow_table *flows, struct job_table *table)
{
	struct fault f;
	int rc;

	if (!o->job)
		return 0;
	rc = record_file_open(&table->file, "--job", o->job, &f);
	if (!rc)
		rc = job_table_take(table, flows, &f);
	return program_end(rc, &f);
}

/* --- the process ------------------------------------------------------------------------------------- */

/* Signals arrive at a descriptor: a busy loop sees them too, and none is missed between a test and a wait. */
static int prepare_process(int *signals)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return -errno;
	*signals = signalfd(-1, &mask, SFD_CLOEXEC);
	if (*signals < 0)
		return -errno;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_TIMERSLACK, 1) < 0)
		return -errno;
	return 0;
}

static int say_ready(void)
{
	static const char ready[] = "ready\n";

	return write(STDOUT_FILENO, ready, sizeof(ready) - 1) == (ssize_t)sizeof(ready) - 1 ? 0 : -EPIPE;
}

/* Reads one line, "go" or "end". It may take for ever; a signal ends it. */
static int wait_for(const char *word, int signals)
{
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };
	size_t len = strlen(word);
	char line[sizeof("end\n")];

	for (size_t have = 0; have < len;) {
		ssize_t n;

		if (poll(fds, 2, -1) < 0)
			return -errno;
		if (fds[1].revents)
			return -EINTR;
		n = read(STDIN_FILENO, line + have, len - have);
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		have += (size_t)n;
	}
	return memcmp(line, word, len) == 0 ? 0 : -EPROTO;
}

static int fault(const char *what, int rc)
{
	return program_fail(EXIT_FAILED, "%s: %s", what, strerror(-rc));
}

/* Returns the exit status that a shell gives to an end by this signal. */
static int exit_of_signal(int signals)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return fault("read which signal came", -EIO);
	return SIGNALLED + (int)info.ssi_signo;
}

static int start(const struct run_config *config)
{
	int64_t now;
	int rc;

	rc = say_ready();
	if (rc)
		return fault("say ready on standard output", rc);
	rc = wait_for("go\n", config->signals);
	if (rc == -EINTR)
		return exit_of_signal(config->signals);
	if (rc)
		return fault("wait for the line 'go' on standard input", rc);
	now = clock_now();
	if (now <= config->t0_ns)
		return 0;
	return program_fail(EXIT_FAILED,
			    "--t0: '%" PRId64 "': already past when 'go' came at %" PRId64
			    "; choose a later t0",
			    config->t0_ns, now);
}

/* Waits for the end with all sockets open, so that a reader at that instant sees no FIN of theirs. */
static int stay(int signals)
{
	int rc = wait_for("end\n", signals);

	if (rc == -EINTR)
		return exit_of_signal(signals);
	return rc ? fault("wait for the line 'end' on standard input", rc) : 0;
}

static void tell_failed(const struct run *run)
{
	const struct flow *first = NULL;
	uint32_t failed = 0;

	for (uint32_t i = run->table->flows; i-- > 0;)
		if (run->flows.flow[i].status == TGEN_FAILED) {
			first = &run->flows.flow[i];
			failed++;
		}
	if (first)
		program_fail(0, "%u of %u flows failed; the first is flow %u: %s: %s", failed,
			     run->table->flows, (uint32_t)(first - run->flows.flow), first->failed,
			     strerror(first->error));
}

static int run_and_log(struct loop *loop)
{
	struct run *run = loop->run;
	int rc, code;

	rc = loop_run(loop);
	if (rc == -EINTR)
		return exit_of_signal(run->config->signals);
	if (!rc)
		rc = end_settle(run);
	code = !rc && run->config->stay ? stay(run->config->signals) : 0;
	if (!rc && !code)
		rc = end_finish(run);
	if (!rc && !code)
		tell_failed(run);
	return rc ? fault(run->fault, rc) : code;
}

static int open_run(struct run *run, struct loop *loop, const struct run_config *config,
		    const struct flow_table *table, const struct job_table *jobs)
{
	int rc = run_open(run, config, table, jobs);

	if (!rc)
		rc = job_plan(run);
	if (!rc)
		rc = loop_open(loop, run);
	if (rc)
		return rc;
	publish_reset(run);
	rc = orders_open(run);
	if (!rc)
		rc = setup_sockets(run);
	return !rc && config->warm.on ? setup_warm(run) : rc;
}

static int run_flows(const struct run_config *config, const struct flow_table *table,
		     const struct job_table *jobs)
{
	struct loop loop = { 0 };
	struct run run;
	int rc, code;

	rc = open_run(&run, &loop, config, table, jobs);
	code = rc ? fault(run.fault, rc) : start(config);
	if (rc && run.bad_input)
		code = EXIT_USAGE;
	if (!code)
		code = run_and_log(&loop);
	if (code > SIGNALLED)
		end_abort(&run);
	loop_close(&loop);
	run_close(&run);
	return code;
}

int main(int argc, char **argv)
{
	struct options options = { .run = { .out = -1, .signals = -1 } };
	struct flow_table table = { 0 };
	struct job_table jobs = { 0 };
	int rc;

	rc = parse_options(&options, argc, argv);
	if (!rc)
		rc = load_flows(&options, &table);
	if (!rc)
		rc = load_job(&options, &table, &jobs);
	if (rc)
		goto out;
	options.run.out = open(options.out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (options.run.out < 0) {
		rc = program_fail(EXIT_USAGE, "--out: '%s': %s", options.out, strerror(errno));
		goto out;
	}
	rc = prepare_process(&options.run.signals);
	rc = rc ? fault("prepare the process", rc) : run_flows(&options.run, &table, &jobs);
out:
	if (options.run.signals >= 0)
		close(options.run.signals);
	if (options.run.out >= 0)
		close(options.run.out);
	job_table_free(&jobs);
	flow_table_free(&table);
	return rc;
}
