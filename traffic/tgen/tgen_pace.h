/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application with a rate: it produces its payload chunk by chunk. Gaps between chunks are exact, uniform
 * from nothing to twice the mean, or exponential; random ones follow from seed, flow and number of the chunk
 * alone, and from integers alone: a logarithm of the C library may differ in its last bit from CPU to CPU.
 */
#ifndef TGEN_PACE_H
#define TGEN_PACE_H

#include "flow_table.h"

#include <stdint.h>

/* Used where gaps are random. */
struct pace {
	uint64_t seed;   /* pace_seed() of the run's seed and the flow's number */
	uint64_t bytes;  /* produced by the application */
	int64_t next_ps; /* time of its next bytes, after its first */
	uint32_t draws;
};

uint64_t pace_seed(uint64_t seed, uint32_t flow);
/*
 * Payload that an application has produced `elapsed` ns after its first byte, in whole chunks (of a datagram
 * each, or of full segments), and when it has more than what was `queued`.
 */
uint64_t pace_offered(struct pace *pace, const struct flow_spec *spec, int64_t elapsed);
int64_t pace_next(const struct pace *pace, const struct flow_spec *spec, uint64_t queued);
uint64_t offered_bytes(const struct flow_spec *spec, int64_t elapsed);
int64_t offered_next(const struct flow_spec *spec, uint64_t queued);
int64_t gap_ps(const struct flow_spec *spec, uint64_t random);

#endif
