/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * FDCC as the thesis has it (fdcc.h): a network that remembers, 8 -> 16 -> LSTM of 16 -> 1 with weights of 8
 * bits. Its sizes are ours (net.py): the thesis does not give them.
 */
#ifndef DCGYM_FDCC_LSTM_H
#define DCGYM_FDCC_LSTM_H

#include "lstm.h"

#define FDCC_MEMORY_WORDS LSTM_MEMORY_WORDS

#include "../fdcc.h"

#define CC_NAME  "fdcc"
#define CC_HELP  "a network that remembers, from records of the ports and round trips, sets a window"
#define CC_TABLE POLICY_FDCC

/* The layout of the table. */
enum fdcc_word {
	FDCC_FIRST = POLICY_HEAD_WORDS,
	FDCC_GATES = FDCC_FIRST + LSTM_CELLS * INT8_ROW(POLICY_FDCC_INPUTS),
	FDCC_LAST = FDCC_GATES + LSTM_ROWS,
	FDCC_TANH = FDCC_LAST + INT8_ROW(LSTM_CELLS),
};

/* The network's output for the inputs. One buffer for all layers: BPF has a stack of 512 bytes. */
static BITS_CALLED int fdcc_think(uint32_t *state, const uint32_t *table)
{
	uint32_t joined[LSTM_JOINED], *memory = state + FDCC_MEMORY;

	for (uint32_t i = 0; i < POLICY_FDCC_INPUTS; i++)
		joined[LSTM_CELLS + i] = state[FDCC_INPUT + i] + POLICY_INT8_INPUT;
	int8_layer(table + FDCC_FIRST, joined + LSTM_CELLS, POLICY_FDCC_INPUTS / 4, joined, LSTM_CELLS);
	lstm_move(memory, table + FDCC_GATES, table + FDCC_TANH, joined);
	state[FDCC_OUTPUT] =
		2 * (uint32_t)int8_look(lstm_sum(memory, table + FDCC_LAST, joined), table + FDCC_TANH);
	return 0;
}

#endif
