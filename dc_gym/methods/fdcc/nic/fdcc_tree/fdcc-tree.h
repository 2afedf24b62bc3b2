/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * FDCC (fdcc.h) as a few oblivious trees of depth 4 (trees.h) over its eight inputs, distilled from the
 * network that remembers, as RL-CC's are (ours; the thesis has none). The trees remember nothing but what is
 * among the inputs: the last output, and two changes.
 */
#ifndef DCGYM_FDCC_TREE_H
#define DCGYM_FDCC_TREE_H

#include "../fdcc.h"
#include "trees.h"

#define CC_NAME  "fdcc-tree"
#define CC_HELP  "FDCC as a few small trees, from records of the ports and round trips, sets a window"
#define CC_TABLE POLICY_FDCC_TREE

static BITS_CALLED int fdcc_think(uint32_t *state, const uint32_t *table)
{
	int64_t sum = trees_sum(state + FDCC_INPUT, POLICY_FDCC_INPUTS - 1, table);

	sum = sum < FDCC_ONE ? sum : FDCC_ONE;
	state[FDCC_OUTPUT] = (uint32_t)(sum > -FDCC_ONE ? sum : -FDCC_ONE);
	return 0;
}

#endif
