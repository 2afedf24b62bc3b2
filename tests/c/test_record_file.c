// SPDX-License-Identifier: Apache-2.0
/* Record files: tables that are whole, and what each mistake is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "record_bytes.h"

struct pair {
	uint32_t number;
	char word[8];
};

static const struct record_kind pairs = { "DCGPAIRS", "pair", 3, sizeof(struct pair), 1, 4 };
static const struct record_kind bytes = { "DCGBYTES", "byte", 1, 1, 0, 100 };
static const struct pair two[] = { { 7, "seven" }, { 8, "eight" } };

static void takes_one_table_after_the_other(void **state)
{
	struct bytes b = { 0 };
	struct record_file file;
	const void *records;
	struct fault f;
	uint32_t n;

	(void)state;
	add_table(&b, "DCGBYTES", 1, 1, "abc", 3);
	add_table(&b, "DCGPAIRS", 3, sizeof(struct pair), two, 2);
	add_table(&b, "DCGBYTES", 1, 1, NULL, 0);
	file = file_of(b);
	assert_int_equal(record_file_take(&file, &bytes, &records, &n, &f), 0);
	assert_int_equal(n, 3);
	assert_memory_equal(records, "abc", 3);
	assert_int_equal(record_file_end(&file, &f), -EINVAL);
	assert_non_null(strstr(f.text, "--file: 'F': 72 bytes behind its tables"));
	assert_int_equal(record_file_take(&file, &pairs, &records, &n, &f), 0);
	assert_int_equal(n, 2);
	assert_int_equal((uintptr_t)records % 8, 0);
	assert_memory_equal(records, two, sizeof(two));
	assert_int_equal(record_file_take(&file, &bytes, &records, &n, &f), 0);
	assert_int_equal(n, 0);
	assert_int_equal(record_file_end(&file, &f), 0);
	assert_int_equal(record_file_take(&file, &bytes, &records, &n, &f), -EINVAL);
	free(b.at);
}

static void refuse(struct bytes b, const char *words)
{
	struct record_file file = file_of(b);
	const void *records;
	struct fault f;
	uint32_t n;

	assert_int_equal(record_file_take(&file, &pairs, &records, &n, &f), -EINVAL);
	if (!strstr(f.text, words))
		fail_msg("'%s' does not say '%s'", f.text, words);
	free(b.at);
}

static struct bytes table(const char *magic, uint32_t version, uint32_t size, uint64_t count)
{
	struct bytes b = { 0 };

	add_table(&b, magic, version, size, two, count > 2 ? 2 : count);
	memcpy(b.at + offsetof(struct record_header, count), &count, sizeof(count));
	return b;
}

static void refuses_tables(void **state)
{
	struct bytes b = table("DCGPAIRS", 3, sizeof(struct pair), 2);

	(void)state;
	refuse((struct bytes){ calloc(1, 1), 0 }, "table 'pair': the file ends before it");
	refuse((struct bytes){ calloc(1, 23), 23 }, "the file ends before it");
	refuse(table("DCGPAIRZ", 3, sizeof(struct pair), 2), "something else is there (magic)");
	refuse(table("DCGPAIRS", 2, sizeof(struct pair), 2), "version 2, records of 12 bytes, not 3 and 12");
	refuse(table("DCGPAIRS", 3, 11, 2), "version 3, records of 11 bytes, not 3 and 12");
	refuse(table("DCGPAIRS", 3, sizeof(struct pair), 0), "0 records; give 1 to 4");
	refuse(table("DCGPAIRS", 3, sizeof(struct pair), 5), "5 records; give 1 to 4");
	refuse(table("DCGPAIRS", 3, sizeof(struct pair), UINT64_MAX), "18446744073709551615 records; give");
	refuse(table("DCGPAIRS", 3, sizeof(struct pair), 3), "cut off");
	b.len--; /* of the padding */
	refuse(b, "cut off");
}

static void names_record_and_field(void **state)
{
	static const struct {
		const char *word, *says;
	} words[] = {
		{ "", "--file: 'F': pair 5, word: empty, or with blanks" },
		{ "a b", "empty, or with blanks or unprintable characters" },
		{ "a\n", "empty, or with blanks or unprintable characters" },
		{ "12345678", "no end within its 8 bytes; give at most 7 characters" },
	};
	struct record_file file = file_of((struct bytes){ 0 });
	struct fault f;
	const struct record_place at = { &file, &pairs, 5, &f };

	(void)state;
	assert_int_equal(record_number(&at, "number", 3, 3, 3), 0);
	assert_int_equal(record_number(&at, "number", 2, 3, 4), -EINVAL);
	assert_string_equal(f.text, "--file: 'F': pair 5, number: 2 is not from 3 to 4");
	assert_int_equal(record_number(&at, "number", UINT64_MAX, 0, 4), -EINVAL);
	assert_int_equal(record_word(&at, "word", "1234567", 8), 0);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		char field[8];

		strncpy(field, words[i].word, sizeof(field));
		assert_int_equal(record_word(&at, "word", field, sizeof(field)), -EINVAL);
		if (!strstr(f.text, words[i].says))
			fail_msg("'%s' does not say '%s'", f.text, words[i].says);
	}
}

static void maps_files(void **state)
{
	struct bytes b = table("DCGPAIRS", 3, sizeof(struct pair), 2);
	int fd = open("records", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	struct record_file file;
	const void *records;
	struct fault f;
	uint32_t n;

	(void)state;
	assert_int_equal(write(fd, b.at, b.len), b.len);
	close(fd);
	assert_int_equal(record_file_open(&file, "--pairs", "records", &f), 0);
	assert_int_equal(record_file_take(&file, &pairs, &records, &n, &f), 0);
	assert_memory_equal(records, two, sizeof(two));
	record_file_close(&file);
	record_file_close(&file);
	assert_int_equal(record_file_open(&file, "--pairs", "none", &f), -EINVAL);
	assert_string_equal(f.text,
			    "--pairs: read 'none': No such file or directory; name a readable record file");
	assert_int_equal(record_file_open(&file, "--pairs", "/dev/null", &f), -EINVAL);
	assert_int_equal(truncate("records", 0), 0);
	assert_int_equal(record_file_open(&file, "--pairs", "records", &f), 0);
	assert_int_equal(record_file_take(&file, &pairs, &records, &n, &f), -EINVAL);
	record_file_close(&file);
	unlink("records");
	free(b.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_one_table_after_the_other),
		cmocka_unit_test(refuses_tables),
		cmocka_unit_test(names_record_and_field),
		cmocka_unit_test(maps_files),
	};

	return cmocka_run_group_tests_name("record_file", tests, NULL, NULL);
}
