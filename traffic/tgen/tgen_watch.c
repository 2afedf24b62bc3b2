/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_watch.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct epoll_event watch_event(uint32_t events, enum watch kind, uint32_t number)
{
	return (struct epoll_event){ .events = events, .data.u64 = (uint64_t)kind << 32 | number };
}

int watch_add(const struct watches *watches, int fd, struct epoll_event event, const char **step)
{
	*step = "epoll_ctl";
	return epoll_ctl(watches->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int watches_open(struct watches *watches, const char **step)
{
	*step = "epoll_create1";
	watches->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (watches->epoll < 0)
		return -errno;
	*step = "timerfd_create";
	watches->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (watches->timer < 0)
		return -errno;
	/* Edges: the timer need not be read. */
	return watch_add(watches, watches->timer, watch_event(EPOLLIN | EPOLLET, WATCH_TIMER, 0), step);
}

void watches_close(struct watches *watches)
{
	if (watches->timer >= 0)
		close(watches->timer);
	if (watches->epoll >= 0)
		close(watches->epoll);
	*watches = (struct watches)WATCHES_INIT;
}
