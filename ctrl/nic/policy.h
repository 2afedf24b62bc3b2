/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The table of a policy file (docs/rlcc.md): what a learned algorithm reads, as u32 words. Python
 * takes it out of the file (policy_file.py), the loader copies it into a map. Signed numbers are two's
 * complement; errors, actions, borders and leaves are Q16, weights and activations Q10.
 */
#ifndef DCGYM_POLICY_H
#define DCGYM_POLICY_H

#include "cc.h"

#define POLICY_MAGIC   0x31504343u /* "CCP1" */
#define POLICY_VERSION 1

/* The kinds of policies. An algorithm names the kind that it reads as its CC_TABLE. */
#define POLICY_TREE      1
#define POLICY_MLP       2
#define POLICY_MLP8      3
#define POLICY_LSTM      4
#define POLICY_FDCC      5
#define POLICY_FDCC_TREE 6

/* The first words of any table. */
enum policy_word {
	POLICY_WORD_MAGIC,
	POLICY_WORD_VERSION,
	POLICY_WORD_KIND,
	POLICY_WORD_WORDS,  /* all of them, with these */
	POLICY_WORD_CRC,    /* CRC-32 (IEEE 802.3) of all the others, little-endian */
	POLICY_WORD_TARGET, /* Q16: turns a flow's measurements into the policy's inputs, see rlcc.h */
	POLICY_WORD_BETA,
	POLICY_WORD_GAIN,
	POLICY_WORD_LIMIT,      /* Q16: the error is cut off at plus and minus this */
	POLICY_WORD_COUNT,      /* trees, or weights */
	POLICY_WORD_BIAS,       /* Q16, of trees: the action before any tree has spoken */
	POLICY_HEAD_WORDS = 16, /* between are zeros */
};

/* Trees: each of depth 4, one behind the other. */
#define POLICY_TREES_MAX  64
#define POLICY_TREE_DEPTH 4
enum policy_tree_word {
	POLICY_TREE_INPUTS,     /* a byte a compare: its input, 0..3, or 0..7 of FDCC */
	POLICY_TREE_BORDERS,    /* input > border sets the compare's bit in the leaf's number */
	POLICY_TREE_LEAVES = 5, /* added to the action, or to FDCC's output */
	POLICY_TREE_WORDS = 5 + (1 << POLICY_TREE_DEPTH),
};

/* A net: weights of the three layers by output, then the action over the last sum from -4 to 4. */
#define POLICY_MLP_INPUTS  4
#define POLICY_MLP_HIDDEN  12
#define POLICY_MLP_WEIGHTS (POLICY_MLP_HIDDEN * (POLICY_MLP_INPUTS + POLICY_MLP_HIDDEN + 1))
#define POLICY_MLP_STEP    5 /* bits: the table has an action each 2^5 / 2^10 */
#define POLICY_MLP_ACTIONS 257
#define POLICY_MLP_REACH   4096 /* 4 in Q10 */

/* Nets with weights of 8 bits, int8.h: rows layer by layer, then tables of what bends over -4 to 4. */
#define POLICY_INT8_ROW_HEAD 3         /* words of a row before its weights */
#define POLICY_INT8_INPUT    (1 << 23) /* 128 in Q16: added to a net's inputs, so that they have no sign */
#define POLICY_INT8_REACH    (1 << 18) /* 4 in Q16 */
#define POLICY_INT8_STEP     11        /* bits: from one point to the next */
#define POLICY_INT8_POINTS   256

/* The net with an LSTM has two such tables: tanh, Q15, then the action less 1, Q16. */
#define POLICY_LSTM_INPUTS 2
#define POLICY_LSTM_HIDDEN 32
#define POLICY_LSTM_CELLS  16

/* FDCC's net has the first alone: its output is tanh of the last sum. The words from POLICY_WORD_TARGET to
 * POLICY_WORD_LIMIT are zeros. */
#define POLICY_FDCC_INPUTS 8

#ifndef __bpf__
#include <stddef.h>

static inline uint32_t policy_crc(const uint32_t *words, size_t count)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < count; i++) {
		if (i == POLICY_WORD_CRC)
			continue;
		crc ^= words[i]; /* the lowest byte comes first, and the lowest bit of it */
		for (int bit = 0; bit < 32; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* Returns the fault of a table, with zeros behind it, for an algorithm that reads `kind` (0: any); NULL:
 * none. */
static inline const char *policy_fault(const uint32_t *words, size_t count, uint32_t kind)
{
	if (count < POLICY_HEAD_WORDS || words[POLICY_WORD_MAGIC] != POLICY_MAGIC)
		return "is no table of a policy";
	if (words[POLICY_WORD_VERSION] != POLICY_VERSION)
		return "is of another version";
	if (kind && words[POLICY_WORD_KIND] != kind)
		return "is of another kind than the algorithm reads";
	if (words[POLICY_WORD_WORDS] < POLICY_HEAD_WORDS || words[POLICY_WORD_WORDS] > count)
		return "is cut short";
	if (words[POLICY_WORD_CRC] != policy_crc(words, words[POLICY_WORD_WORDS]))
		return "is damaged: its checksum is another";
	return NULL;
}
#endif

#endif
