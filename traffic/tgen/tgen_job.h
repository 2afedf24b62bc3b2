/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs of a run under way. A node's beginning and end are at the instant of what causes them: a timer for
 * calc, the last byte's arrival for messages.
 */
#ifndef TGEN_JOB_H
#define TGEN_JOB_H

#include "job_table.h"
#include "tgen_log.h"

#include <stdint.h>

struct run;

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
};

int job_init(struct job *job, const struct job_table *table); /* 0 or -ENOMEM */
void job_free(struct job *job);
int job_plan(struct run *run); /* marks the connections, and plans the starts */
int job_on_timer(struct run *run, uint32_t node, int64_t at);
/* A connection's receiver has `received` bytes since `at`. */
int job_arrived(struct run *run, uint32_t flow, uint64_t received, int64_t at);
int job_log(struct run *run);

#endif
