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
	"flow,src_ns,dst_ns,src_addr,dst_addr,src_port,dst_port,cc,start_ns,stop_ns,size_bytes,rate_bps,"    \
	"path"
#define FLOW_MAX        (1u << 20) /* flows in one file */
#define FLOW_LINE_MAX   8192       /* bytes in one line */
#define FLOW_CC_MAX     16         /* TCP_CA_NAME_MAX: a name and its NUL */
#define FLOW_NS_MAX     256        /* a namespace's path and its NUL */
#define FLOW_PATH_MAX   256        /* rows that one flow may cross */
#define FLOW_TIME_MAX   (INT64_C(1) << 60)
#define FLOW_AMOUNT_MAX (UINT64_C(1) << 60) /* bytes, and bit/s */

struct flow_spec {
	uint32_t src_ns, dst_ns;     /* into flow_table.ns */
	uint32_t src_addr, dst_addr; /* network byte order */
	uint16_t src_port, dst_port; /* host byte order */
	uint32_t listener; /* first flow with the same dst_ns, dst_addr and dst_port: it is listened for once
			    */
	int64_t start_ns, stop_ns; /* after t0; stop_ns 0: none */
	uint64_t size_bytes, rate_bps;
	uint32_t path_start, path_len; /* into flow_table.rows */
	uint32_t line;
	char cc[FLOW_CC_MAX];
};

struct flow_table {
	struct flow_spec *flow;
	char (*ns)[FLOW_NS_MAX];
	uint32_t *rows; /* of the state matrix */
	uint32_t flows, namespaces, nrows;
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
