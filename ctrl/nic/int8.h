/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Networks with weights of 8 bits (docs/rlcc.md): rows of them in a policy's table, and look-up tables
 * for what bends. Inputs, activations and sums' results are Q16.
 *
 * A row is the start of its sum (two words, the lower one first), its scale (Q20: what a weight's step of one
 * is worth), then its weights, four a word, the lowest byte first. Inputs have no sign: those that had one
 * are handed over with something added, which the start takes off again, bias included. So a weight costs
 * four instructions less in BPF, where loads have no sign.
 */
#ifndef DCGYM_INT8_H
#define DCGYM_INT8_H

#include "bits.h"
#include "policy.h"

#define INT8_ROW(inputs) (POLICY_INT8_ROW_HEAD + ((inputs) + 3) / 4) /* words */

/* Loops stay loops in BPF: unrolled, a net of 2753 weights would be 20,000 instructions wherever it is
 * called. */
#ifdef __bpf__
#define INT8_LOOP _Pragma("clang loop unroll(disable)")
#else
#define INT8_LOOP
#endif

/* The output of a row for `words` x 4 inputs. Sums fit: policy files with larger weights are refused.
 */
static BITS_CALLED int64_t int8_row(const uint32_t *row, const uint32_t *input, uint32_t words)
{
	int64_t sum = (int64_t)(row[0] | (uint64_t)row[1] << 32);

	INT8_LOOP
	for (uint32_t i = 0; i < words; i++) {
		uint32_t four = row[POLICY_INT8_ROW_HEAD + i];

		sum += (int64_t)(int8_t)four * input[4 * i];
		sum += (int64_t)(int8_t)(four >> 8) * input[4 * i + 1];
		sum += (int64_t)(int8_t)(four >> 16) * input[4 * i + 2];
		sum += (int64_t)(int8_t)(four >> 24) * input[4 * i + 3];
	}
	return (sum * row[2] + (1 << 19)) >> 20;
}

/* A layer of `count` rows with ReLU. */
static BITS_CALLED int int8_layer(const uint32_t *rows, const uint32_t *input, uint32_t words,
				  uint32_t *output, uint32_t count)
{
	INT8_LOOP
	for (uint32_t j = 0; j < count; j++) {
		int64_t sum = int8_row(rows, input, words);

		output[j] = (uint32_t)(sum & ((int64_t)bits_sign(sum) - 1));
		rows += POLICY_INT8_ROW_HEAD + words;
	}
	return 0;
}

/*
 * A function from -4 to 4 (Q16), beyond which it is flat: each word of its table has its value at a point
 * and, in the upper half, the way to the next.
 */
static inline int32_t int8_look(int64_t at, const uint32_t *table)
{
	int64_t place = at + POLICY_INT8_REACH, over;
	uint32_t step, word;

	place &= (int64_t)bits_sign(place) - 1;
	over = 2 * POLICY_INT8_REACH - 1 - place;
	place += over & -(int64_t)bits_sign(over);
	step = (uint32_t)place >> POLICY_INT8_STEP;
	__asm__("" : "+r"(step)); /* see rlcc-mlp.h */
	word = table[step & (POLICY_INT8_POINTS - 1)];
	return (int16_t)word +
	       (((int32_t)word >> 16) * (int32_t)(place & ((1 << POLICY_INT8_STEP) - 1)) >> POLICY_INT8_STEP);
}

#endif
