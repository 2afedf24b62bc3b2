// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of a vector of labs, for the process that holds the labs' channels
 * (dc_gym/learn/native/__init__.py).
 *
 * One call answers all labs, waits until each stands still again, and works out what was measured: the
 * observations, and the parts of the rewards.
 */
#ifndef STEPS_H
#define STEPS_H

#include "measures.h"

#define STEPS_VERSION 1

enum lab_state {
	LAB_IDLE,    /* takes no part in this call */
	LAB_ANSWERS, /* stands still; this call lets it go on */
	LAB_RUNS,    /* was told to go on, and has not asked again */
	LAB_STANDS,  /* asked again, and was measured */
	LAB_SAID,    /* sent a message that is no agent's step, which Python reads; then it runs */
	LAB_ENDED,   /* closed its channel, or its program asks where its agent should */
};

uint32_t steps_version(void);

/*
 * Labs stay on one CPU each. A thread that waits for a lab is best on the lab's own CPU: going from one to
 * the other is then a switch, and not a message to a CPU that may be asleep. So each CPU with labs has a
 * thread; the caller itself is that of the CPU where it runs. Between two exchanges, workers spin for a
 * while.
 */
struct worker {
	int32_t cpu;
	uint32_t go;   /* written by the caller: number of the exchange */
	uint32_t done; /* written by the worker: the last exchange that it has finished */
	uint32_t asleep;
	uint32_t stop;
	uint32_t reserved[11]; /* a cache line */
};

#define MASK_WORDS 16

struct team {
	struct lab *labs;
	struct worker *workers; /* one for each CPU that has labs; none if that is one CPU */
	uint32_t count, worker_count;
	uint32_t waits; /* 1: the caller sleeps until a worker is done */
	uint32_t reserved;
	uint64_t mask[MASK_WORDS]; /* the CPUs where the caller may run */
};

/* Results of an exchange that Python has to look at. */
enum {
	STEPS_RUN = 1,  /* a lab still runs: after another message, a signal, or the timeout of its socket */
	STEPS_DIED = 2, /* a lab has closed its channel */
	STEPS_OVER = 4, /* an episode is over */
	STEPS_CHANGED = 8, /* other flows are at work: `fair_bps` and `reward` are those of the step before */
};

/* Answers the labs that are to go on, waits for all that run, and measures them. Returns STEPS_ flags. */
uint32_t steps_exchange(struct team *team);

/* The life of a worker: until `stop`. */
void steps_work(struct team *team, struct worker *worker);

/* Waits until no worker is at work. */
void steps_settle(struct team *team);

/* Ends all workers. */
void steps_stop(struct team *team);

#endif
