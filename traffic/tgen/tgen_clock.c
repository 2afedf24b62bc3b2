/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_clock.h"

#include <sys/syscall.h>

static int64_t in_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return in_ns(t);
}

int64_t clock_read(struct clock *clock)
{
	if (!clock->now)
		clock->now = clock_now();
	return clock->now;
}

void clock_plan(struct clock *clock, struct calls *calls)
{
	if (!clock->now)
		calls_add(calls, "clock_gettime", SYS_clock_gettime,
			  (__u64[6]){ CLOCK_MONOTONIC, (uintptr_t)&clock->planned });
}

void clock_take(struct clock *clock)
{
	if (clock->planned.tv_sec || clock->planned.tv_nsec)
		clock->now = in_ns(clock->planned);
	clock->planned = (struct timespec){ 0 };
}
