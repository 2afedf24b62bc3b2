/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_job.h"

#include "tgen_tcp.h"
#include "tgen_transport.h"

int job_plan(struct run *run)
{
	const struct job_table *t = run->job.table;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < t->nodes; i++) {
		const struct job_node *node = &t->node[i];

		if (node->kind == JOB_SEND)
			run->flows.flow[node->subject].messages.any = true;
		if (node->kind == JOB_START && (int64_t)node->amount < run->config->duration_ns)
			rc = timers_add(
				&run->timers,
				(struct timer){ run->config->t0_ns + (int64_t)node->amount, TIMER_JOB, i });
	}
	return rc;
}

/* --- what happens ------------------------------------------------------------------------------------ */

/* Puts a node behind the last of a queue. */
static void append(struct job *job, uint32_t *first, uint32_t *last, uint32_t number)
{
	job->state[number].next = JOB_NONE;
	if (*first == JOB_NONE)
		*first = number;
	else
		job->state[*last].next = number;
	*last = number;
}

/* --- calc -------------------------------------------------------------------------------------------- */

/* Begins the first in the queue. One that takes no time is over at once. */
static int compute_first(struct run *run, struct job_processor *processor, int64_t at)
{
	struct job *job = &run->job;

	for (uint32_t number; (number = processor->first) != JOB_NONE; job_end(job, number, at)) {
		int64_t takes = (int64_t)job->table->node[number].amount;

		job_begin(job, number, at);
		if (takes)
			return timers_add(&run->timers, (struct timer){ at + takes, TIMER_JOB, number });
		processor->first = job->state[number].next;
	}
	return 0;
}

static int compute(struct run *run, uint32_t number, int64_t at)
{
	struct job_processor *processor = &run->job.processors[run->job.table->node[number].subject];
	bool idle = processor->first == JOB_NONE;

	append(&run->job, &processor->first, &processor->last, number);
	return idle ? compute_first(run, processor, at) : 0;
}

static int computed(struct run *run, uint32_t number, int64_t at)
{
	struct job_processor *processor = &run->job.processors[run->job.table->node[number].subject];

	processor->first = run->job.state[number].next;
	job_end(&run->job, number, at);
	return compute_first(run, processor, at);
}

/* --- messages ---------------------------------------------------------------------------------------- */

static int post(struct run *run, uint32_t number, int64_t at)
{
	const struct job_node *node = &run->job.table->node[number];
	struct messages *messages = &run->flows.flow[node->subject].messages;
	bool idle = messages->first == JOB_NONE;
	int rc = 0;

	job_begin(&run->job, number, at);
	append(&run->job, &messages->first, &messages->last, number);
	messages->posted += node->amount;
	if (idle) {
		messages->boundary += node->amount;
		rc = tcp_expect(run, node->subject);
	}
	return rc ? rc : transport_offer(run, node->subject, at);
}

/* A message may have arrived before its receiver wants it. */
static void receive(struct job *job, uint32_t number, int64_t at)
{
	job_begin(job, number, at);
	if (job->state[job->table->node[number].subject].times.end_ns >= 0)
		job_end(job, number, at);
}

int job_go_on(struct run *run)
{
	struct job *job = &run->job;
	int rc = 0;

	while (!rc && job->begun < job->readied) {
		uint32_t number = job->ready[job->begun++];

		switch ((enum job_kind)job->table->node[number].kind) {
		case JOB_CALC:
			rc = compute(run, number, job->at);
			break;
		case JOB_SEND:
			rc = post(run, number, job->at);
			break;
		default:
			receive(job, number, job->at);
		}
	}
	return rc;
}

int job_on_timer(struct run *run, uint32_t number, int64_t at)
{
	int rc = 0;

	if (run->job.table->node[number].kind == JOB_CALC) {
		rc = computed(run, number, at);
	} else {
		job_begin(&run->job, number, at);
		job_end(&run->job, number, at);
	}
	return rc ? rc : job_go_on(run);
}

int job_log(struct run *run)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < run->job.table->nodes; i++) {
		struct tgen_job_record record = run->job.state[i].times;

		record.start_ns = run_after_t0(run, record.start_ns);
		record.end_ns = run_after_t0(run, record.end_ns);
		rc = tgen_log_add(&run->logs.job, &record);
	}
	return rc ? rc : tgen_log_finish(&run->logs.job);
}
