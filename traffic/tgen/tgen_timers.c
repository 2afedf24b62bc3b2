/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_timers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

int timers_init(struct timers *t, uint32_t room)
{
	*t = (struct timers){ .heap = calloc(room, sizeof(*t->heap)), .room = room };
	return t->heap ? 0 : -ENOMEM;
}

void timers_free(struct timers *t)
{
	free(t->heap);
	*t = (struct timers){ 0 };
}

static bool before(struct timer a, struct timer b)
{
	if (a.at != b.at)
		return a.at < b.at;
	return a.kind != b.kind ? a.kind < b.kind : a.flow < b.flow;
}

int timers_add(struct timers *t, struct timer timer)
{
	uint32_t i = t->count;

	if (i == t->room)
		return -ENOSPC;
	t->count++;
	for (; i > 0 && before(timer, t->heap[(i - 1) / 2]); i = (i - 1) / 2)
		t->heap[i] = t->heap[(i - 1) / 2];
	t->heap[i] = timer;
	return 0;
}

void timers_drop_first(struct timers *t)
{
	struct timer last = t->heap[--t->count];
	uint32_t i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < t->count && before(t->heap[child + 1], t->heap[child]))
			child++;
		if (child >= t->count || !before(t->heap[child], last))
			break;
		t->heap[i] = t->heap[child];
		i = child;
	}
	t->heap[i] = last;
}
