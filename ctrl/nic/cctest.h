/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* A message between cctest.c and cctest.bpf.c: one event, the decision before it, and the decision that it
 * leads to. */
#ifndef DCGYM_CCTEST_H
#define DCGYM_CCTEST_H

#include "cc.h"

#define CCTEST_FAILED 1

struct cctest_step {
	struct cc_event event;
	struct cc_flow flow;
	uint32_t rate, window_bytes, probe; /* read and written */
	uint32_t state[CC_STATE_WORDS_MAX]; /* out */
};

#endif
