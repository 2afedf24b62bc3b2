/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the state matrix that tgen alone writes (monitors/state_matrix.h): the activity cells, flows
 * under way a row, and the rows of flows. Each u64 is stored atomically; a row as a whole is not.
 *
 * Also what an agent wants of flows' sockets: rows by flow number, where the agent sets such a thing.
 */
#ifndef TGEN_MATRIX_H
#define TGEN_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state_matrix.h"

enum order_kind { ORDER_CWND, ORDER_CLAMP, ORDER_PACING, NR_ORDERS };

struct tgen_matrix {
	void *region; /* NULL: no matrix */
	size_t len;
	uint64_t *activity;
	uint32_t rows;
	uint32_t flow_rows; /* 0: flows are not published */
	struct sm_flow *flows;
	struct sm_commands *commands; /* NULL: no agent */
	struct sm_command *orders[NR_ORDERS];
	uint32_t ordered[NR_ORDERS]; /* flows that have such a row */
};

/* 0, -errno, or -EINVAL with *why: the file is no state matrix of this version. */
int tgen_matrix_open(struct tgen_matrix *m, const char *file, const char **why);
void tgen_matrix_count(const struct tgen_matrix *m, const uint32_t *rows, uint32_t count, int64_t change);
void tgen_matrix_store(const struct tgen_matrix *m, uint32_t flow, const struct sm_flow *row);
bool tgen_matrix_has_orders(const struct tgen_matrix *m);
uint64_t tgen_matrix_told(const struct tgen_matrix *m, enum order_kind kind, uint32_t flow); /* 0: nothing */
void tgen_matrix_took(const struct tgen_matrix *m, enum order_kind kind, uint32_t flow, uint64_t value);
void tgen_matrix_set_setter(const struct tgen_matrix *m, uint64_t pid);
void tgen_matrix_close(struct tgen_matrix *m);

#endif
