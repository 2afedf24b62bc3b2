/* SPDX-License-Identifier: Apache-2.0 */
#include "job_state.h"

#include <errno.h>
#include <stdlib.h>

int job_init(struct job *job, const struct job_table *table)
{
	*job = (struct job){ .table = table };
	job->state = calloc(table->nodes + 1, sizeof(*job->state));
	job->processors = calloc(table->processors + 1, sizeof(*job->processors));
	job->ready = calloc(table->nodes + 1, sizeof(*job->ready));
	if (!job->state || !job->processors || !job->ready)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->processors; i++)
		job->processors[i].first = JOB_NONE;
	for (uint32_t i = 0; i < table->nodes; i++)
		job->state[i] = (struct job_state){ .times = { -1, -1 }, .receive = JOB_NONE };
	for (uint32_t i = 0; i < table->nodes; i++)
		if (table->node[i].kind == JOB_RECV)
			job->state[table->node[i].subject].receive = i;
	for (uint32_t i = 0; i < table->nedges; i++)
		job->state[table->edges[i] / 2].needs++;
	return 0;
}

void job_free(struct job *job)
{
	free(job->state);
	free(job->processors);
	free(job->ready);
	*job = (struct job){ 0 };
}

/* Nodes that waited for the beginning or the end of one wait for one thing less. */
static void tell(struct job *job, uint32_t number, uint32_t of_beginning, int64_t at)
{
	const struct job_node *node = &job->table->node[number];

	job->at = at;
	for (uint32_t i = 0; i < node->edges_len; i++) {
		uint32_t edge = job->table->edges[node->edges_start + i];

		if (edge % 2 == of_beginning && --job->state[edge / 2].needs == 0)
			job->ready[job->readied++] = edge / 2;
	}
}

void job_begin(struct job *job, uint32_t number, int64_t at)
{
	job->state[number].times.start_ns = at;
	tell(job, number, 1, at);
}

void job_end(struct job *job, uint32_t number, int64_t at)
{
	job->state[number].times.end_ns = at;
	tell(job, number, 0, at);
}

static void deliver(struct job *job, uint32_t send, int64_t at)
{
	uint32_t receive = job->state[send].receive;

	job_end(job, send, at);
	if (receive != JOB_NONE && job->state[receive].times.start_ns >= 0)
		job_end(job, receive, at);
}

bool job_arrived(struct job *job, struct messages *messages, uint64_t received, int64_t at)
{
	bool another = false;

	while (messages->first != JOB_NONE && received >= messages->boundary) {
		uint32_t send = messages->first;

		messages->first = job->state[send].next;
		another = messages->first != JOB_NONE;
		if (another)
			messages->boundary += job->table->node[messages->first].amount;
		deliver(job, send, at);
	}
	return another;
}
