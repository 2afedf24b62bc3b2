/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * RL-CC's net of the published artifact: 4-12-12-1, ReLU, ReLU, tanh, no biases; 204 multiplications. Too
 * slow on a ConnectX-6Dx (17 us, RL-CC table I), so runs of it set the decision's latency.
 *
 * Weights and activations are Q10; with weights below 64 and errors below 128 every sum fits 56 bits. The
 * action over the last sum, tanh included, is a table with straight lines between its 257 points: flat steps
 * would leave flows with different rates at rest.
 */
#ifndef DCGYM_RLCC_MLP_H
#define DCGYM_RLCC_MLP_H

#include "../rlcc.h"

#define CC_NAME  "rlcc-mlp"
#define CC_HELP  "RL-CC: the same by a network of 4-12-12-1"
#define CC_TABLE POLICY_MLP

/* A sum of products of Q10 as Q10. */
static inline int64_t rlcc_rounded(int64_t sum)
{
	return (sum + 512) >> 10;
}

/* One output of a layer, ReLU applied. */
static inline int64_t rlcc_neuron(const uint32_t *weight, const int64_t *input, int inputs)
{
	int64_t sum = 0;

	for (int i = 0; i < inputs; i++)
		sum += (int32_t)weight[i] * input[i];
	return rlcc_rounded(sum) & ((int64_t)bits_sign(sum) - 1);
}

/* The action at a last sum, Q16. */
static inline int32_t rlcc_action(int64_t sum, const uint32_t *actions)
{
	uint32_t place =
		(uint32_t)(rlcc_cut(sum, -POLICY_MLP_REACH, POLICY_MLP_REACH - 1) + POLICY_MLP_REACH);
	uint32_t step = place >> POLICY_MLP_STEP;
	int32_t part = (int32_t)(place & ((1 << POLICY_MLP_STEP) - 1)), low, high;

	__asm__(""
		: "+r"(step)); /* the verifier wants the mask, the compiler knows that it changes nothing */
	step &= 255;
	low = (int32_t)actions[step];
	high = (int32_t)actions[step + 1];
	return low + ((high - low) * part >> POLICY_MLP_STEP);
}

static inline int32_t rlcc_policy(uint32_t *state, const uint32_t *table)
{
	const uint32_t *first = table + POLICY_HEAD_WORDS;
	const uint32_t *second = first + POLICY_MLP_HIDDEN * POLICY_MLP_INPUTS;
	const uint32_t *third = second + POLICY_MLP_HIDDEN * POLICY_MLP_HIDDEN;
	int64_t input[POLICY_MLP_INPUTS], hidden[POLICY_MLP_HIDDEN], sum = 0;

	for (int i = 0; i < POLICY_MLP_INPUTS; i++)
		input[i] = ((int64_t)(int32_t)state[i] + (i & 1 ? 0 : RLCC_ONE) + 32) >> 6;
	for (int j = 0; j < POLICY_MLP_HIDDEN; j++)
		hidden[j] = rlcc_neuron(first + j * POLICY_MLP_INPUTS, input, POLICY_MLP_INPUTS);
	for (int j = 0; j < POLICY_MLP_HIDDEN; j++)
		sum += (int32_t)third[j] *
		       rlcc_neuron(second + j * POLICY_MLP_HIDDEN, hidden, POLICY_MLP_HIDDEN);
	return rlcc_action(rlcc_rounded(sum), third + POLICY_MLP_HIDDEN);
}

#endif
