// SPDX-License-Identifier: GPL-2.0-only
/*
 * The event loop of a lab.
 *
 * Most of what happens in a lab is that a frame arrives or that a transmitter becomes free, every few
 * nanoseconds of virtual time. As hrtimers each of them costs a programmed clock event device, a timer
 * interrupt, a raised softirq and a pass through the idle loop. Here they are events in one queue, and while
 * the lab is idle the last softirq of an interrupt does not return: it sets the clock to the next event and
 * runs it. It returns when a task can run, or when a timer of the wheel is due. hrtimers that are due are run
 * here too, by the handler of their interrupt.
 *
 * Order. What is due at the same nanosecond runs as it would without this file: first hrtimers that expire in
 * hard interrupts, then the softirqs, and among the soft hrtimers of CLOCK_MONOTONIC and the events what was
 * started first (lab_event_number). hrtimer_run_softirq() merges the two queues. What is started for a moment
 * that has passed runs one nanosecond from now, as the clock event device has it.
 *
 * lab_event_loop=0 switches the loop off: then one hrtimer, the alarm, stands for the first event, and every
 * event is an interrupt. What a lab computes is the same.
 */
#include <lab_page.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/lab_event.h>
#include <linux/minmax.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

struct slot {
	u64 when_ns;
	u64 number;
	struct lab_event *event;
};

u64 lab_event_number;
bool lab_hrtimers_changed = true;
static struct slot *heap; /* a binary heap, from 1 */
static unsigned int queued, room, reserved;
static struct hrtimer alarm; /* wakes the lab for the first event, outside the loop */
static u64 alarm_ns = U64_MAX;
static bool loop = true;
static bool running_alone; /* the loop runs events, and no hrtimer is due with them */
static bool jumped;        /* since the clock event device was programmed */

static int __init lab_event_loop_setup(char *arg)
{
	return kstrtobool(arg, &loop) == 0;
}
__setup("lab_event_loop=", lab_event_loop_setup);

/* ---- The queue ---- */

static bool before(const struct slot *a, const struct slot *b)
{
	return a->when_ns < b->when_ns || (a->when_ns == b->when_ns && a->number < b->number);
}

static void put(unsigned int at, const struct slot *slot)
{
	heap[at] = *slot;
	slot->event->slot = at;
}

static void sift_up(unsigned int at, const struct slot *slot)
{
	for (; at > 1 && before(slot, &heap[at / 2]); at /= 2)
		put(at, &heap[at / 2]);
	put(at, slot);
}

/* The hole at `at` goes down to a leaf, where the last slot, which takes it, mostly belongs. */
static void fill_hole(unsigned int at)
{
	struct slot last = heap[queued--];
	unsigned int child;

	if (at > queued)
		return;
	while ((child = 2 * at) < queued) {
		child += before(&heap[child + 1], &heap[child]);
		put(at, &heap[child]);
		at = child;
	}
	if (child == queued) {
		put(at, &heap[child]);
		at = child;
	}
	sift_up(at, &last);
}

static void take(struct lab_event *event)
{
	unsigned int at = event->slot;

	event->slot = 0;
	fill_hole(at);
}

static u64 first_ns(void)
{
	return queued ? heap[1].when_ns : U64_MAX;
}

static void set_alarm(void)
{
	u64 first = first_ns();

	if (first == alarm_ns)
		return;
	alarm_ns = first;
	if (first == U64_MAX)
		hrtimer_try_to_cancel(&alarm);
	else
		hrtimer_start(&alarm, ns_to_ktime(first), HRTIMER_MODE_ABS_SOFT);
}

/* The events are run by hrtimer_run_softirq(), which this one only brings about. */
static enum hrtimer_restart alarm_expires(struct hrtimer *timer)
{
	alarm_ns = U64_MAX;
	return HRTIMER_NORESTART;
}

void lab_event_start(struct lab_event *event, u64 when_ns)
{
	const struct slot slot = { .when_ns = when_ns, .number = ++lab_event_number, .event = event };

	if (event->slot)
		take(event);
	if (WARN_ON_ONCE(queued >= reserved))
		return;
	sift_up(++queued, &slot);
	if (event->slot == 1 && !in_serving_softirq()) /* lab_events_leave() does it in a softirq */
		set_alarm();
}

void lab_event_cancel(struct lab_event *event)
{
	local_bh_disable();
	if (event->slot)
		take(event);
	local_bh_enable();
}

int lab_events_reserve(unsigned int count)
{
	unsigned int more = max(2 * room, 64u);
	struct slot *now;

	ASSERT_RTNL();
	if (reserved + count > room) {
		now = kvmalloc_array(more + 1, sizeof(*now), GFP_KERNEL);
		if (!now)
			return -ENOMEM;
		local_bh_disable();
		if (heap)
			memcpy(now, heap, (queued + 1) * sizeof(*now));
		swap(now, heap);
		room = more;
		local_bh_enable();
		kvfree(now);
	}
	reserved += count;
	return 0;
}

void lab_events_release(unsigned int count)
{
	reserved -= count;
}

/* ---- Running ---- */

u64 lab_event_now_ns;

/* Runs the first event if it is due and comes before the given one; false if not. */
bool lab_event_run_before(u64 now_ns, u64 when_ns, u64 number)
{
	const struct slot limit = { .when_ns = when_ns, .number = number };
	struct lab_event *event;

	if (first_ns() > now_ns || !before(&heap[1], &limit))
		return false;
	event = heap[1].event;
	take(event);
	lab_page->events++;
	lab_page->loop_events += running_alone;
	lab_event_now_ns = now_ns;
	event->run(event);
	lab_event_now_ns = 0;
	return true;
}

/* Runs the events as the first round of softirqs would if an hrtimer stood for them. */
static void run_alone(u64 now_ns)
{
	local_irq_enable();
	running_alone = true;
	while (lab_event_run_before(now_ns, U64_MAX, 0))
		if (lab_hrtimers_first().softexpires_ns <= now_ns) { /* an event started it */
			running_alone = false;
			lab_hrtimers_run_soft();
			break;
		}
	running_alone = false;
	local_irq_disable();
}

/*
 * The softirqs of an interrupt have run, none is pending, and interrupts are off. Goes on with the next
 * events until a softirq is pending or the interrupt must end.
 */
enum lab_events_ran lab_events_loop(void)
{
	struct lab_hrtimers timers;
	u64 now_ns, first_event_ns, next_ns;

	if (!loop || !is_idle_task(current) || need_resched())
		return LAB_EVENTS_NONE;
	if (alarm_ns != U64_MAX)
		hrtimer_try_to_cancel(&alarm);
	alarm_ns = U64_MAX;
	now_ns = ktime_get_ns();
	while (!need_resched()) {
		first_event_ns = first_ns();
		timers = lab_hrtimers_first();
		next_ns = min(first_event_ns, timers.expires_ns);
		if (next_ns == U64_MAX)
			break;
		next_ns = max(next_ns, now_ns + 1);
		if (!lab_tick_may_jump(next_ns))
			break;
		lab_time_jump(next_ns);
		lab_tick_jumped(next_ns);
		jumped = true;
		now_ns = next_ns;
		if (timers.softexpires_ns <= now_ns) {
			lab_time_interrupt();
			if (first_event_ns <= now_ns)
				raise_softirq_irqoff(HRTIMER_SOFTIRQ);
			if (local_softirq_pending())
				return LAB_EVENTS_INTERRUPT;
		} else {
			run_alone(now_ns);
			if (local_softirq_pending())
				return LAB_EVENTS_ROUND;
		}
	}
	return LAB_EVENTS_NONE;
}

/* The softirqs are about to end: the clock event device wakes the lab for what comes next. */
void lab_events_leave(void)
{
	set_alarm();
	if (jumped)
		lab_hrtimers_rearm();
	jumped = false;
}

static int __init lab_events_init(void)
{
	hrtimer_setup(&alarm, alarm_expires, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	return 0;
}
core_initcall(lab_events_init);
