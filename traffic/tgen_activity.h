/* SPDX-License-Identifier: Apache-2.0 */
/* The activity cells of the state matrix (monitors/state_matrix.h): flows under way a row. tgen alone writes
 * them. */
#ifndef TGEN_ACTIVITY_H
#define TGEN_ACTIVITY_H

#include <stddef.h>
#include <stdint.h>

struct activity {
	void *region; /* NULL: no matrix */
	size_t len;
	uint64_t *cells;
	uint32_t rows;
};

/* 0, -errno, or -EINVAL with *why: the file is no state matrix of this version. */
int activity_open(struct activity *a, const char *file, const char **why);
void activity_add(const struct activity *a, const uint32_t *rows, uint32_t count, int64_t change);
void activity_close(struct activity *a);

#endif
