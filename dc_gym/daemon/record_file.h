/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record files: what Python hands a program (dc_gym/base/record_file.py writes them).
 *
 * A file is one table after the other. A table is a header, then `count` records of `record_size` bytes as
 * they lie in memory, then zeros up to a multiple of 8 bytes. Integers are little-endian.
 */
#ifndef RECORD_FILE_H
#define RECORD_FILE_H

#include "fault.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are read as they lie in the file");

struct record_header {
	char magic[8]; /* of the records' kind, no NUL */
	uint32_t version, record_size;
	uint64_t count;
};

static_assert(sizeof(struct record_header) == 24, "record file header");
static_assert(offsetof(struct record_header, count) == 16, "record file header");

/* A kind of record. */
struct record_kind {
	const char *magic, *name; /* name: in messages */
	uint32_t version, size;
	uint32_t least, most; /* records in a table */
};

/* A file in memory. The records lie in it until it is closed. */
struct record_file {
	const char *option, *path; /* for messages: the option that named it */
	const unsigned char *at;
	size_t len, used; /* used: by the tables that were taken */
};

/* All return 0 or -errno with *f filled in. A zeroed file is a closed one. */
int record_file_open(struct record_file *file, const char *option, const char *path, struct fault *f);
void record_file_close(struct record_file *file);

/* The next table. */
int record_file_take(struct record_file *file, const struct record_kind *kind, const void **records,
		     uint32_t *count, struct fault *f);

/* Nothing is left. */
int record_file_end(const struct record_file *file, struct fault *f);

/* ---- what is in a record ---- */

struct record_place {
	const struct record_file *file;
	const struct record_kind *kind;
	uint32_t number;
	struct fault *fault;
};

/* -EINVAL, and the line says file, record and field. */
__attribute__((format(printf, 3, 4))) int record_refuse(const struct record_place *at, const char *field,
							const char *fmt, ...);

/* A number from min to max. */
int record_number(const struct record_place *at, const char *field, uint64_t value, uint64_t min,
		  uint64_t max);

/* A word in a field of `size` bytes: printable characters without blanks, at least one, and a NUL. */
int record_word(const struct record_place *at, const char *field, const char *text, size_t size);

#endif
