/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that follow each other, as one: LAB_IOC_CALLS of a lab's /dev/lab (lab.h).
 *
 * In a lab a system call costs ten times what it does, because the host switches between two processes. So a
 * daemon hands over what it does next together with the call that waits. Elsewhere each takes a call of its
 * own.
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

/* Adds a call, of those that lab_calls.c allows: where its result will be, -ECANCELED if an earlier one
 * fails. There must be room. */
const __s64 *calls_add(struct calls *c, long number, const __u64 arguments[6]);

/* Carries them out in their order, and begins anew: how many, the last of which may have failed; or -errno.
 */
int calls_run(struct calls *c);

#endif
