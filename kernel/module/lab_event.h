/* SPDX-License-Identifier: GPL-2.0-only */
/* The events of ../drivers/lab_event.h for a kernel in real time: each is an hrtimer, and there is no loop.
 */
#ifndef _LINUX_LAB_EVENT_H
#define _LINUX_LAB_EVENT_H

#include <linux/hrtimer.h>

struct lab_event {
	struct hrtimer timer;
	void (*run)(struct lab_event *event); /* in softirq context; may start the event again */
};

static inline enum hrtimer_restart lab_event_expires(struct hrtimer *timer)
{
	struct lab_event *event = container_of(timer, struct lab_event, timer);

	event->run(event);
	return HRTIMER_NORESTART;
}

static inline void lab_event_setup(struct lab_event *event, void (*run)(struct lab_event *event))
{
	event->run = run;
	hrtimer_setup(&event->timer, lab_event_expires, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

static inline bool lab_event_queued(const struct lab_event *event)
{
	return hrtimer_is_queued((struct hrtimer *)&event->timer);
}

static inline u64 lab_event_clock(void)
{
	return ktime_get_ns();
}

static inline int lab_event_begin(struct lab_event *event)
{
	return 0;
}

static inline void lab_event_start(struct lab_event *event, u64 when_ns)
{
	hrtimer_start(&event->timer, ns_to_ktime(when_ns), HRTIMER_MODE_ABS_SOFT);
}

static inline void lab_event_cancel(struct lab_event *event)
{
	hrtimer_cancel(&event->timer);
}

static inline void lab_event_end(struct lab_event *event)
{
	lab_event_cancel(event);
}

#endif
