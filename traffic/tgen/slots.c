/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t hash_bytes(const void *bytes, size_t len)
{
	const unsigned char *p = bytes;
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h ^ (h >> 32);
}

int slots_init(struct slots *slots, uint32_t elements)
{
	uint32_t n = 8;

	while (n < 2 * (uint64_t)elements && n < (1u << 31))
		n *= 2;
	slots->slot = malloc(n * sizeof(*slots->slot));
	if (!slots->slot)
		return -ENOMEM;
	memset(slots->slot, 0xff, n * sizeof(*slots->slot));
	slots->mask = n - 1;
	return 0;
}

uint32_t *slots_find(const struct slots *slots, uint64_t hash, slot_equal equal, const void *context,
		     const void *key)
{
	uint32_t i = (uint32_t)hash & slots->mask;

	while (slots->slot[i] != SLOT_EMPTY && !equal(context, slots->slot[i], key))
		i = (i + 1) & slots->mask;
	return &slots->slot[i];
}

void slots_free(struct slots *slots)
{
	free(slots->slot);
	slots->slot = NULL;
}
