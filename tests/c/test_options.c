// SPDX-License-Identifier: Apache-2.0
/* Options told by a table: how each kind is given, and the exit code of each mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "options.h"
#include "program.h"

struct found {
	const char *file;
	uint64_t count;
	bool fast, slow;
};

#define WORDS_MAX 8

/* The words of a command line, up to NULL. */
static int read_words(struct found *found, char *const *words)
{
	const struct program_option options[] = {
		{ "file", "FILE", "to read", .text = &found->file, .required = true },
		{ "count", "N", "of them", .number = &found->count, .min = 3, .max = 9 },
		{ "fast", NULL, "in haste", .flag = &found->fast },
		{ "slow", NULL, "at leisure", .flag = &found->slow },
		{ 0 },
	};
	char *argv[WORDS_MAX + 2] = { "test" };
	int argc = 1;

	while (words[argc - 1])
		argv[argc] = words[argc - 1], argc++;
	return options_read(argc, argv, options, "");
}

static void reads_each_kind(void **state)
{
	struct found found = { .count = 5 };

	(void)state;
	assert_int_equal(read_words(&found, (char *[]){ "--file", "a", NULL }), 0);
	assert_string_equal(found.file, "a");
	assert_int_equal(found.count, 5);
	assert_false(found.fast || found.slow);
	assert_int_equal(read_words(&found, (char *[]){ "--slow", "--count=9", "--file=--fast", "--count",
							"3", NULL }),
			 0);
	assert_string_equal(found.file, "--fast");
	assert_int_equal(found.count, 3);
	assert_true(found.slow && !found.fast);
	assert_int_equal(read_words(&found, (char *[]){ "--file", "", NULL }), 0);
	assert_string_equal(found.file, "");
}

static void refuses(void **state)
{
	char *const cases[][4] = {
		{ NULL },
		{ "--fast", NULL },
		{ "--file", NULL },
		{ "--file=a", "b", NULL },
		{ "--file=a", "-fast", NULL },
		{ "--file=a", "--fas", NULL },
		{ "--file=a", "--faster", NULL },
		{ "--file=a", "--fast=yes", NULL },
		{ "--file=a", "--", NULL },
		{ "--file=a", "--count=2", NULL },
		{ "--file=a", "--count", "10", NULL },
		{ "--file=a", "--count", "", NULL },
		{ "--file=a", "--count", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct found found = { 0 };

		if (read_words(&found, cases[i]) != EXIT_USAGE)
			fail_msg("case %zu is taken", i);
	}
}

static void reads_numbers(void **state)
{
	static const char *const wrong[] = {
		"", "-1", "+1", " 1", "1 ", "1e3", "0x1", "18446744073709551616"
	};
	uint64_t number;

	(void)state;
	assert_int_equal(options_number("18446744073709551615", 0, UINT64_MAX, &number), 0);
	assert_true(number == UINT64_MAX);
	assert_int_equal(options_number("007", 7, 7, &number), 0);
	assert_int_equal(options_number("8", 0, 7, &number), -EINVAL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (options_number(wrong[i], 0, UINT64_MAX, &number) != -EINVAL)
			fail_msg("'%s' is taken", wrong[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_each_kind),
		cmocka_unit_test(refuses),
		cmocka_unit_test(reads_numbers),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
