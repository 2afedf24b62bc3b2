/* SPDX-License-Identifier: Apache-2.0 */
/* Times and tasks of tgen: a binary heap, ordered by time, then kind, then flow, so that ties repeat. */
#ifndef TGEN_TIMERS_H
#define TGEN_TIMERS_H

#include <stdint.h>

/* At one instant the samples are taken first: they show what was before it. */
enum timer_kind { TIMER_END, TIMER_SAMPLE, TIMER_STOP, TIMER_START, TIMER_OFFER, TIMER_DRAIN, TIMER_JOB };

struct timer {
	int64_t at;          /* CLOCK_MONOTONIC */
	uint32_t kind, flow; /* flow: of TIMER_DRAIN a listener, of TIMER_JOB a node */
};

struct timers {
	struct timer *heap;
	uint32_t count, room;
};

int timers_init(struct timers *t, uint32_t room); /* 0 or -ENOMEM */
void timers_free(struct timers *t);
int timers_add(struct timers *t, struct timer timer); /* 0, or -ENOSPC past `room` */
void timers_drop_first(struct timers *t);             /* the heap must not be empty; the first is heap[0] */

#endif
