/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events of the lab's links, and the loop that runs them: see drivers/lab/lab_event.c.
 *
 * An event behaves exactly as a soft hrtimer of CLOCK_MONOTONIC does that is started in absolute time: what
 * is due at one nanosecond runs in the order in which it was started, events and hrtimers alike.
 */
#ifndef _LINUX_LAB_EVENT_H
#define _LINUX_LAB_EVENT_H

#include <linux/timekeeping.h>
#include <linux/types.h>

struct lab_event {
	void (*run)(struct lab_event *event); /* called in softirq context; may start the event again */
	unsigned int slot;                    /* place in the queue, from 1; 0: not in it */
};

static inline void lab_event_setup(struct lab_event *event, void (*run)(struct lab_event *event))
{
	event->run = run;
	event->slot = 0;
}

static inline bool lab_event_queued(const struct lab_event *event)
{
	return event->slot;
}

/* The time, in bottom halves. Time stands still while an event runs, so it need not be read again. */
extern u64 lab_event_now_ns; /* 0: no event runs */
static inline u64 lab_event_clock(void)
{
	return lab_event_now_ns ?: ktime_get_ns();
}

/* Reserves room for `count` more queued events; returns 0 or -ENOMEM. Both may sleep. */
int lab_events_reserve(unsigned int count);
void lab_events_release(unsigned int count);

void lab_event_start(struct lab_event *event, u64 when_ns); /* bottom halves are off; a queued event moves */
void lab_event_cancel(struct lab_event *event);

/* kernel/softirq.c calls these with interrupts off. */
enum lab_events_ran {
	LAB_EVENTS_NONE,      /* no softirq is pending */
	LAB_EVENTS_INTERRUPT, /* a timer interrupt came, and its softirqs are pending */
	LAB_EVENTS_ROUND,     /* the first round of softirqs of an interrupt has run, and more are pending */
};
enum lab_events_ran lab_events_loop(void);
void lab_events_leave(void);

/* kernel/time/hrtimer.c uses these. The number counts starts of events and of soft hrtimers. */
extern u64 lab_event_number;
bool lab_event_run_before(u64 now_ns, u64 when_ns, u64 number);
extern bool lab_hrtimers_changed; /* true: some changed since lab_hrtimers_first() looked */

/* kernel/time/hrtimer.c defines these. Callers have interrupts off. */
struct lab_hrtimers {
	u64 expires_ns;     /* expiry of the first one, which makes an interrupt */
	u64 softexpires_ns; /* time from which an interrupt runs the first one */
};
struct lab_hrtimers lab_hrtimers_first(void);
void lab_hrtimers_rearm(void);
void lab_hrtimers_run_soft(void); /* called in softirq context */

/* kernel/time/tick-sched.c defines these. Callers have interrupts off. */
bool lab_tick_may_jump(u64 when_ns);
void lab_tick_jumped(u64 now_ns);

/* arch/um/kernel/time.c defines these. Callers have interrupts off. */
void lab_time_jump(u64 when_ns);
void lab_time_interrupt(void);

#endif
