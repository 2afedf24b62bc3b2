/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open-addressing index over things that the caller numbers. find() answers the slot that holds an equal
 * element, or the empty one where it belongs (SLOT_EMPTY).
 */
#ifndef SLOTS_H
#define SLOTS_H

#include <stddef.h>
#include <stdint.h>

#define SLOT_EMPTY UINT32_MAX
struct slots {
	uint32_t *slot;
	uint32_t mask;
};
typedef int (*slot_equal)(const void *context, uint32_t element, const void *key);

/* Room for so many elements: 0 or -ENOMEM. */
int slots_init(struct slots *slots, uint32_t elements);
uint32_t *slots_find(const struct slots *slots, uint64_t hash, slot_equal equal, const void *context,
		     const void *key);
void slots_free(struct slots *slots);
uint64_t hash_bytes(const void *bytes, size_t len);

#endif
