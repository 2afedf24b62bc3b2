/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flows that tgen runs: four tables of one record file. A gate opens when every flow that names it in
 * `opens` has ended.
 */
#ifndef FLOW_TABLE_H
#define FLOW_TABLE_H

#include "record_file.h"

#define FLOW_NETNS_MAGIC  "DCGNETNS"
#define FLOW_MAGIC        "DCGFLOWS"
#define FLOW_OPENS_MAGIC  "DCGOPENS"
#define FLOW_ROWS_MAGIC   "DCGPROWS"
#define FLOW_VERSION      1 /* of the other tables */
#define FLOW_SPEC_VERSION 2

#define FLOW_MAX        (1u << 20) /* flows in one file */
#define FLOW_PACKET_MAX 9000u      /* bytes of payload */
#define FLOW_CC_MAX     16         /* TCP_CA_NAME_MAX: a name and its NUL */
#define FLOW_NETNS_LEN  256        /* a namespace's path and its NUL */
#define FLOW_LIST_MAX   256        /* rows that one flow may cross; gates that it may open */
#define FLOW_NO_GATE    UINT32_MAX
#define FLOW_DSCP_MAX   63
#define FLOW_TIME_MAX   (INT64_C(1) << 60)
#define FLOW_AMOUNT_MAX (UINT64_C(1) << 60) /* bytes, and bit/s */

enum flow_transport { FLOW_TCP, FLOW_UDP, FLOW_RDMA, NR_TRANSPORTS };
enum flow_gaps { GAPS_EXACT, GAPS_UNIFORM, GAPS_EXPONENTIAL, NR_GAPS };

/* The first table: network namespaces. */
struct flow_netns {
	char path[FLOW_NETNS_LEN];
};

static_assert(sizeof(struct flow_netns) == 256, "flow namespace");

/* The second: flows by their number. The third has gates, u32, the fourth rows of the state matrix, u32. */
struct flow_spec {
	int64_t start_ns;            /* after t0, or after its gate opens */
	int64_t stop_ns, length_ns;  /* after t0, after its start; 0: none */
	uint64_t size_bytes;         /* 0: no limit */
	uint64_t rate_bps;           /* the application's, 0: no limit */
	uint32_t src_ns, dst_ns;     /* numbers of namespaces */
	uint32_t src_addr, dst_addr; /* network byte order */
	uint32_t listener;           /* first flow with the same transport, dst_ns, dst_addr and dst_port */
	uint32_t gate;               /* it waits there; FLOW_NO_GATE: nowhere */
	uint32_t opens_start, opens_len; /* gates: a part of the third table */
	uint32_t path_start, path_len;   /* rows that its data crosses: a part of the fourth */
	uint16_t src_port, dst_port;     /* host byte order */
	uint8_t transport, gaps;         /* enum flow_transport, enum flow_gaps */
	char cc[FLOW_CC_MAX];            /* congestion control; a word and a NUL */
	uint8_t dscp;                    /* of its packets, and of TCP's that answer them */
	uint8_t acks;                    /* 1: TCP_LAB_ACKS (lab.h) */
	uint8_t reserved[4];
	uint32_t packet_bytes; /* payload of a full packet */
};

static_assert(sizeof(struct flow_spec) == 112, "flow");
static_assert(offsetof(struct flow_spec, size_bytes) == 24, "flow");
static_assert(offsetof(struct flow_spec, src_ns) == 40, "flow");
static_assert(offsetof(struct flow_spec, opens_start) == 64, "flow");
static_assert(offsetof(struct flow_spec, src_port) == 80, "flow");
static_assert(offsetof(struct flow_spec, cc) == 86, "flow");

struct flow_table {
	struct record_file file; /* holds the records */
	const struct flow_netns *netns;
	const struct flow_spec *flow;
	const uint32_t *opens; /* gates */
	const uint32_t *rows;
	uint32_t *needs; /* number of flows that open each gate */
	uint32_t namespaces, flows, nopens, nrows, gates;
};

/* All of `file`: 0, -EINVAL or -ENOMEM with *f filled in. */
int flow_table_take(struct flow_table *table, struct fault *f);
void flow_table_free(struct flow_table *table); /* closes the file, too */

#endif
