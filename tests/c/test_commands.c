// SPDX-License-Identifier: Apache-2.0
/* The queue of commands that are not yet due. */
#include "commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SIZE   3
#define VALUES 2

static void push(struct commands *c, uint64_t seq)
{
	struct command *slot = commands_slot(c);

	assert_non_null(slot);
	slot->seq = seq;
	slot->due_ns = 10 * seq;
	for (uint64_t i = 0; i < VALUES; i++)
		slot->wanted[i] = 100 * seq + i;
	commands_push(c);
}

static void keeps_order_and_values(void **state)
{
	struct commands c;
	uint64_t pushed = 0, popped = 0;

	(void)state;
	assert_int_equal(commands_open(&c, SIZE, VALUES), 0);
	assert_null(commands_first(&c));
	for (int round = 0; round < 10; round++) { /* around the ring several times, at every fill */
		for (int i = 0; i <= round % SIZE; i++)
			push(&c, ++pushed);
		for (const struct command *first; (first = commands_first(&c)); commands_pop(&c)) {
			assert_int_equal(first->seq, ++popped);
			assert_int_equal(first->due_ns, 10 * popped);
			assert_int_equal(first->wanted[0], 100 * popped);
			assert_int_equal(first->wanted[1], 100 * popped + 1);
		}
	}
	assert_int_equal(popped, pushed);
	commands_close(&c);
}

static void tells_when_it_is_full(void **state)
{
	struct commands c;

	(void)state;
	assert_int_equal(commands_open(&c, SIZE, VALUES), 0);
	for (uint64_t seq = 1; seq <= SIZE; seq++)
		push(&c, seq);
	assert_null(commands_slot(&c));
	assert_int_equal(commands_first(&c)->seq, 1);
	commands_pop(&c);
	push(&c, 4);
	commands_clear(&c);
	assert_null(commands_first(&c));
	push(&c, 5);
	assert_int_equal(commands_first(&c)->seq, 5);
	commands_close(&c);
	commands_close(&c);
}

/* A slot that is not pushed is no command: the agent had none. */
static void forgets_what_is_not_pushed(void **state)
{
	struct commands c;

	(void)state;
	assert_int_equal(commands_open(&c, SIZE, VALUES), 0);
	commands_slot(&c)->seq = 9;
	assert_null(commands_first(&c));
	push(&c, 1);
	assert_int_equal(commands_first(&c)->seq, 1);
	commands_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_order_and_values),
		cmocka_unit_test(tells_when_it_is_full),
		cmocka_unit_test(forgets_what_is_not_pushed),
	};

	return cmocka_run_group_tests_name("commands", tests, NULL, NULL);
}
