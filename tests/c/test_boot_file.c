// SPDX-License-Identifier: Apache-2.0
/* The reader of the boot file of a lab. */
#include "boot_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct boot_file boot;
static char *text;

/* Reads a file that lies at the end of its memory, so that a step past it is found. */
static const char *parse(const char *file, size_t length)
{
	boot = (struct boot_file){ 0 };
	free(text);
	text = malloc(length + 1);
	assert_non_null(text);
	memcpy(text, file, length);
	text[length] = '\0';
	return boot_file_parse(&boot, text, length);
}

static void reads_each_kind_of_entry(void **state)
{
	static const char file[] = "cover /root\0read 5 /root/a\0write 12 /b c\0env A=1\0arg x\0env B=\0arg ";

	(void)state;
	assert_null(parse(file, sizeof(file)));
	assert_int_equal(boot.mount_count, 3);
	assert_int_equal(boot.mounts[0].kind, BOOT_COVER);
	assert_string_equal(boot.mounts[0].path, "/root");
	assert_int_equal(boot.mounts[1].kind, BOOT_READ);
	assert_int_equal(boot.mounts[1].fd, 5);
	assert_string_equal(boot.mounts[1].path, "/root/a");
	assert_int_equal(boot.mounts[2].kind, BOOT_WRITE);
	assert_int_equal(boot.mounts[2].fd, 12);
	assert_string_equal(boot.mounts[2].path, "/b c");
	assert_string_equal(boot.env[0], "A=1");
	assert_string_equal(boot.env[1], "B=");
	assert_null(boot.env[2]);
	assert_string_equal(boot.args[0], "x");
	assert_string_equal(boot.args[1], "");
	assert_null(boot.args[2]);
}

static void refuses_what_is_no_entry(void **state)
{
	static const char *const entries[] = {
		"",
		"x",
		"arg",
		"args x",
		"cover ",
		"cover a",
		"read 5",
		"read 5 ",
		"read 5 a",
		"read /a",
		"read  5 /a",
		"read -1 /a",
		"write ",
		"write 5x",
		"write 5\t/etc",
		"write 5  /a",
		"read 99999999999 /a",
		"read 99999999999999999999 /a",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		const char *refused = parse(entries[i], strlen(entries[i]) + 1);

		assert_ptr_equal(refused, text);
		assert_int_equal(boot.arg_count + boot.env_count + boot.mount_count, 0);
	}
}

static void refuses_more_entries_than_fit(void **state)
{
	static const char *const entries[] = { "arg x", "env A=1", "cover /a" };

	(void)state;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		size_t each = strlen(entries[i]) + 1;
		char file[16 * (BOOT_MAX_WORDS + 1)];
		const char *refused;

		for (size_t n = 0; n <= BOOT_MAX_WORDS; n++)
			memcpy(file + n * each, entries[i], each);
		assert_null(parse(file, BOOT_MAX_WORDS * each));
		refused = parse(file, (BOOT_MAX_WORDS + 1) * each);
		assert_ptr_equal(refused, text + BOOT_MAX_WORDS * each);
	}
}

static int free_text(void **state)
{
	(void)state;
	free(text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_each_kind_of_entry),
		cmocka_unit_test(refuses_what_is_no_entry),
		cmocka_unit_test(refuses_more_entries_than_fit),
	};

	return cmocka_run_group_tests_name("boot_file", tests, NULL, free_text);
}
