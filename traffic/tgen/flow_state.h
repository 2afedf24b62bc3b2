/* SPDX-License-Identifier: Apache-2.0 */
/* How far each flow of a run is. */
#ifndef FLOW_STATE_H
#define FLOW_STATE_H

#include "flow_gates.h"
#include "flow_table.h"
#include "job_table.h"
#include "tgen_log.h"
#include "tgen_matrix.h"
#include "tgen_pace.h"

#include <stdbool.h>
#include <stdint.h>

enum phase { PHASE_WAITING, PHASE_CONNECTING, PHASE_SENDING, PHASE_ENDED };

/* The messages that a flow carries for a job, in the order in which they are posted. */
struct messages {
	bool any;             /* the flow is a connection of a job; it offers what is posted */
	uint32_t first, last; /* nodes: posted and under way; JOB_NONE: none */
	uint64_t posted;      /* bytes of all that were posted */
	uint64_t boundary;    /* bytes up to the end of the first one under way */
};

struct flow {
	const struct flow_spec *spec;
	int sender, receiver; /* descriptors; -1 when closed */
	enum phase phase;
	enum tgen_status status;
	int error;
	const char *failed; /* the call that failed */
	bool full;   /* the sender's socket took less than it was offered; EPOLLOUT will say when to go on */
	bool closed; /* the sender has sent its FIN */
	bool final_batch; /* SO_RCVLOWAT is what is left of the flow */
	int ahead;
	int64_t due_ns;                           /* CLOCK_MONOTONIC; -1: its gate has not opened */
	int64_t start_ns, established_ns, end_ns; /* likewise; -1: not yet */
	uint64_t queued;                          /* payload that the sender's socket took */
	uint64_t sent, received, retransmits;
	uint64_t told[NR_ORDERS]; /* by an agent: what its sender's socket was set to last; 0: nothing */
	struct pace pace;
	struct messages messages; /* of a job */
};

struct flows {
	struct flow *flow;
	uint32_t count;
	uint64_t *under_way; /* one bit a flow */
	uint64_t *draining;  /* likewise: stopped, and not all has arrived */
	struct gates gates;
};

/* Bytes that the application has offered so long after its first. */
static inline uint64_t flow_offered(struct flow *flow, int64_t elapsed)
{
	return flow->messages.any ? flow->messages.posted : pace_offered(&flow->pace, flow->spec, elapsed);
}

int flows_init(struct flows *flows, const struct flow_table *table, uint64_t seed); /* 0 or -ENOMEM */
void flows_close(struct flows *flows);
bool flow_drains(const struct flows *flows, uint32_t number);
void flow_set_draining(struct flows *flows, uint32_t number, bool drains);
void flow_close_end(int *fd); /* a sender or receiver; -1 is fine */

#endif
