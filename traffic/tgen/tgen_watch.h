/* SPDX-License-Identifier: Apache-2.0 */
/* What the process waits for: one epoll, and one timer in it. All answer 0 or -errno; *step names the call.
 */
#ifndef TGEN_WATCH_H
#define TGEN_WATCH_H

#include <stdint.h>
#include <sys/epoll.h>

struct watches {
	int epoll, timer;
	int64_t armed; /* when the timer fires, ns; 0: never */
};

/* The subject of an epoll event: kind << 32 | number. */
enum watch {
	WATCH_TIMER,
	WATCH_SIGNAL,
	WATCH_LISTENER,
	WATCH_SENDER,
	WATCH_RECEIVER,
	WATCH_BELL,
	WATCH_ORDERS
};

#define WATCHES_INIT                                                                                         \
	{                                                                                                    \
		.epoll = -1, .timer = -1                                                                     \
	}

int watches_open(struct watches *watches, const char **step);
void watches_close(struct watches *watches);
struct epoll_event watch_event(uint32_t events, enum watch kind, uint32_t number);
int watch_add(const struct watches *watches, int fd, struct epoll_event event, const char **step);

#endif
