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

/*
 * A slot has no pointer to its event, and no event is touched while slots move: where an event is in the
 * queue stands in an array of its own, by the event's id, which is the lower part of the key.
 */
#define ID_BITS 20
#define ID_MASK ((1u << ID_BITS) - 1)

struct slot {
	u64 when_ns;
	u64 key; /* number << ID_BITS | id */
};

/* Behind the last slot lie as many that are later than any, so four children can always be compared. */
#define CHILDREN 4
static const struct slot never = { U64_MAX, U64_MAX };

u64 lab_event_number;
bool lab_hrtimers_changed = true;
static struct slot *heap;         /* from 1; the children of n are 4n - 2 .. 4n + 1, in one cache line */
static void *heap_memory;         /* in which it lies */
static struct lab_event **events; /* by id */
static u32 *free_ids;             /* a stack */
u32 *lab_event_place;             /* by id: places in the queue; 0: not in it */
static unsigned int queued, room, ids_free;
static bool first_taken;     /* the first event runs, and nothing has its slot yet */
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

static __always_inline unsigned __int128 order(const struct slot *slot)
{
	return (unsigned __int128)slot->when_ns << 64 | slot->key;
}

/* Without a branch: the processor cannot foresee which comes first. */
static __always_inline bool before(const struct slot *a, const struct slot *b)
{
	return order(a) < order(b);
}

static __always_inline void put(unsigned int at, struct slot slot)
{
	heap[at] = slot;
	lab_event_place[slot.key & ID_MASK] = at;
}

static void sift_up(unsigned int at, struct slot slot)
{
	while (at > 1) {
		unsigned int parent = (at + 2) / CHILDREN;

		if (!before(&slot, &heap[parent]))
			break;
		put(at, heap[parent]);
		at = parent;
	}
	put(at, slot);
}

/* The hole at `at` goes down to a leaf, near which the slot that takes it mostly belongs. */
static void sift_down(unsigned int at, struct slot slot)
{
	unsigned int child, other;

	while ((child = CHILDREN * at - 2) <= queued) {
		other = child + 2 + before(&heap[child + 3], &heap[child + 2]);
		child += before(&heap[child + 1], &heap[child]);
		child += (other - child) & -(unsigned int)before(&heap[other], &heap[child]);
		put(at, heap[child]);
		at = child;
	}
	sift_up(at, slot);
}

static struct slot take_last(void)
{
	struct slot last = heap[queued];

	heap[queued--] = never;
	return last;
}

static void fill_first(void)
{
	struct slot last = take_last();

	first_taken = false;
	if (queued)
		sift_down(1, last);
}

static void take(struct lab_event *event)
{
	struct slot last;
	unsigned int at;

	if (first_taken)
		fill_first();
	at = lab_event_place[event->id];
	lab_event_place[event->id] = 0;
	last = take_last();
	if (at > queued)
		return;
	if (at > 1 && before(&last, &heap[(at + 2) / CHILDREN]))
		sift_up(at, last);
	else
		sift_down(at, last);
}

static u64 first_ns(void)
{
	if (first_taken)
		fill_first();
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
	const struct slot slot = { when_ns, ++lab_event_number << ID_BITS | event->id };

	if (!event->id)
		return; /* its owner goes away */
	if (lab_event_place[event->id])
		take(event);
	if (first_taken) { /* a softirq runs, so the alarm is set by lab_events_leave() */
		first_taken = false;
		sift_down(1, slot);
		return;
	}
	sift_up(++queued, slot);
	if (lab_event_place[event->id] == 1 && !in_serving_softirq())
		set_alarm();
}

void lab_event_cancel(struct lab_event *event)
{
	local_bh_disable();
	if (lab_event_queued(event))
		take(event);
	local_bh_enable();
}

/* ---- Ids ---- */

struct tables {
	void *heap;
	struct lab_event **events;
	u32 *free_ids, *place;
};

static void free_tables(const struct tables *tables)
{
	kvfree(tables->heap);
	kvfree(tables->events);
	kvfree(tables->free_ids);
	kvfree(tables->place);
}

static int make_tables(struct tables *tables, unsigned int size)
{
	tables->heap = kvcalloc(size + 3 * CHILDREN, sizeof(*heap), GFP_KERNEL);
	tables->events = kvcalloc(size + 1, sizeof(*events), GFP_KERNEL);
	tables->free_ids = kvcalloc(size, sizeof(*free_ids), GFP_KERNEL);
	tables->place = kvcalloc(size + 1, sizeof(*lab_event_place), GFP_KERNEL);
	if (tables->heap && tables->events && tables->free_ids && tables->place)
		return 0;
	free_tables(tables);
	return -ENOMEM;
}

static void use_tables(struct tables *tables, unsigned int size)
{
	/* The children of the first slot begin a cache line. */
	struct slot *slots = (struct slot *)PTR_ALIGN(tables->heap, CHILDREN * sizeof(*slots)) + 2;
	unsigned int i;

	if (room) {
		memcpy(slots, heap, (queued + 1) * sizeof(*slots));
		memcpy(tables->events, events, (room + 1) * sizeof(*events));
		memcpy(tables->place, lab_event_place, (room + 1) * sizeof(*lab_event_place));
	}
	for (i = queued + 1; i <= size + CHILDREN; i++)
		slots[i] = never;
	for (i = size; i > room; i--) /* the old ones are all in use */
		tables->free_ids[ids_free++] = i;
	heap = slots;
	swap(tables->heap, heap_memory);
	swap(tables->events, events);
	swap(tables->free_ids, free_ids);
	swap(tables->place, lab_event_place);
	room = size;
}

static int grow(void)
{
	unsigned int size = clamp(2 * room, 64u, ID_MASK);
	struct tables tables;

	if (size == room || make_tables(&tables, size))
		return -ENOMEM;
	local_bh_disable();
	if (first_taken)
		fill_first();
	use_tables(&tables, size);
	local_bh_enable();
	free_tables(&tables);
	return 0;
}

int lab_event_begin(struct lab_event *event)
{
	ASSERT_RTNL();
	if (!ids_free && grow())
		return -ENOMEM;
	event->id = free_ids[--ids_free];
	events[event->id] = event;
	return 0;
}

void lab_event_end(struct lab_event *event)
{
	ASSERT_RTNL();
	if (!event->id)
		return;
	local_bh_disable();
	lab_event_cancel(event);
	events[event->id] = NULL;
	free_ids[ids_free++] = event->id;
	event->id = 0;
	local_bh_enable();
}

/* ---- Running ---- */

/* Runs the first event if it is due and comes before the given one; false if not. */
bool lab_event_run_before(u64 now_ns, u64 when_ns, u64 number)
{
	const struct slot limit = { when_ns, number << ID_BITS };
	struct lab_event *event;

	if (first_ns() > now_ns || !before(&heap[1], &limit))
		return false;
	event = events[heap[1].key & ID_MASK];
	lab_event_place[event->id] = 0;
	first_taken = true;
	lab_page->events++;
	lab_page->loop_events += running_alone;
	event->run(event);
	if (first_taken)
		fill_first();
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
