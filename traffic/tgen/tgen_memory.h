/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's memory for sockets, shared by the flows that are under way. */
#ifndef TGEN_MEMORY_H
#define TGEN_MEMORY_H

#include <stdint.h>

struct memory {
	long bytes;     /* that all sockets may hold unsent, and again unread */
	uint32_t flows; /* under way */
};

void memory_open(struct memory *memory);
/* Returns the bytes for one flow of those under way when one of them asks: at most `max`. */
int memory_share(const struct memory *memory, int max);

#endif
