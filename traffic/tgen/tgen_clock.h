/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a run: it is read at most once a wake-up, by itself or by a call that is made with others. */
#ifndef TGEN_CLOCK_H
#define TGEN_CLOCK_H

#include "calls.h"

#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000

struct clock {
	int64_t now;             /* CLOCK_MONOTONIC, ns; 0: not read since the wake-up */
	struct timespec planned; /* where a planned call puts it */
};

int64_t clock_now(void);
int64_t clock_read(struct clock *clock); /* once a wake-up */
/* Plans a call that reads the clock, unless it is known; taken after calls_run(). */
void clock_plan(struct clock *clock, struct calls *calls);
void clock_take(struct clock *clock);

#endif
