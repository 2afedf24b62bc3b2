/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * rlcc-mlp's net of 4-12-12-1 with weights of 8 bits, each row of them with a scale of its own.
 */
#ifndef DCGYM_RLCC_MLP8_H
#define DCGYM_RLCC_MLP8_H

#include "../rlcc.h"
#include "int8.h"

#define CC_NAME  "rlcc-mlp8"
#define CC_HELP  "RL-CC: the network of 4-12-12-1 with weights of 8 bits"
#define CC_TABLE POLICY_MLP8

static inline int32_t rlcc_policy(uint32_t *state, const uint32_t *table)
{
	const uint32_t *first = table + POLICY_HEAD_WORDS;
	const uint32_t *second = first + POLICY_MLP_HIDDEN * INT8_ROW(POLICY_MLP_INPUTS);
	const uint32_t *third = second + POLICY_MLP_HIDDEN * INT8_ROW(POLICY_MLP_HIDDEN);
	uint32_t input[POLICY_MLP_INPUTS], hidden[POLICY_MLP_HIDDEN], last[POLICY_MLP_HIDDEN];

	for (int i = 0; i < POLICY_MLP_INPUTS; i++)
		input[i] = state[i] + POLICY_INT8_INPUT;
	int8_layer(first, input, POLICY_MLP_INPUTS / 4, hidden, POLICY_MLP_HIDDEN);
	int8_layer(second, hidden, POLICY_MLP_HIDDEN / 4, last, POLICY_MLP_HIDDEN);
	return RLCC_ONE +
	       int8_look(int8_row(third, last, POLICY_MLP_HIDDEN / 4), third + INT8_ROW(POLICY_MLP_HIDDEN));
}

#endif
