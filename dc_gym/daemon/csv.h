/* SPDX-License-Identifier: Apache-2.0 */
/* Lines and fields of the CSV files that programs hand each other: plain words and numbers, nothing quoted.
 * Pure functions over a buffer that need not end in NUL. */
#ifndef CSV_H
#define CSV_H

#include "fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slice {
	const char *at;
	size_t len;
};

/* Cut the next line off; both \n and \r\n end one. */
bool csv_line(struct slice *rest, struct slice *line);

/* How many lines there are, at most `max`. */
size_t csv_count(struct slice rest, size_t max);

/* Split at commas: how many fields there are; the first `max` are stored. */
size_t csv_split(struct slice line, struct slice *fields, size_t max);

/* The part of a field that is fit to be shown in a message with %.*s: its length. */
int csv_shown(struct slice s);

/* Store a word with its final NUL and zeros up to `size`: 0, or -EINVAL and what is wrong with it. */
int csv_word(char *to, size_t size, struct slice s, size_t line, const char *name, struct fault *f);

/* Store a whole number from min to max: 0, or -EINVAL and what is wrong with it. */
int csv_number(uint64_t *to, uint64_t min, uint64_t max, struct slice s, size_t line, const char *name,
	       struct fault *f);

#endif
