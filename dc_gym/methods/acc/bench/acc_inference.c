/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Times ACC's net in integers (methods/acc/q_int8.py), by the rows of weights that NICs read.
 *
 *   acc_inference REPEAT SIZE SIZE ... < words and states
 *
 * SIZEs: inputs, then outputs of each layer. Standard input: the rows of all layers, then states in Q16, all
 * as words of this machine's order. Written: CPU time of an inference in ns, then the action of each state.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "int8.h"

#define LAYERS_MAX 8
#define UNITS_MAX  4096

static uint32_t sizes[LAYERS_MAX + 1];
static uint32_t layers;

/* The action of the largest value; the first one of equals. */
static uint32_t best(const uint32_t *row, const uint32_t *input, uint32_t words, uint32_t actions)
{
	int64_t most = INT64_MIN;
	uint32_t found = 0;

	for (uint32_t i = 0; i < actions; i++, row += POLICY_INT8_ROW_HEAD + words) {
		int64_t value = int8_row(row, input, words);

		if (value > most) {
			most = value;
			found = i;
		}
	}
	return found;
}

static uint32_t infer(const uint32_t *words, const uint32_t *state)
{
	static uint32_t units[2][UNITS_MAX];
	const uint32_t *input = state;

	for (uint32_t i = 0; i + 1 < layers; i++) {
		int8_layer(words, input, sizes[i] / 4, units[i % 2], sizes[i + 1]);
		words += sizes[i + 1] * INT8_ROW(sizes[i]);
		input = units[i % 2];
	}
	return best(words, input, sizes[layers - 1] / 4, sizes[layers]);
}

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	uint32_t row_words = 0, *words, *states;
	size_t read, room = 1u << 24, count;
	unsigned long repeat;
	volatile uint32_t kept;
	double began;

	if (argc < 4 || argc - 3 > LAYERS_MAX) {
		fprintf(stderr, "acc_inference: give REPEAT, then the sizes of 1 to %d layers\n", LAYERS_MAX);
		return 2;
	}
	repeat = strtoul(argv[1], NULL, 10);
	layers = (uint32_t)argc - 3;
	for (uint32_t i = 0; i <= layers; i++) {
		sizes[i] = (uint32_t)strtoul(argv[i + 2], NULL, 10);
		if (!sizes[i] || sizes[i] > UNITS_MAX || (i < layers && sizes[i] % 4)) {
			fprintf(stderr, "acc_inference: a layer of %s: give a multiple of 4 up to %d\n",
				argv[i + 2], UNITS_MAX);
			return 2;
		}
	}
	for (uint32_t i = 0; i < layers; i++)
		row_words += sizes[i + 1] * INT8_ROW(sizes[i]);
	words = malloc(room * sizeof(*words));
	if (!words)
		return 1;
	read = fread(words, sizeof(*words), room, stdin);
	if (read <= row_words || (read - row_words) % sizes[0]) {
		fprintf(stderr, "acc_inference: %zu words are no rows and states of these layers\n", read);
		free(words);
		return 2;
	}
	states = words + row_words;
	count = (read - row_words) / sizes[0];
	began = cpu_ns();
	for (unsigned long i = 0; i < repeat; i++)
		for (size_t j = 0; j < count; j++)
			kept = infer(words, states + j * sizes[0]);
	(void)kept;
	printf("%.1f\n", repeat ? (cpu_ns() - began) / (double)repeat / (double)count : 0.0);
	for (size_t j = 0; j < count; j++)
		printf("%u\n", infer(words, states + j * sizes[0]));
	free(words);
	return 0;
}
