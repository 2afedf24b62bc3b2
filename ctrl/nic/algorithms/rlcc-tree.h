/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * RL-CC as a NIC can run it (sec. V): boosted oblivious trees of depth 4, distilled from a net. Each compares
 * four inputs with borders, one bit each, and adds the leaf of that number: no multiplication, no branch on
 * data. The policy file says how many trees; 10 make 40 compares and 10 additions.
 */
#ifndef DCGYM_RLCC_TREE_H
#define DCGYM_RLCC_TREE_H

#include "../rlcc.h"

#define CC_NAME  "rlcc-tree"
#define CC_HELP  "RL-CC: raises or cuts by up to 1.2 at each RTT, as a few small trees say"
#define CC_TABLE POLICY_TREE

/* The bit of a compare: is its input above its border? */
static inline uint32_t rlcc_above(const uint32_t *input, const uint32_t *tree, uint32_t compare)
{
	uint32_t which = tree[POLICY_TREE_INPUTS] >> (8 * compare) & 3;
	int64_t left = (int64_t)(int32_t)tree[POLICY_TREE_BORDERS + compare] - (int32_t)input[which];

	return bits_sign(left) << compare;
}

static inline int32_t rlcc_policy(uint32_t *input, const uint32_t *table)
{
	const uint32_t *tree = table + POLICY_HEAD_WORDS;
	int64_t sum = (int32_t)table[POLICY_WORD_BIAS];

	for (uint32_t i = 0; i < POLICY_TREES_MAX && i < table[POLICY_WORD_COUNT]; i++) {
		uint32_t leaf = rlcc_above(input, tree, 0) | rlcc_above(input, tree, 1) |
				rlcc_above(input, tree, 2) | rlcc_above(input, tree, 3);

		sum += (int32_t)tree[POLICY_TREE_LEAVES + (leaf & 15)];
		tree += POLICY_TREE_WORDS;
	}
	return rlcc_cut(sum, RLCC_ACTION_LEAST, RLCC_ACTION_GREATEST);
}

#endif
