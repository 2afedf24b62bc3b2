// SPDX-License-Identifier: Apache-2.0
/*
 * Decisions of an algorithm with a table, each from a context of its own: a line in has the words of the
 * context, the rate (Q20), the first fields of struct cc_event and those of struct cc_flow; a line out the
 * words after it, the rate and whether a probe is wanted. Arguments: the table's file, then parameters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include CC_ALGORITHM

#define EVENT_WORDS 10 /* of struct cc_event: those without telemetry */

struct step {
	uint32_t state[CC_STATE_WORDS];
	uint32_t rate;
	uint32_t event[EVENT_WORDS];
	struct cc_flow flow;
};
#define COLUMNS (sizeof(struct step) / sizeof(uint32_t))

static size_t read_table(const char *path, uint32_t *table)
{
	FILE *file = fopen(path, "rb");
	size_t count = file ? fread(table, sizeof(uint32_t), CC_TABLE_WORDS, file) : 0;

	if (file)
		fclose(file);
	return count;
}

static void decide(struct step *step, const uint32_t *parameter, const uint32_t *table)
{
	struct cc_result result = { .rate = step->rate };
	struct cc_event event = { 0 };

	memcpy(&event, step->event, sizeof(step->event));
	cc_on_event(step->state, &event, &step->flow, parameter, table, &result);
	for (int word = 0; word < CC_STATE_WORDS; word++)
		printf("%u,", step->state[word]);
	printf("%u,%d\n", result.rate, result.probe);
}

int main(int argc, char **argv)
{
	static uint32_t table[CC_TABLE_WORDS], parameter[CC_PARAMETERS_MAX];
	const char *fault = policy_fault(table, argc > 1 ? read_table(argv[1], table) : 0, CC_TABLE);
	struct step step;

	if (fault) {
		fprintf(stderr, "the table %s\n", fault);
		return 2;
	}
	for (int i = 0; i < CC_PARAMETERS_MAX; i++)
		parameter[i] = i + 2 < argc ? (uint32_t)strtoul(argv[i + 2], NULL, 10) : RLCC_OWN;
	for (;;) {
		uint32_t numbers[COLUMNS];

		for (size_t i = 0; i < COLUMNS; i++)
			if (scanf(i ? ",%u" : " %u", &numbers[i]) != 1)
				return 0;
		memcpy(&step, numbers, sizeof(step));
		decide(&step, parameter, table);
	}
}
