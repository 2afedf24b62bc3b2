/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * PCC-RL's net (Tessler et al. 2021): 2 -> 32 -> 16 -> LSTM of 16 -> 1, 2753 weights of 8 bits. Besides what
 * all of RL-CC's algorithms keep of a flow it keeps the LSTM's outputs and cells, 32 words: no ConnectX has
 * room for that, and a decision took 450 us there (RL-CC table I, a smaller net).
 *
 * Its inputs are the error and the action before it.
 */
#ifndef DCGYM_RLCC_LSTM_H
#define DCGYM_RLCC_LSTM_H

#include "lstm.h"

#define RLCC_MEMORY_WORDS LSTM_MEMORY_WORDS

#include "../rlcc.h"

#define CC_NAME  "rlcc-lstm"
#define CC_HELP  "PCC-RL: a network that remembers, with weights of 8 bits"
#define CC_TABLE POLICY_LSTM

/* The layout of the table. */
enum rlcc_lstm_word {
	RLCC_LSTM_FIRST = POLICY_HEAD_WORDS,
	RLCC_LSTM_SECOND = RLCC_LSTM_FIRST + POLICY_LSTM_HIDDEN * INT8_ROW(POLICY_LSTM_INPUTS),
	RLCC_LSTM_GATES = RLCC_LSTM_SECOND + LSTM_CELLS * INT8_ROW(POLICY_LSTM_HIDDEN),
	RLCC_LSTM_LAST = RLCC_LSTM_GATES + LSTM_ROWS,
	RLCC_LSTM_TANH = RLCC_LSTM_LAST + INT8_ROW(LSTM_CELLS),
	RLCC_LSTM_ACTIONS = RLCC_LSTM_TANH + POLICY_INT8_POINTS,
};

static inline int32_t rlcc_policy(uint32_t *state, const uint32_t *table)
{
	uint32_t few[LSTM_CELLS] = { state[RLCC_E_NEW] + POLICY_INT8_INPUT,
				     state[RLCC_A_NEW] + POLICY_INT8_INPUT };
	uint32_t many[LSTM_JOINED]; /* two buffers in turns: BPF has a stack of 512 bytes */
	uint32_t *memory = state + RLCC_STATE_WORDS;

	int8_layer(table + RLCC_LSTM_FIRST, few, 1, many, POLICY_LSTM_HIDDEN);
	int8_layer(table + RLCC_LSTM_SECOND, many, POLICY_LSTM_HIDDEN / 4, few, LSTM_CELLS);
	for (uint32_t cell = 0; cell < LSTM_CELLS; cell++)
		many[cell] = few[cell];
	lstm_move(memory, table + RLCC_LSTM_GATES, table + RLCC_LSTM_TANH, many);
	return RLCC_ONE + int8_look(lstm_sum(memory, table + RLCC_LSTM_LAST, few), table + RLCC_LSTM_ACTIONS);
}

#endif
