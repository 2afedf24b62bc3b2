/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * PCC-RL's net (Tessler et al. 2021): 2 -> 32 -> 16 -> LSTM of 16 -> 1, 2753 weights of 8 bits. Besides what
 * all of RL-CC's algorithms keep of a flow it keeps the LSTM's outputs and cells, 32 words: no ConnectX has
 * room for that, and a decision took 450 us there (RL-CC table I, a smaller net).
 *
 * Its inputs are the error and the action before it. sigmoid(z) = (1 + tanh(z / 2)) / 2, so that one table is
 * enough for both.
 */
#ifndef DCGYM_RLCC_LSTM_H
#define DCGYM_RLCC_LSTM_H

#define RLCC_MEMORY_WORDS 32

#include "../int8.h"

#define CC_NAME  "rlcc-lstm"
#define CC_HELP  "PCC-RL: a network that remembers, with weights of 8 bits"
#define CC_TABLE POLICY_LSTM

#define RLCC_CELLS POLICY_LSTM_CELLS
/* Words of the context: outputs, then cells, Q16. */
#define RLCC_OUTPUT RLCC_STATE_WORDS
#define RLCC_CELL   (RLCC_OUTPUT + RLCC_CELLS)

/* The layout of the table. */
enum rlcc_lstm_word {
	RLCC_LSTM_FIRST = POLICY_HEAD_WORDS,
	RLCC_LSTM_SECOND = RLCC_LSTM_FIRST + POLICY_LSTM_HIDDEN * INT8_ROW(POLICY_LSTM_INPUTS),
	RLCC_LSTM_GATES = RLCC_LSTM_SECOND + RLCC_CELLS * INT8_ROW(POLICY_LSTM_HIDDEN),
	RLCC_LSTM_LAST = RLCC_LSTM_GATES + 4 * RLCC_CELLS * INT8_ROW(2 * RLCC_CELLS),
	RLCC_LSTM_TANH = RLCC_LSTM_LAST + INT8_ROW(RLCC_CELLS),
	RLCC_LSTM_ACTIONS = RLCC_LSTM_TANH + POLICY_INT8_POINTS,
};

/* The sum of one of a cell's four gates. */
static inline int64_t rlcc_gate(const uint32_t *table, const uint32_t *joined, uint32_t gate, uint32_t cell)
{
	const uint32_t *rows = table + RLCC_LSTM_GATES;

	return int8_row(rows + (gate * RLCC_CELLS + cell) * INT8_ROW(2 * RLCC_CELLS), joined,
			2 * RLCC_CELLS / 4);
}

/* Q15 of a sum in Q16. */
static inline int64_t rlcc_sigmoid(int64_t sum, const uint32_t *table)
{
	return (32768 + int8_look(sum >> 1, table + RLCC_LSTM_TANH)) >> 1;
}

/* Moves one cell on. `joined`: the layer's before the LSTM, then the outputs of all cells, plus one. */
static INT8_CALLED int rlcc_remember(uint32_t *state, const uint32_t *table, const uint32_t *joined,
				     uint32_t cell)
{
	int64_t taken = rlcc_sigmoid(rlcc_gate(table, joined, 0, cell), table);
	int64_t kept = rlcc_sigmoid(rlcc_gate(table, joined, 1, cell), table);
	int64_t fresh = int8_look(rlcc_gate(table, joined, 2, cell), table + RLCC_LSTM_TANH);
	int64_t shown = rlcc_sigmoid(rlcc_gate(table, joined, 3, cell), table);
	int64_t sum = kept * (int32_t)state[RLCC_CELL + cell] + 2 * taken * fresh;

	sum = (sum + (1 << 14)) >> 15;
	state[RLCC_CELL + cell] = (uint32_t)sum;
	state[RLCC_OUTPUT + cell] =
		(uint32_t)((shown * int8_look(sum, table + RLCC_LSTM_TANH) + (1 << 13)) >> 14);
	return 0;
}

static inline int32_t rlcc_policy(uint32_t *state, const uint32_t *table)
{
	uint32_t few[RLCC_CELLS] = { state[RLCC_E_NEW] + POLICY_INT8_INPUT,
				     state[RLCC_A_NEW] + POLICY_INT8_INPUT };
	uint32_t many[2 * RLCC_CELLS]; /* two buffers in turns: BPF has a stack of 512 bytes */

	int8_layer(table + RLCC_LSTM_FIRST, few, 1, many, POLICY_LSTM_HIDDEN);
	int8_layer(table + RLCC_LSTM_SECOND, many, POLICY_LSTM_HIDDEN / 4, few, RLCC_CELLS);
	for (uint32_t cell = 0; cell < RLCC_CELLS; cell++) {
		many[cell] = few[cell];
		many[RLCC_CELLS + cell] = state[RLCC_OUTPUT + cell] + RLCC_ONE;
	}
	INT8_LOOP
	for (uint32_t cell = 0; cell < RLCC_CELLS; cell++)
		rlcc_remember(state, table, many, cell);
	for (uint32_t cell = 0; cell < RLCC_CELLS; cell++)
		few[cell] = state[RLCC_OUTPUT + cell] + RLCC_ONE;
	return RLCC_ONE +
	       int8_look(int8_row(table + RLCC_LSTM_LAST, few, RLCC_CELLS / 4), table + RLCC_LSTM_ACTIONS);
}

#endif
