// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the queue of commands, beside a plain count of what went in and came out. */
#include "commands.h"
#include "fuzz.h"

#define N_VALUES 3

struct model {
	uint64_t pushed, popped; /* commands are numbered as they come */
};

static void push(struct commands *c, struct model *m)
{
	struct command *slot = commands_slot(c);

	require((slot == NULL) == (m->pushed - m->popped == c->size));
	if (!slot)
		return;
	*slot = (struct command){ .seq = m->pushed++, .wanted = slot->wanted };
	for (uint32_t v = 0; v < N_VALUES; v++)
		slot->wanted[v] = slot->seq;
	commands_push(c);
}

static void look(const struct commands *c, const struct model *m)
{
	const struct command *first = commands_first(c);

	require((first == NULL) == (m->pushed == m->popped));
	require(!first || (first->seq == m->popped && first->wanted[N_VALUES - 1] == m->popped));
}

/* The first byte is the size, and each other one does something. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model m = { 0 };
	struct commands c;

	require(commands_open(&c, size ? 1 + data[0] % 16 : 1, N_VALUES) == 0);
	for (size_t i = 1; i < size; i++) {
		if (data[i] % 8 < 4) {
			push(&c, &m);
		} else if (data[i] % 8 < 7 && commands_first(&c)) {
			commands_pop(&c);
			m.popped++;
		} else if (data[i] % 8 == 7) {
			commands_clear(&c);
			m.popped = m.pushed;
		}
		look(&c, &m);
	}
	commands_close(&c);
	fuzz_count(m.pushed);
	return 0;
}
