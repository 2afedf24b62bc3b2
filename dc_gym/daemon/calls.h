/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several system calls as one: LAB_IOC_CALLS of a lab's /dev/lab (lab.h).
 *
 * In a lab a system call costs ten times what its work costs, because the host switches between two
 * processes. So a daemon hands over the call that waits together with those that follow it. Elsewhere each is
 * made by itself.
 */
#ifndef CALLS_H
#define CALLS_H

#include "lab.h"

#include <stdint.h>

struct calls {
	int lab; /* descriptor of /dev/lab; -1: this is no lab */
	uint32_t size, n;
	struct lab_call *call;
	const char **name;
};

#define CALLS_INIT                                                                                           \
	{                                                                                                    \
		.lab = -1                                                                                    \
	}

/* Room for `size` calls, at most LAB_CALLS_MAX: 0 or -ENOMEM. */
int calls_open(struct calls *c, uint32_t size);
void calls_close(struct calls *c);

/* Adds a call, one of those that lab_calls.c allows. There must be room. `name` is what calls_failed() names
 * it. Returns where its result will be; the result is -ECANCELED if the call is not made. */
const __s64 *calls_add(struct calls *c, const char *name, long number, const __u64 arguments[6]);

/* Of the call that was added last: the argument `at`, from 0, will be the descriptor that the last socket()
 * or accept4() of the list opened; or a result that is not equal to the argument `at` makes the call the
 * last. */
void calls_take_opened(struct calls *c, unsigned int at);
void calls_want_whole(struct calls *c, unsigned int at);

/* Makes the calls in their order, and empties the list. Returns how many were made, the last of which may
 * have failed, or -errno. A connect() that is under way (-EINPROGRESS) has not failed. */
int calls_run(struct calls *c);

/* Returns the error of the last of the `made` calls that calls_run() made, and its name; 0 if it did not
 * fail. */
int calls_failed(const struct calls *c, int made, const char **name);

#endif
