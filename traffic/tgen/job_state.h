/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far each node of a run's jobs is, and what has become ready. A node's beginning and end are at the
 * instant of what causes them: a timer for calc, the last byte's arrival for messages.
 */
#ifndef JOB_STATE_H
#define JOB_STATE_H

#include "flow_state.h"
#include "job_table.h"
#include "tgen_log.h"

#include <stdbool.h>
#include <stdint.h>

/* How far a node is. */
struct job_state {
	struct tgen_job_record times; /* CLOCK_MONOTONIC; -1: not yet */
	uint32_t needs;               /* that have yet to happen before it begins */
	uint32_t next;                /* in its connection's or processor's queue; JOB_NONE: none */
	uint32_t receive;             /* SEND: the RECV of its message; JOB_NONE: none */
};

/* Calc nodes that are ready: the first is under way. */
struct job_processor {
	uint32_t first, last;
};

/* Zeroed: no job. */
struct job {
	const struct job_table *table;
	struct job_state *state;
	struct job_processor *processors;
	uint32_t *ready; /* nodes in the order in which all their needs were met: each comes once */
	uint32_t begun, readied;
	int64_t at; /* when the last of them became ready */
};

int job_init(struct job *job, const struct job_table *table); /* 0 or -ENOMEM */
void job_free(struct job *job);
void job_begin(struct job *job, uint32_t node, int64_t at);
void job_end(struct job *job, uint32_t node, int64_t at);
/* A connection's receiver has `received` bytes since `at`: ends what has arrived. Returns whether another
 * message is under way now. */
bool job_arrived(struct job *job, struct messages *messages, uint64_t received, int64_t at);

#endif
