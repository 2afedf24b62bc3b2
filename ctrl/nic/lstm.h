/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A layer of 16 LSTM cells with weights of 8 bits (int8.h). It sees 16 outputs of the layer before it, then
 * its own 16 last outputs. Its gates are in torch's order: input, forget, cell, output. sigmoid(z) = (1 +
 * tanh(z / 2)) / 2, so that one look-up table is enough for both.
 *
 * A flow's memory is 32 words of its context: the cells' outputs, then the cells, Q16.
 */
#ifndef DCGYM_LSTM_H
#define DCGYM_LSTM_H

#include "int8.h"

#define LSTM_CELLS        POLICY_LSTM_CELLS
#define LSTM_MEMORY_WORDS (2 * LSTM_CELLS)
#define LSTM_JOINED       (2 * LSTM_CELLS) /* its inputs */
#define LSTM_ONE          (1 << 16)        /* added to the cells' outputs, so that they have no sign */
#define LSTM_ROWS         (4 * LSTM_CELLS * INT8_ROW(LSTM_JOINED)) /* words of its rows in a table */

/* The sum of one of a cell's four gates. */
static inline int64_t lstm_gate(const uint32_t *gates, const uint32_t *joined, uint32_t gate, uint32_t cell)
{
	return int8_row(gates + (gate * LSTM_CELLS + cell) * INT8_ROW(LSTM_JOINED), joined, LSTM_JOINED / 4);
}

/* Q15 of a sum in Q16. bend: the look-up table of tanh, Q15. */
static inline int64_t lstm_sigmoid(int64_t sum, const uint32_t *bend)
{
	return (32768 + int8_look(sum >> 1, bend)) >> 1;
}

/* Moves one cell on. */
static BITS_CALLED int lstm_move_cell(uint32_t *memory, const uint32_t *gates, const uint32_t *bend,
				      const uint32_t *joined, uint32_t cell)
{
	int64_t taken = lstm_sigmoid(lstm_gate(gates, joined, 0, cell), bend);
	int64_t kept = lstm_sigmoid(lstm_gate(gates, joined, 1, cell), bend);
	int64_t fresh = int8_look(lstm_gate(gates, joined, 2, cell), bend);
	int64_t shown = lstm_sigmoid(lstm_gate(gates, joined, 3, cell), bend);
	int64_t sum = kept * (int32_t)memory[LSTM_CELLS + cell] + 2 * taken * fresh;

	sum = (sum + (1 << 14)) >> 15;
	memory[LSTM_CELLS + cell] = (uint32_t)sum;
	memory[cell] = (uint32_t)((shown * int8_look(sum, bend) + (1 << 13)) >> 14);
	return 0;
}

/* Moves all cells on. The first half of `joined` has the outputs of the layer before; this fills the other.
 */
static inline void lstm_move(uint32_t *memory, const uint32_t *gates, const uint32_t *bend, uint32_t *joined)
{
	for (uint32_t cell = 0; cell < LSTM_CELLS; cell++)
		joined[LSTM_CELLS + cell] = memory[cell] + LSTM_ONE;
	INT8_LOOP
	for (uint32_t cell = 0; cell < LSTM_CELLS; cell++)
		lstm_move_cell(memory, gates, bend, joined, cell);
}

/* The sum, Q16, of a row of a table over the cells' outputs. `room` has LSTM_CELLS words and is overwritten.
 */
static inline int64_t lstm_sum(const uint32_t *memory, const uint32_t *row, uint32_t *room)
{
	for (uint32_t cell = 0; cell < LSTM_CELLS; cell++)
		room[cell] = memory[cell] + LSTM_ONE;
	return int8_row(row, room, LSTM_CELLS / 4);
}

#endif
