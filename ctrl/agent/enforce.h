/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enforcement: what an agent wants of each row of the actuators file, set over netlink and read back by the
 * sweeps.
 *
 * A request is carried out when the call returns; that it was refused is told by the next sweep, which also
 * reads what is in force. No row is ever told a value outside its bounds. Rows of flows go to the traffic
 * generator instead, by the state matrix.
 */
#ifndef ENFORCE_H
#define ENFORCE_H

#include "actuators.h"
#include "fault.h"
#include "sweeper.h"

#include <stdint.h>

struct enforcer {
	const struct actuators *actuators;
	struct sweeper *sweeper;
	struct target *targets; /* one a row of the actuators file */
	uint32_t *first;        /* by row of the ports file: its first row of the actuators file */
	struct batch batch;
	uint32_t *planned;  /* row of each operation in the batch */
	uint32_t n_planned; /* those of which it has not been heard */
};

/* Prepare the requests. Each row's port must have a root qdisc of the kind that its actuator sets. */
int enforcer_open(struct enforcer *e, const struct actuators *actuators, struct sweeper *sweeper,
		  struct fault *f);
void enforcer_close(struct enforcer *e);

/* Plan to tell the kernel the values that differ from the last ones; SM_MAX_VALUES for each row. It is told
 * by the next sweep before that sleeps, or by enforcer_flush() if that comes first. */
int enforcer_plan(struct enforcer *e, const uint64_t *wanted, struct fault *f);
int enforcer_flush(struct enforcer *e, struct fault *f);

/* Tell the kernel every row's values of the start. */
int enforcer_reset(struct enforcer *e, struct fault *f);

/* Tell the kernel one row's values, whatever they were, and wait for its answer. */
int enforcer_set(struct enforcer *e, uint32_t i, const uint64_t *wanted, struct fault *f);

/* After a sweep: whether it told the kernel what was planned. */
int enforcer_check(struct enforcer *e, struct fault *f);

/* Returns the row's values of the last sweep, SM_MAX_VALUES of them; all 0 if the port has another qdisc. */
const uint64_t *enforcer_in_force(const struct enforcer *e, uint32_t i);

#endif
