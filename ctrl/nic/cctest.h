/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What cctest.c and cctest.bpf.c hand to and fro: one event, what was decided before it, and what comes of
 * it. */
#ifndef DCGYM_CCTEST_H
#define DCGYM_CCTEST_H

#include "cc.h"

#define CCTEST_FAILED 1

struct cctest_step {
	struct cc_event event;
	struct cc_flow flow;
	uint32_t rate, window_bytes, probe; /* in and out */
	uint32_t state[CC_STATE_WORDS_MAX]; /* out */
};

#endif
