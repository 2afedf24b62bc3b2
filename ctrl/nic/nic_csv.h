/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What nicd reads: its NICs, its flows and its settings. Pure functions over buffers.
 *
 *   NICs      CSV `nic,netns,wire,ring,tail,line_bps`, one a row of the map `ports`
 *   flows     CSV `flow,src_nic,dst_nic,src_addr,dst_addr,src_mac,dst_mac,src_port,payload_bytes,
 *             message_bytes,total_bytes,base_rtt_ns,hops`, `flow` the row; total_bytes of a flow without an
 *             end: 18446744073709551615
 *   capped    CSV `flow,src_port,dst_port`: those of the flows that are the host's TCP, with the ports of its
 *             segments
 *   settings  lines `name=value`, names as in struct nic_settings, and `parameter.INDEX=value`; what is not
 *             named has its default
 */
#ifndef NIC_CSV_H
#define NIC_CSV_H

#include "csv.h"
#include "shim.h"

#include <net/if.h>

#define NIC_NAME_LEN    64
#define NIC_NETNS_LEN   128
#define NIC_FLOWS_MAX   (1u << 20)
#define NIC_PAYLOAD_MAX 9000

struct nic {
	char name[NIC_NAME_LEN], netns[NIC_NETNS_LEN]; /* "-": the present namespace */
	char wire[IF_NAMESIZE], ring[IF_NAMESIZE], tail[IF_NAMESIZE];
	uint64_t line_bps;
};

struct nics {
	struct nic *nic;
	uint32_t n;
};

struct nic_flow {
	uint32_t flow, src_nic, dst_nic; /* rows */
	uint32_t src_addr, dst_addr;     /* network byte order */
	uint8_t src_mac[6], dst_mac[6];
	uint16_t src_port;
	uint32_t payload_bytes;
	uint64_t message_bytes, total_bytes;
	uint32_t base_rtt_ns, hops;
};

struct nic_flows {
	struct nic_flow *flow;
	uint32_t n, rows; /* rows: the largest number plus 1 */
};

/* A flow of the host's TCP. */
struct nic_capped_flow {
	uint32_t flow;
	struct nic_tcp tcp;
};

struct nic_capped {
	struct nic_capped_flow *flow;
	uint32_t n;
};

/* 0, -ENOMEM or -EINVAL with what is wrong. The caller frees `nic` and `flow` in any case. */
int nics_parse(const char *buf, size_t len, struct nics *out, struct fault *f);
int nic_flows_parse(const char *buf, size_t len, const struct nics *nics, struct nic_flows *out,
		    struct fault *f);
int nic_capped_parse(const char *buf, size_t len, const struct nic_flows *flows, struct nic_capped *out,
		     struct fault *f);
int nic_settings_parse(const char *buf, size_t len, struct nic_settings *out, struct fault *f);

#endif
