/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of flows that tgen runs: a strict parser of its CSV (docs/protocols.md), a pure function over
 * a buffer. No quoting, no blanks, no defaults: a cell that is not exactly what it should be is an error
 * that names line, column, value, reason and remedy.
 */
#ifndef FLOW_CSV_H
#define FLOW_CSV_H

#include <stddef.h>
#include <stdint.h>

#define FLOW_CSV_HEADER                                                                                      \
	"flow,transport,src_ns,dst_ns,src_addr,dst_addr,src_port,dst_port,cc,gate,opens,start_ns,stop_ns,"   \
	"length_ns,size_bytes,rate_bps,gaps,path"
#define FLOW_MAX        (1u << 20) /* flows in one file */
#define FLOW_LINE_MAX   8192       /* bytes in one line */
#define FLOW_CC_MAX     16         /* TCP_CA_NAME_MAX: a name and its NUL */
#define FLOW_NS_MAX     256        /* a namespace's path and its NUL */
#define FLOW_LIST_MAX   256        /* rows that one flow may cross; gates that it may open */
#define FLOW_NO_GATE    UINT32_MAX
#define FLOW_TIME_MAX   (INT64_C(1) << 60)
#define FLOW_AMOUNT_MAX (UINT64_C(1) << 60) /* bytes, and bit/s */

enum flow_transport { FLOW_TCP, FLOW_UDP, FLOW_RDMA, NR_TRANSPORTS };
enum flow_gaps { GAPS_EXACT, GAPS_UNIFORM, GAPS_EXPONENTIAL, NR_GAPS };

struct flow_spec {
	uint32_t src_ns, dst_ns;     /* into flow_table.ns */
	uint32_t src_addr, dst_addr; /* network byte order */
	uint16_t src_port, dst_port; /* host byte order */
	uint32_t listener;           /* first flow with the same transport, dst_ns, dst_addr and dst_port */
	uint32_t gate;               /* that it waits at; FLOW_NO_GATE: none */
	uint32_t opens_start, opens_len; /* into flow_table.opens */
	int64_t start_ns;                /* after t0, or after its gate opens */
	int64_t stop_ns, length_ns;      /* after t0, after its start; 0: none */
	uint64_t size_bytes, rate_bps;
	uint32_t path_start, path_len; /* into flow_table.rows */
	uint32_t line;
	uint8_t transport, gaps;
	char cc[FLOW_CC_MAX];
};

/* A gate opens when every flow that names it in `opens` has ended. */
struct flow_table {
	struct flow_spec *flow;
	char (*ns)[FLOW_NS_MAX];
	uint32_t *rows;  /* of the state matrix */
	uint32_t *opens; /* gates */
	uint32_t *needs; /* by gate: how many flows open it */
	uint32_t flows, namespaces, nrows, nopens, gates;
};

/* Texts are printable and NUL-terminated whatever the input was; column is empty if the line as a whole is
 * wrong. */
struct flow_csv_error {
	size_t line;
	char column[16];
	char value[64];
	char why[128];
	char remedy[128];
};

/* 0; -EINVAL with *error filled in; or -ENOMEM. On an error the table is empty. */
int flow_csv_parse(const char *text, size_t len, struct flow_table *table, struct flow_csv_error *error);
void flow_table_free(struct flow_table *table);

/*
 * An open-addressing index over things that the caller numbers. find() answers the slot that holds an equal
 * element, or the empty one where it belongs (SLOT_EMPTY).
 */
#define SLOT_EMPTY UINT32_MAX
struct slots {
	uint32_t *slot;
	uint32_t mask;
};
typedef int (*slot_equal)(const void *context, uint32_t element, const void *key);

int slots_init(struct slots *slots, uint32_t elements);
uint32_t *slots_find(const struct slots *slots, uint64_t hash, slot_equal equal, const void *context,
		     const void *key);
void slots_free(struct slots *slots);
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t len);

#endif
