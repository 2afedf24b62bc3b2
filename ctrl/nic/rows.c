// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Rows before the start: see rows.h. */
#include "rows.h"

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <string.h>

#define IP_BYTES (NIC_FRAME_BYTES - sizeof(struct ether_header))
#define TTL      64
#define ECT_0    2
#define DSCP_AT  2 /* in IP's second byte, above ECN */

struct end {
	uint32_t addr;
	const uint8_t *mac;
};

static uint16_t checksum(const struct iphdr *ip)
{
	uint16_t words[sizeof(*ip) / 2];
	uint32_t sum = 0;

	memcpy(words, ip, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* A frame without payload. Both directions of a flow use its one port: only addresses are turned round. */
static void template(uint8_t *frame, const struct nic_flow *flow, struct end from, struct end to, uint8_t tos)
{
	struct ether_header eth = { .ether_type = htons(ETHERTYPE_IP) };
	struct iphdr ip = {
		.version = 4,
		.ihl = sizeof(ip) / 4,
		.tos = tos,
		.tot_len = htons(IP_BYTES),
		.frag_off = htons(IP_DF),
		.ttl = TTL,
		.protocol = IPPROTO_UDP,
		.saddr = from.addr,
		.daddr = to.addr,
	};
	struct udphdr udp = {
		.source = htons(flow->src_port),
		.dest = htons(NIC_UDP_PORT),
		.len = htons(IP_BYTES - sizeof(ip)),
	};
	struct nic_header nic = { .version = NIC_VERSION, .opcode = NIC_DOORBELL, .flow = htonl(flow->flow) };

	ip.check = checksum(&ip);
	memcpy(eth.ether_shost, from.mac, ETH_ALEN);
	memcpy(eth.ether_dhost, to.mac, ETH_ALEN);
	memcpy(frame, &eth, sizeof(eth));
	memcpy(frame + sizeof(eth), &ip, sizeof(ip));
	memcpy(frame + sizeof(eth) + sizeof(ip), &udp, sizeof(udp));
	memcpy(frame + NIC_FRAME_BYTES - sizeof(nic), &nic, sizeof(nic));
}

void rows_port(struct nic_port *port, const struct nic *nic, uint32_t wire_ifindex, uint32_t ring_ifindex)
{
	*port = (struct nic_port){
		.wire_ifindex = wire_ifindex,
		.ring_ifindex = ring_ifindex,
		.line_bps = nic->line_bps,
		.byte_ns = ((8000000000ULL << BYTE_NS_SHIFT) + nic->line_bps - 1) / nic->line_bps,
	};
}

static uint64_t packets_of(uint64_t bytes, uint32_t payload_bytes)
{
	return bytes / payload_bytes + (bytes % payload_bytes != 0);
}

/* Payload of the last packet of so many bytes. */
static uint32_t tail_of(uint64_t bytes, uint32_t payload_bytes)
{
	return (uint32_t)((bytes - 1) % payload_bytes + 1);
}

static uint64_t total_packets(const struct nic_flow *flow)
{
	if (flow->total_bytes == UINT64_MAX)
		return UINT64_MAX;
	return flow->total_bytes / flow->message_bytes *
		       packets_of(flow->message_bytes, flow->payload_bytes) +
	       packets_of(flow->total_bytes % flow->message_bytes, flow->payload_bytes);
}

static uint32_t final_bytes(const struct nic_flow *flow)
{
	uint64_t last = flow->total_bytes % flow->message_bytes;

	return tail_of(last ? last : flow->message_bytes, flow->payload_bytes);
}

static uint32_t mbps(uint64_t bps)
{
	uint64_t value = bps / 1000000;

	return value < 1 ? 1 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

void rows_flow(struct nic_sender *sender, struct nic_receiver *receiver, const struct nic_flow *flow,
	       const struct nic_port *src)
{
	struct end from = { flow->src_addr, flow->src_mac }, to = { flow->dst_addr, flow->dst_mac };

	*sender = (struct nic_sender){
		.port = flow->src_nic,
		.payload_bytes = flow->payload_bytes,
		.message_bytes = flow->message_bytes,
		.total_bytes = flow->total_bytes,
		.total_packets = total_packets(flow),
		.message_packets = (uint32_t)packets_of(flow->message_bytes, flow->payload_bytes),
		.tail_bytes = tail_of(flow->message_bytes, flow->payload_bytes),
		.final_bytes = final_bytes(flow),
		.inflight_bytes = flow->inflight_bytes,
		.window_bytes = flow->inflight_bytes,
		.flow = { flow->base_rtt_ns, mbps(src->line_bps),
			  flow->payload_bytes + NIC_FRAME_BYTES + flow->int_bytes, flow->hops },
		.byte_ns = src->byte_ns,
		.parked = 1,
		.rate = CC_LINE_RATE,
	};
	template(sender->frame, flow, from, to, (uint8_t)(flow->dscp << DSCP_AT | ECT_0));
	*receiver = (struct nic_receiver){
		.port = flow->dst_nic,
		.payload_bytes = flow->payload_bytes,
		.message_bytes = flow->message_bytes,
		.total_bytes = flow->total_bytes,
		.total_packets = sender->total_packets,
		.message_packets = sender->message_packets,
	};
	template(receiver->frame, flow, to, from, (uint8_t)(flow->answer_dscp << DSCP_AT));
	template(receiver->cnp_frame, flow, to, from, (uint8_t)(flow->cnp_dscp << DSCP_AT));
}
