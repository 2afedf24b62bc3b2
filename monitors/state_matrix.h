/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state matrix: what every queue of the network looks like now.
 *
 * One region of shared memory, one writer (qmon), any number of readers. A row is a port (a switch
 * port or a host's egress), a column a named feature; a cell is a u64. All integers little-endian.
 *
 *   0                       struct sm_header (256 bytes)
 *   header.off_row_names    rows x SM_NAME_LEN bytes, NUL-padded
 *   header.off_col_names    cols x SM_NAME_LEN bytes, NUL-padded
 *   header.off_cells        rows x cols x u64, row by row
 *   header.off_activity     rows x u64: flows that now cross the port; written by the traffic
 *                           generator alone (relaxed atomic stores), copied by qmon at each sweep
 *
 * Seqlock: the writer makes seq odd (release), writes, makes it even (release). A reader loads seq
 * (acquire), copies, loads seq again, and retries if it was odd or has changed. Every even value
 * belongs to exactly one complete sweep, whose number is generation.
 */
#ifndef STATE_MATRIX_H
#define STATE_MATRIX_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SM_MAGIC         "DCGYMSM1" /* 8 bytes, no NUL */
#define SM_VERSION_MAJOR 1
#define SM_VERSION_MINOR 0
#define SM_NAME_LEN      32
#define SM_MAX_ROWS      65536
#define SM_MAX_COLS      256

struct sm_header {
	char magic[8];
	uint16_t version_major, version_minor;
	uint32_t header_len; /* 256: readers skip what they do not know */
	uint32_t rows, cols;
	uint64_t off_row_names, off_col_names, off_cells, off_activity;
	uint64_t total_len; /* bytes of the region that are in use */
	uint64_t interval_ns;
	uint64_t t0_ns;      /* CLOCK_MONOTONIC at which traffic starts */
	uint64_t t_ns;       /* CLOCK_MONOTONIC of the last sweep */
	uint64_t generation; /* sweeps published so far */
	uint64_t seq;        /* odd while a sweep is being written */
	uint32_t writer_pid;
	uint32_t reserved0;
	uint8_t reserved[144];
};

static_assert(sizeof(struct sm_header) == 256, "state matrix header");
static_assert(offsetof(struct sm_header, rows) == 16, "state matrix header");
static_assert(offsetof(struct sm_header, off_row_names) == 24, "state matrix header");
static_assert(offsetof(struct sm_header, interval_ns) == 64, "state matrix header");
static_assert(offsetof(struct sm_header, seq) == 96, "state matrix header");

/* Columns of version 1, in this order. Counters are 64 bits wide and start at the row's creation. */
#define SM_COLUMNS(X)                                                                                        \
	X(BACKLOG_BYTES, "backlog_bytes")     /* queued now: L2 frame bytes without FCS */                   \
	X(BACKLOG_PACKETS, "backlog_packets") /* queued now */                                               \
	X(TX_BYTES, "tx_bytes")               /* left the queue, total */                                    \
	X(TX_PACKETS, "tx_packets")                                                                          \
	X(DROPS, "drops") /* refused or dropped by the queue, total packets */                               \
	X(MARKS, "marks") /* CE marks, total packets */                                                      \
	X(REQUEUES, "requeues")                                                                              \
	X(ACTIVE_FLOWS, "active_flows") /* flows under way that cross the port */

enum sm_column {
#define X(id, name) SM_##id,
	SM_COLUMNS(X)
#undef X
		SM_NR_COLUMNS
};

#endif
