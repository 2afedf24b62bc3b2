/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Oblivious trees of depth 4, boosted: what RL-CC's and FDCC's policies as trees share. Each tree compares
 * four inputs with borders, one bit each, and adds the leaf of that number: no multiplication, no branch on
 * data. The table says how many trees there are (policy.h).
 */
#ifndef DCGYM_TREES_H
#define DCGYM_TREES_H

#include "bits.h"
#include "policy.h"

/* The bit of a compare: is its input above its border? mask: the count of inputs, a power of two, less 1. */
static inline uint32_t trees_above(const uint32_t *input, uint32_t mask, const uint32_t *tree,
				   uint32_t compare)
{
	uint32_t which = tree[POLICY_TREE_INPUTS] >> (8 * compare) & mask;
	int64_t left = (int64_t)(int32_t)tree[POLICY_TREE_BORDERS + compare] - (int32_t)input[which];

	return bits_sign(left) << compare;
}

/* The sum of the trees' leaves and the bias, Q16: 32 + 7 bits. */
static inline int64_t trees_sum(const uint32_t *input, uint32_t mask, const uint32_t *table)
{
	const uint32_t *tree = table + POLICY_HEAD_WORDS;
	int64_t sum = (int32_t)table[POLICY_WORD_BIAS];

	for (uint32_t i = 0; i < POLICY_TREES_MAX && i < table[POLICY_WORD_COUNT]; i++) {
		uint32_t leaf = trees_above(input, mask, tree, 0) | trees_above(input, mask, tree, 1) |
				trees_above(input, mask, tree, 2) | trees_above(input, mask, tree, 3);

		sum += (int32_t)tree[POLICY_TREE_LEAVES + (leaf & 15)];
		tree += POLICY_TREE_WORDS;
	}
	return sum;
}

#endif
