/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The input of nicd: its NICs, their flows and their settings (struct nic_settings), three tables of one
 * record file.
 */
#ifndef NICS_H
#define NICS_H

#include "record_file.h"
#include "shim.h"

#include <net/if.h>
#include <stdbool.h>

#define NIC_MAGIC         "DCGYNICS"
#define NIC_FLOW_MAGIC    "DCGYQPRS"
#define NIC_SETTING_MAGIC "DCGYNSET"
#define NICS_VERSION      1
#define NIC_NAME_LEN      64
#define NIC_NETNS_LEN     256
#define NICS_MAX          65536
#define NIC_FLOWS_MAX     (1u << 20)
#define NIC_PAYLOAD_MAX   9000

/* The record's number is the NIC's row in the map `ports`. Texts are words with a final NUL. */
struct nic {
	uint64_t line_bps;
	char name[NIC_NAME_LEN], netns[NIC_NETNS_LEN]; /* "-": the present namespace */
	char wire[IF_NAMESIZE], ring[IF_NAMESIZE], tail[IF_NAMESIZE];
};

static_assert(sizeof(struct nic) == 376, "NIC");
static_assert(offsetof(struct nic, netns) == 72, "NIC");
static_assert(offsetof(struct nic, tail) == 360, "NIC");

struct nic_flow {
	uint64_t message_bytes, total_bytes; /* total_bytes: UINT64_MAX: no end */
	uint32_t flow;                       /* its row; each is larger than the last */
	uint32_t src_nic, dst_nic;           /* rows of NICs */
	uint32_t src_addr, dst_addr;         /* network byte order */
	uint32_t payload_bytes, base_rtt_ns;
	uint8_t hops, dscp, answer_dscp, cnp_dscp; /* answer_dscp: of ACKs, NACKs and answers to probes */
	uint8_t src_mac[6], dst_mac[6];
	uint16_t src_port;
	uint16_t tcp_src_port, tcp_dst_port; /* ports of the segments of the host's TCP; no such flow: 0 */
	uint16_t int_bytes;                  /* telemetry in a packet, LAB_INT_BYTES or 0: CC_TELEMETRY */
	uint32_t inflight_bytes;             /* most that may be unacknowledged; 0: no limit */
};

static_assert(sizeof(struct nic_flow) == 72, "NIC flow");
static_assert(offsetof(struct nic_flow, src_addr) == 28, "NIC flow");
static_assert(offsetof(struct nic_flow, src_mac) == 48, "NIC flow");
static_assert(offsetof(struct nic_flow, src_port) == 60, "NIC flow");
static_assert(offsetof(struct nic_flow, inflight_bytes) == 68, "NIC flow");

struct nics {
	struct record_file file; /* holds the records */
	const struct nic *nic;
	const struct nic_flow *flow;
	struct nic_settings settings;
	uint32_t n, flows, rows; /* rows: the last flow's number plus 1 */
	uint32_t capped;         /* flows of the host's TCP */
};

/* The wire's egress is looked at. */
static inline bool nics_watch_wire(const struct nics *nics)
{
	return nics->capped || nics->settings.beside;
}

/* All of `file`: 0, or -EINVAL with *f filled in. */
int nics_take(struct nics *nics, struct fault *f);

#endif
