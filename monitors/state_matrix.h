/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state matrix: what every queue of the network looks like now.
 *
 * One region of shared memory, one writer (qmon), any number of readers. A row is a port (a switch
 * port or a host's egress) or, behind all ports, a class of one; a column a named feature; a cell is a u64.
 * All integers little-endian.
 *
 *   0                       struct sm_header (256 bytes)
 *   header.off_row_names    rows x SM_NAME_LEN bytes, NUL-padded
 *   header.off_col_names    cols x SM_NAME_LEN bytes, NUL-padded
 *   header.off_cells        rows x cols x u64, row by row
 *   header.off_activity     rows x u64: flows that now cross the port; written by the traffic
 *                           generator alone (relaxed atomic stores), copied by qmon at each sweep
 *   header.off_flows        flow_rows x struct sm_flow, by flow number; written by the traffic
 *                           generator alone; 0 rows: it publishes none
 *   header.off_commands     struct sm_commands, then command_rows x struct sm_command: what an agent
 *                           wants of its actuators, and what is in force; 0 rows: no agent
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
#define SM_VERSION_MAJOR 2
#define SM_VERSION_MINOR 2
#define SM_NAME_LEN      32
#define SM_MAX_ROWS      65536
#define SM_MAX_COLS      256
#define SM_MAX_VALUES    4  /* of an actuator */
#define SM_MAX_ACTUATORS 8  /* of a port */
#define SM_ACTUATOR_LEN  16 /* bytes of its name, with the NUL */
#define SM_TOLD          1  /* see struct sm_command */

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
	uint64_t off_flows, off_commands;
	uint32_t flow_rows, command_rows;
	uint8_t reserved[120];
};

static_assert(sizeof(struct sm_header) == 256, "state matrix header");
static_assert(offsetof(struct sm_header, rows) == 16, "state matrix header");
static_assert(offsetof(struct sm_header, off_row_names) == 24, "state matrix header");
static_assert(offsetof(struct sm_header, interval_ns) == 64, "state matrix header");
static_assert(offsetof(struct sm_header, seq) == 96, "state matrix header");

enum sm_flow_status { SM_FLOW_WAITING, SM_FLOW_RUNNING, SM_FLOW_DONE, SM_FLOW_STOPPED, SM_FLOW_FAILED };

/* One flow as of its last sample or its end; times are ns after t0, -1: not yet. */
struct sm_flow {
	uint64_t received_bytes; /* payload in order at the receiver */
	uint64_t acked_bytes;    /* payload acknowledged at the sender; UDP: handed to the socket */
	int64_t start_ns, end_ns;
	uint32_t srtt_us, min_rtt_us; /* 0: no sample; UDP: always */
	uint32_t cwnd_packets, retransmits;
	uint32_t status;   /* enum sm_flow_status */
	uint32_t cnps;     /* that its NIC got */
	uint64_t rate_bps; /* TCP: as delivered; of a NIC: in force */
};

static_assert(sizeof(struct sm_flow) == 64, "state matrix flow");

/*
 * The agent makes seq odd, writes the wanted values of all rows, makes it even (release): an even value that
 * differs from ack is a command to carry out. The enforcer stores ack and applied_ns when it has told the
 * kernel, and in_force as it reads it back from there.
 *
 * On a real clock, where nobody waits for the agent, it stores in `end` that the episode is to end at the
 * next step, and with which code; the enforcer clears that when the next one begins.
 */
struct sm_commands {
	uint64_t seq;        /* by the agent */
	uint64_t ack;        /* by the enforcer: seq of the last command carried out */
	uint64_t applied_ns; /* CLOCK_MONOTONIC of that */
	uint64_t timeouts;   /* commands to a host that were given up, or sent again */
	uint64_t end;        /* by the agent; 0: go on */
	uint64_t setter;     /* by the traffic generator: its pid, if it sets rows of flows; else 0 */
	uint64_t reserved[2];
};

static_assert(sizeof(struct sm_commands) == 64, "state matrix commands");

/*
 * One actuator at one port, class or flow. Units of its values are the actuator's (ctrl/actuators/).
 *
 * A flow's has one value, and the traffic generator sets it, which has the socket. The enforcer stores what
 * is due in in_force[SM_TOLD] and wakes the setter by SIGUSR1; that keeps in_force[0]: 0 while there is no
 * such flow under way.
 */
struct sm_command {
	uint64_t wanted[SM_MAX_VALUES];   /* by the agent */
	uint64_t in_force[SM_MAX_VALUES]; /* by the enforcer: as of the last sweep */
	uint64_t acked;                   /* seq of the last command that this row has carried out */
	uint32_t row;                     /* of the port or class in the state matrix; or the flow's number */
	uint32_t n_values;
	char actuator[SM_ACTUATOR_LEN]; /* its name, NUL-padded */
};

static_assert(sizeof(struct sm_command) == 96, "state matrix command");

/* Columns of version 2.2, in this order. Counters are 64 bits wide and start at the row's creation. */
#define SM_COLUMNS(X)                                                                                        \
	X(BACKLOG_BYTES, "backlog_bytes")     /* queued now: L2 frame bytes without FCS */                   \
	X(BACKLOG_PACKETS, "backlog_packets") /* queued now */                                               \
	X(TX_BYTES, "tx_bytes")               /* left the queue, total */                                    \
	X(TX_PACKETS, "tx_packets")                                                                          \
	X(DROPS, "drops") /* refused or dropped by the queue, total packets */                               \
	X(MARKS, "marks") /* CE marks, total packets */                                                      \
	X(REQUEUES, "requeues")                                                                              \
	X(ACTIVE_FLOWS, "active_flows") /* flows under way that cross the port */                            \
	/* of the qdisc `port`; others have 0 */                                                             \
	X(CE_BYTES, "ce_bytes")           /* left with CE, whoever marked it, total */                       \
	X(QUEUE_BYTE_NS, "queue_byte_ns") /* time integral of the queue, total; wraps */                     \
	X(BUSY_NS, "busy_ns")             /* time in which frames waited, total */                           \
	X(LONGEST_BYTES, "longest_bytes") /* the longest queue since the sweep before */                     \
	X(PAUSED_NS, "paused_ns")         /* time in which the peer had it hold some class, total */         \
	X(CHARGED_BYTES, "charged_bytes") /* came in here and waits in the switch, lossless, now */          \
	X(PAUSES, "pauses")               /* times that the peer was told to hold a class, total */

enum sm_column {
#define X(id, name) SM_##id,
	SM_COLUMNS(X)
#undef X
		SM_NR_COLUMNS
};

#endif
