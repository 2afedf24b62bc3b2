/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs that tgen plays over the flows of a flow table: two tables of one record file. A job is a graph: a
 * node begins when all that it waits for has happened. dc_gym/traffic/jobs/plan.py makes it.
 */
#ifndef JOB_TABLE_H
#define JOB_TABLE_H

#include "flow_table.h"
#include "record_file.h"

#define JOB_MAGIC       "DCGYJOBS"
#define JOB_EDGES_MAGIC "DCGJEDGE"
#define JOB_VERSION     1

#define JOB_MAX       (1u << 28) /* nodes */
#define JOB_NONE      UINT32_MAX
#define JOB_BYTES_MAX ((UINT64_C(1) << 40) - 1) /* of a message */

/*
 * START happens at a time; all else follows from it. A CALC takes its time on a processor, one after the
 * other. A SEND posts a message on a connection, and is done when the receiver has its last byte. A RECV is
 * done when it has begun and its message has arrived.
 */
enum job_kind { JOB_START, JOB_CALC, JOB_SEND, JOB_RECV, NR_JOB_KINDS };

/* The first table. The second has edges, u32: the node that waits, times 2, plus 1 if it waits for the
 * beginning of this node instead of its end. */
struct job_node {
	uint64_t amount;  /* START: ns after t0; CALC: ns; SEND: bytes */
	uint32_t subject; /* CALC: number of the processor; SEND: of the flow; RECV: of the SEND */
	uint32_t edges_start, edges_len;
	uint32_t kind; /* enum job_kind */
};

static_assert(sizeof(struct job_node) == 24, "node of a job");

struct job_table {
	struct record_file file; /* holds the records */
	const struct job_node *node;
	const uint32_t *edges;
	uint32_t nodes, nedges, processors, starts;
};

/* All of `file`: 0, -EINVAL or -ENOMEM with *f filled in. */
int job_table_take(struct job_table *table, const struct flow_table *flows, struct fault *f);
void job_table_free(struct job_table *table); /* closes the file, too */

#endif
