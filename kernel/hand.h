/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's hand in a lab: a program that makes the system calls which the host writes into the shared
 * region. So the set-up of a run is computed on the host, where everything is imported already, and no Python
 * starts in the lab.
 *
 * The hand maps the region at HAND_BASE, so the host knows the address of whatever it writes there. It asks
 * for a list by the step HAND_STEP of the lab's channel. The answer is an exit status with which it ends, or
 * HAND_GO_ON: then a list lies at HAND_AT, which is carried out in its order. The first call that fails is
 * the last, unless it may fail.
 *
 * run/grounds/hand.py is the other side.
 */
#ifndef HAND_H
#define HAND_H

#include <stdint.h>

#define HAND_BASE      0x200000000ull
#define HAND_STEP      0x68616e64ull /* no run has so many steps */
#define HAND_GO_ON     0x100         /* no exit status */
#define HAND_CALLS_MAX 4096

/* A number beyond those of Linux: starts a program that has SCHED_FIFO's priority 0 .. 99 (0: none).
 * Arguments: addresses of its path and of its argv, its standard input and output, and the priority. Returns
 * its process id.
 */
#define HAND_START 0x10000u

struct hand_call {
	uint32_t number;  /* __NR_..., or HAND_START */
	uint8_t back[6];  /* the argument is the result of the call that many places before this one; 0: as
			     given */
	uint8_t may_fail; /* the list goes on */
	uint8_t reserved[5];
	int64_t arguments[6];
	int64_t result; /* negative: an errno */
};

/* At this place of the region: what lies below it is the state matrix, what lies above it is for what
 * arguments point to. */
#define HAND_AT (7u << 19)
struct hand_list {
	uint32_t count;
	uint32_t reserved;
	struct hand_call call[];
};

#endif
