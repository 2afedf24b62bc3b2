/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a run: it waits, acts at times and events, and takes the samples. */
#ifndef TGEN_LOOP_H
#define TGEN_LOOP_H

#include "tgen_run.h"
#include "tgen_tcp.h"

#include <stdbool.h>
#include <stdint.h>

struct loop {
	struct run *run;
	struct look *looks;                /* LOOKS_MAX of them */
	uint32_t foreseen;                 /* looks that were taken with the wait for their time; 0: none */
	unsigned int alike;                /* waits in a row that ended with nothing but the time of looks */
	int64_t next_sample, next_publish; /* INT64_MAX: no more */
	bool over;
};

int loop_open(struct loop *loop, struct run *run);
int loop_run(struct loop *loop); /* lasts until t0 + duration; -EINTR: a signal came */
void loop_close(struct loop *loop);

#endif
