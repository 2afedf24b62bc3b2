/* SPDX-License-Identifier: Apache-2.0 */
/* Record files in memory, for tests of their readers: in blocks of exactly their size, so that a sanitizer
 * sees a read past the end. */
#ifndef RECORD_BYTES_H
#define RECORD_BYTES_H

#include "record_file.h"

#include <stdlib.h>
#include <string.h>

struct bytes {
	unsigned char *at;
	size_t len;
};

static inline void add_table(struct bytes *b, const char *magic, uint32_t version, uint32_t record_size,
			     const void *records, uint64_t count)
{
	struct record_header h = { .version = version, .record_size = record_size, .count = count };
	size_t body = (size_t)count * record_size, padded = (body + 7) & ~(size_t)7;
	unsigned char *at = realloc(b->at, b->len + sizeof(h) + padded);

	if (!at)
		abort();
	memcpy(h.magic, magic, sizeof(h.magic));
	memcpy(at + b->len, &h, sizeof(h));
	memset(at + b->len + sizeof(h), 0, padded);
	if (body)
		memcpy(at + b->len + sizeof(h), records, body);
	*b = (struct bytes){ at, b->len + sizeof(h) + padded };
}

static inline struct record_file file_of(struct bytes b)
{
	return (struct record_file){ .option = "--file", .path = "F", .at = b.at, .len = b.len };
}

#endif
