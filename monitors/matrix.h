/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's side of the state matrix (state_matrix.h), and the trace file that keeps every sweep. */
#ifndef MATRIX_H
#define MATRIX_H

#include "state_matrix.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct matrix {
	struct sm_header *header;
	size_t len;
};

struct trace {
	int fd;
	char *path, *partial; /* its name when whole, and until then */
	unsigned char *buf;
	size_t used, size;
};

#define TRACE_INIT                                                                                           \
	{                                                                                                    \
		.fd = -1                                                                                     \
	}

/* Names of rows: `stride` bytes apart, so that they may lie inside larger records. */
struct row_names {
	const char *first;
	size_t stride;
};

/* How many records of each part there are: ports, and of flows and actuators often none. */
struct matrix_shape {
	uint32_t rows, flow_rows, command_rows;
};

/* Sizes and offsets; the rest of the header is 0. */
void matrix_layout(struct sm_header *h, struct matrix_shape shape, uint64_t interval_ns, uint64_t t0_ns);

/*
 * Map `path` and write the layout, the names and an empty matrix to it. A regular file is created and
 * grown; anything else is mapped as it is, and too small for the layout it is -EFBIG; NULL is memory of this
 * process alone. 0 or -errno.
 */
int matrix_open(struct matrix *m, const char *path, const struct sm_header *layout, struct row_names names);
void matrix_close(struct matrix *m);

/* Fill the ACTIVE_FLOWS column of rows x cols cells from what the traffic generator counts. */
void matrix_copy_activity(const struct matrix *m, uint64_t *cells);

/* Publish one complete sweep. */
void matrix_publish(struct matrix *m, uint64_t t_ns, const uint64_t *cells);

/* An episode: from now on times count from another t0, and the agent has not asked for its end. */
void matrix_begin(const struct matrix *m, uint64_t t0_ns);

/* The code with which the agent wants the episode to end; 0: it goes on. */
uint64_t matrix_asked_end(const struct matrix *m);

/*
 * The commands of an agent (struct sm_commands). Values of a row are always SM_MAX_VALUES in number.
 * matrix_take_command() copies what it wants of each row and
 * returns the command's number; while one is being written, or where there never was one, an odd number or 0.
 */
uint64_t matrix_take_command(const struct matrix *m, uint64_t *wanted);
void matrix_want(const struct matrix *m, uint32_t i, const uint64_t *values);
void matrix_in_force(const struct matrix *m, uint32_t i, const uint64_t *values);
/* Of a flow's row: what the setter is to set. Returns whether that is another value than before. */
bool matrix_tell(const struct matrix *m, uint32_t i, uint64_t value);
/* The pid of the process that sets rows of flows, or 0. */
uint64_t matrix_setter(const struct matrix *m);
/* Row i has carried out command `seq`; all have; so many were sent again. */
void matrix_row_acked(const struct matrix *m, uint32_t i, uint64_t seq);
void matrix_timeouts(const struct matrix *m, uint64_t timeouts);
void matrix_acknowledge(const struct matrix *m, uint64_t seq, uint64_t applied_ns);
/* Whatever was commanded so far counts as carried out, at no time: its number. */
uint64_t matrix_disown_commands(const struct matrix *m);
/* Which port and actuator a command row is; `actuator` has SM_ACTUATOR_LEN bytes. */
void matrix_assign(const struct matrix *m, uint32_t i, uint32_t row, const char *actuator, uint32_t n_values);

/* Begin PATH.partial; an old PATH is removed, so that it cannot be taken for the new one. */
int trace_open(struct trace *t, const char *path, const struct sm_header *layout, struct row_names names);
int trace_append(struct trace *t, uint64_t t_ns, const uint64_t *cells, size_t n_cells);

/* Write all out, sync it and give it its name. */
int trace_finish(struct trace *t);

/* Release; a trace that was not finished stays behind as PATH.partial. */
void trace_close(struct trace *t);

#endif
