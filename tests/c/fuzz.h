/* SPDX-License-Identifier: Apache-2.0 */
/* Common code of the fuzz targets: a promise that must hold, and the count of inputs that were accepted. The
 * count is printed when the process ends: "fuzz: N executions, N accepted, N rows". */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	unsigned long long executions, accepted, rows;
} fuzz_counts;

static inline void require(bool holds)
{
	if (!holds)
		abort();
}

static void fuzz_print(void)
{
	fprintf(stderr, "fuzz: %llu executions, %llu accepted, %llu rows\n", fuzz_counts.executions,
		fuzz_counts.accepted, fuzz_counts.rows);
}

/* Counts an input. `rows`: how much of it was accepted, 0 if it was refused. */
static inline void fuzz_count(uint64_t rows)
{
	if (!fuzz_counts.executions++)
		atexit(fuzz_print);
	fuzz_counts.accepted += rows > 0;
	fuzz_counts.rows += rows;
}

#endif
