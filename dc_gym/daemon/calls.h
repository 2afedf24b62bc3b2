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
};

#define CALLS_INIT                                                                                           \
	{                                                                                                    \
		.lab = -1                                                                                    \
	}

/* Room for `size` calls, at most LAB_CALLS_MAX: 0 or -ENOMEM. */
int calls_open(struct calls *c, uint32_t size);
void calls_close(struct calls *c);

/* Adds a call, one of those that lab_calls.c allows. There must be room. Returns where its result will be;
 * the result is -ECANCELED if an earlier call fails. */
const __s64 *calls_add(struct calls *c, long number, const __u64 arguments[6]);

/* Makes the calls in their order, and empties the list. Returns how many were made, the last of which may
 * have failed, or -errno. */
int calls_run(struct calls *c);

#endif
