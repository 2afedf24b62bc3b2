/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of events for an algorithm alone: what ccrun and cctest read. An event is a line of numbers with
 * commas: type, flags, now_ns, first_ns, coalesced, bytes, packets, sent_ns, received_ns, answered_ns, and of
 * the flow base_rtt_ns, line_mbps, packet_bytes, hops. With telemetry follow acked_psn, sent_psn, the number
 * of records, and five records.
 */
#ifndef DCGYM_CCTRACE_H
#define DCGYM_CCTRACE_H

#include <stdio.h>

#include "cc.h"

struct cctrace_step {
	struct cc_event event;
	struct cc_flow flow;
};
#define CCTRACE_COLUMNS           14
#define CCTRACE_TELEMETRY_COLUMNS (CCTRACE_COLUMNS + 3 + CC_HOPS)
_Static_assert(CC_EVENT_HEAD_BYTES + sizeof(struct cc_flow) == CCTRACE_COLUMNS * sizeof(uint32_t),
	       "columns are the fields in their order");

#define CCTRACE_NUMBERS_MAX 64
_Static_assert(CC_PARAMETERS_MAX < CCTRACE_NUMBERS_MAX && LAB_INT_RATES * CC_RATE_WORDS < CCTRACE_NUMBERS_MAX,
	       "room for all parameters, and for the table of rates");

/* Numbers of 32 bits with commas, as many as there is room for; how many there were, or -EINVAL. */
int cctrace_numbers(const char *text, uint32_t *numbers, int room);

/*
 * All lines of a file. The number of steps, and the caller frees them; or -EINVAL or -ENOMEM, and the number
 * of the line in *line_number.
 */
int cctrace_read(FILE *file, struct cctrace_step **steps, int *line_number);

/* A table of a policy file: words of this machine's order, CC_TABLE_WORDS at most; the rest is zero. 0 or
 * -errno. */
int cctrace_table(const char *path, uint32_t *table);

#endif
