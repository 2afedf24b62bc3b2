/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * RL-CC as a NIC can run it (sec. V): boosted oblivious trees of depth 4 (trees.h), distilled from a net. The
 * policy file says how many; 10 make 40 compares and 10 additions.
 */
#ifndef DCGYM_RLCC_TREE_H
#define DCGYM_RLCC_TREE_H

#include "../rlcc.h"
#include "trees.h"

#define CC_NAME  "rlcc-tree"
#define CC_HELP  "RL-CC: raises or cuts by up to 1.2 at each RTT, as a few small trees say"
#define CC_TABLE POLICY_TREE

static inline int32_t rlcc_policy(uint32_t *input, const uint32_t *table)
{
	return rlcc_cut(trees_sum(input, 3, table), RLCC_ACTION_LEAST, RLCC_ACTION_GREATEST);
}

#endif
