/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_memory.h"

#include "tgen_net.h"

#define MEMORY_FALLBACK (64 << 20) /* used where tcp_mem cannot be read: not in the first namespace */
#define ROOM_MIN        (16 << 10) /* a buffer's least size, however many flows share the memory */

/*
 * All sockets together stay below memory pressure: a quarter of the room for what is not sent, a quarter for
 * what is not read.
 */
void memory_open(struct memory *memory)
{
	long bytes = net_tcp_memory();

	memory->bytes = (bytes > 0 ? bytes : MEMORY_FALLBACK) / 4;
}

int memory_share(const struct memory *memory, int max)
{
	long share = memory->bytes / (memory->flows ? memory->flows : 1);

	return share < ROOM_MIN ? ROOM_MIN : share > max ? max : (int)share;
}
