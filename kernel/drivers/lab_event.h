/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events of the lab's links, and the loop that runs them: see drivers/lab/lab_event.c.
 *
 * An event behaves exactly as a soft hrtimer of CLOCK_MONOTONIC does that is started in absolute time: what
 * is due at one nanosecond runs in the order in which it was started, events and hrtimers alike.
 */
#ifndef _LINUX_LAB_EVENT_H
#define _LINUX_LAB_EVENT_H

#include <lab_page.h>
#include <linux/types.h>

struct lab_event {
	void (*run)(struct lab_event *event); /* called in softirq context; may start the event again */
	u32 id;                               /* from 1; 0: it has not begun, or has ended */
};

static inline void lab_event_setup(struct lab_event *event, void (*run)(struct lab_event *event))
{
	event->run = run;
	event->id = 0;
}

extern u32 *lab_event_place;
static inline bool lab_event_queued(const struct lab_event *event)
{
	return event->id && lab_event_place[event->id];
}

/* The time, in bottom halves: nobody pays for reading it there. */
static inline u64 lab_event_clock(void)
{
	return lab_page->virtual_ns;
}

/*
 * An event that is set up begins before its first start, and ends before its memory is freed. RTNL is held,
 * and both may sleep. Begin returns 0 or -ENOMEM. End cancels; starting an event that has not begun or has
 * ended does nothing.
 */
int lab_event_begin(struct lab_event *event);
void lab_event_end(struct lab_event *event);

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
