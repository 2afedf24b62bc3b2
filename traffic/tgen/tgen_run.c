/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAYLOAD_FILE (16 << 20) /* at least what one sendfile() offers; a hole */

int run_fault(struct run *run, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run->fault, sizeof(run->fault), format, args);
	va_end(args);
	return rc;
}

int run_calls(struct run *run, const char **step)
{
	int made = calls_run(&run->calls);

	clock_take(&run->clock);
	return calls_failed(&run->calls, made, step);
}

int run_watch(struct run *run, int fd, uint32_t events, enum watch kind, uint32_t number)
{
	const char *step;
	int rc = watch_add(&run->watches, fd, watch_event(events, kind, number), &step);

	return rc ? run_fault(run, rc, "%s", step) : 0;
}

int run_enter(struct run *run, uint32_t ns)
{
	int rc = hosts_enter(&run->hosts, ns);

	return rc ? run_fault(run, rc, "enter network namespace %s (root's rights are needed)",
			      run->table->netns[ns].path)
		  : 0;
}

/* --- opening ----------------------------------------------------------------------------------------- */

static int allocate(struct run *run, const struct job_table *jobs)
{
	int rc = flows_init(&run->flows, run->table, run->config->seed);

	if (!rc)
		rc = receivers_init(&run->receivers, run->table);
	if (!rc)
		rc = hosts_init(&run->hosts, run->table->namespaces);
	if (!rc)
		rc = calls_open(&run->calls, RUN_CALLS);
	if (!rc)
		rc = job_init(&run->job, jobs);
	return rc ? rc
		  : timers_init(&run->timers, 4 * run->table->flows + 2 + jobs->processors + jobs->starts);
}

/* A start, a stop and an offer a flow, a drain a sink, the next sample and the end; a calc a processor. */
static int plan(struct run *run)
{
	const struct run_config *c = run->config;
	int rc = timers_add(&run->timers,
			    (struct timer){ .at = c->t0_ns + c->duration_ns, .kind = TIMER_END });

	for (uint32_t i = 0; !rc && i < run->flows.count; i++) {
		struct flow *flow = &run->flows.flow[i];

		if (flow->spec->gate != FLOW_NO_GATE)
			continue;
		flow->due_ns = c->t0_ns + flow->spec->start_ns;
		if (flow->spec->start_ns < c->duration_ns) /* else it is logged as one that waited */
			rc = timers_add(&run->timers, (struct timer){ flow->due_ns, TIMER_START, i });
	}
	return rc;
}

static int index_receivers(struct run *run)
{
	uint32_t number, other;
	int rc = receivers_index(&run->receivers, &number, &other);

	return rc ? run_fault(run, rc,
			      "--flows: flow %u, src_port: %u is that of flow %u, too; give flows "
			      "between the same ends ports of their own",
			      number, run->table->flow[number].src_port, other)
		  : 0;
}

static int open_machinery(struct run *run)
{
	const char *step;
	int rc = watches_open(&run->watches, &step);

	if (rc)
		return run_fault(run, rc, "%s", step);
	run->payload = memfd_create("payload", MFD_CLOEXEC);
	if (run->payload < 0 || ftruncate(run->payload, PAYLOAD_FILE) < 0)
		return run_fault(run, -errno, "memfd_create (the kernel needs CONFIG_TMPFS)");
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

static int open_logs(struct run *run)
{
	int rc = open_log(run, &run->logs.samples, "samples.bin", TGEN_SAMPLES_MAGIC,
			  sizeof(struct tgen_sample_record));

	if (!rc)
		rc = open_log(run, &run->logs.flows, "flows.bin", TGEN_FLOWS_MAGIC,
			      sizeof(struct tgen_flow_record));
	if (!rc && run->config->nic.senders)
		rc = open_log(run, &run->logs.nics, "nics.bin", TGEN_NICS_MAGIC,
			      sizeof(struct tgen_nic_record));
	if (!rc && run->job.table->nodes)
		rc = open_log(run, &run->logs.job, "job.bin", TGEN_JOB_MAGIC, sizeof(struct tgen_job_record));
	return rc;
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
	return 0;
}

int run_open(struct run *run, const struct run_config *config, const struct flow_table *table,
	     const struct job_table *jobs)
{
	int rc;

	*run = (struct run){ .config = config,
			     .table = table,
			     .watches = WATCHES_INIT,
			     .calls = CALLS_INIT,
			     .logs = TGEN_LOGS_CLOSED,
			     .orders = -1,
			     .payload = -1 };
	rc = allocate(run, jobs);
	if (!rc)
		rc = plan(run);
	if (rc)
		return run_fault(run, rc, "allocate %u flows", table->flows);
	rc = index_receivers(run);
	run->bad_input = rc != 0;
	if (!rc)
		rc = open_machinery(run);
	if (!rc) {
		rc = open_matrix(run);
		run->bad_input = rc != 0;
	}
	return rc ? rc : open_logs(run);
}

/* --- the end ----------------------------------------------------------------------------------------- */

/* Flows that are still under way are no more. */
static void leave_matrix(struct run *run)
{
	for (uint32_t i = 0; i < run->flows.count; i++) {
		const struct flow *flow = &run->flows.flow[i];

		if (flow->phase == PHASE_CONNECTING || flow->phase == PHASE_SENDING)
			tgen_matrix_count(&run->matrix, run->table->rows + flow->spec->path_start,
					  flow->spec->path_len, -1);
	}
	tgen_matrix_close(&run->matrix);
}

void run_close(struct run *run)
{
	if (run->flows.flow)
		leave_matrix(run);
	flows_close(&run->flows);
	receivers_close(&run->receivers);
	hosts_close(&run->hosts);
	job_free(&run->job);
	calls_close(&run->calls);
	tgen_logs_close(&run->logs);
	nic_tables_close(&run->nics);
	pairs_close(&run->pairs);
	timers_free(&run->timers);
	if (run->payload >= 0)
		close(run->payload);
	run->payload = -1;
	if (run->orders >= 0)
		close(run->orders);
	run->orders = -1;
	watches_close(&run->watches);
}
