/* SPDX-License-Identifier: GPL-2.0 */
/* Frames of the NIC: where their parts are, what makes one well formed, and how others are written over them.
 */
#ifndef DCGYM_FRAMES_BPF_H
#define DCGYM_FRAMES_BPF_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include "maps.bpf.h"

#define NIC_HEADER_AT  (NIC_FRAME_BYTES - NIC_HEADER_BYTES)
#define IP_FRAGMENT    0x3fff /* more fragments, offset */
#define IP_VERSION_IHL 0x45
#define ECN_MASK       3
#define ECN_CE         3
#define LINE_SHIFT     8

/* Telemetry in each DATA, ACK and NACK. */
#ifdef CC_TELEMETRY
#define INT_BYTES LAB_INT_BYTES
#else
#define INT_BYTES 0
#endif
/* The part of DATA before its payload; the whole of an ACK or NACK. */
#define PACKET_HEAD_BYTES (NIC_FRAME_BYTES + INT_BYTES)

struct nic_frame {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	struct nic_header nic;
} __attribute__((packed));
_Static_assert(sizeof(struct nic_frame) == NIC_FRAME_BYTES, "NIC frame");

/* The frame's start if it is long enough. Pointers into it die with every change of its size and every copy.
 */
static __always_inline struct nic_frame *frame_of(struct __sk_buff *skb)
{
	struct nic_frame *frame = (void *)(long)skb->data;

	return (void *)(frame + 1) <= (void *)(long)skb->data_end ? frame : NULL;
}

/* UDP over IPv4 to the NICs' port. */
static __always_inline bool for_nic(const struct nic_frame *frame)
{
	return frame->eth.h_proto == bpf_htons(ETH_P_IP) && *(const uint8_t *)&frame->ip == IP_VERSION_IHL &&
	       frame->ip.protocol == IPPROTO_UDP && frame->udp.dest == bpf_htons(NIC_UDP_PORT);
}

/* Its telemetry is there if it is due, and only then. */
static __always_inline bool well_measured(const struct nic_frame *frame, uint32_t bytes)
{
	uint8_t opcode = frame->nic.opcode;
	bool carries = frame->nic.flags & NIC_INT;

	if (!INT_BYTES || (opcode != NIC_DATA && opcode != NIC_ACK && opcode != NIC_NACK))
		return !carries;
	return carries && (opcode == NIC_DATA ? bytes >= PACKET_HEAD_BYTES : bytes == PACKET_HEAD_BYTES);
}

/* DATA that a port has trimmed (struct tc_port_trim): it is shorter than it tells. */
static __always_inline bool is_trimmed(const struct nic_frame *frame, uint32_t bytes)
{
	return settings.trims && settings.trims == (frame->ip.tos >> 2) + 1u &&
	       frame->nic.opcode == NIC_DATA && bpf_ntohs(frame->ip.tot_len) > bytes - sizeof(struct ethhdr);
}

/* Whole, or trimmed, of our version, with lengths that agree. */
static __always_inline bool well_formed(const struct nic_frame *frame, uint32_t bytes)
{
	uint32_t ip_bytes = bpf_ntohs(frame->ip.tot_len);

	return !(frame->ip.frag_off & bpf_htons(IP_FRAGMENT)) &&
	       (ip_bytes == bytes - sizeof(struct ethhdr) || is_trimmed(frame, bytes)) &&
	       frame->udp.len == bpf_htons(ip_bytes - sizeof(struct iphdr)) &&
	       frame->nic.version == NIC_VERSION && well_measured(frame, bytes);
}

/* The frame comes from the host to which the template `row` sends, and goes to the host that it sends from.
 */
static __always_inline bool from_peer(const struct nic_frame *frame, const uint8_t *row)
{
	return frame->ip.saddr == ((const struct nic_frame *)row)->ip.daddr &&
	       frame->ip.daddr == ((const struct nic_frame *)row)->ip.saddr;
}

/* The lengths of a frame of so many bytes in IP and UDP, and IP's checksum (RFC 1624). */
static __always_inline void set_lengths(struct nic_frame *frame, uint32_t bytes)
{
	uint32_t sum;

	bytes -= sizeof(struct ethhdr);
	sum = (uint16_t)~bpf_ntohs(frame->ip.check);
	sum += (uint16_t)~bpf_ntohs(frame->ip.tot_len);
	sum += bytes;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	frame->ip.check = bpf_htons((uint16_t)~sum);
	frame->ip.tot_len = bpf_htons(bytes);
	frame->udp.len = bpf_htons(bytes - sizeof(struct iphdr));
}

/* Gives the frame another size. It is ours to write. */
static __always_inline struct nic_frame *resize(struct __sk_buff *skb, uint32_t bytes)
{
	struct nic_frame *frame;

	if (bpf_skb_change_tail(skb, bytes, 0))
		return NULL;
	frame = frame_of(skb);
	if (!frame)
		return NULL;
	set_lengths(frame, bytes);
	return frame;
}

/* The time, in Q8, that a NIC's transmitter needs; rounded up, so that it never runs ahead of the cable's. */
static __always_inline uint64_t line_time(const struct nic_port *port, uint32_t bytes)
{
	return (bytes * port->byte_ns >> (BYTE_NS_SHIFT - LINE_SHIFT)) + 1;
}

/* Where the line is free, the host's own frames pass. */
static __always_inline void let_host_pass(struct nic_port *port, uint64_t at)
{
	uint64_t since = port->free_at > port->host_at ? port->free_at : port->host_at;
	uint64_t idle = at > since ? at - since : 0;

	port->host_left -= idle < port->host_left ? idle : port->host_left;
	port->host_at = at;
}

/*
 * NIC and host take turns at the line while both have frames: behind a frame of the NIC's the host gets as
 * much time as that took, if it needs it.
 */
static __always_inline uint64_t turn_of_host(struct nic_port *port, uint64_t needs)
{
	uint64_t turn = needs < port->host_left ? needs : port->host_left;

	port->host_left -= turn;
	return turn;
}

/* The NIC sends so many bytes now. */
static __always_inline void count_sent(struct nic_port *port, uint32_t bytes, uint64_t now)
{
	uint64_t at = now << LINE_SHIFT, needs = line_time(port, bytes);

	if (settings.beside) {
		let_host_pass(port, at);
		needs += turn_of_host(port, needs);
	}
	port->free_at = (port->free_at > at ? port->free_at : at) + needs;
	port->sent_packets++;
	port->sent_bytes += bytes;
}

/* Writes a frame without payload over the packet: the row's headers and `nic`. */
static __always_inline int write_over(struct __sk_buff *skb, const uint8_t *row, const struct nic_header *nic)
{
	if (skb->len != NIC_FRAME_BYTES && bpf_skb_change_tail(skb, NIC_FRAME_BYTES, 0))
		return -1;
	if (bpf_skb_store_bytes(skb, 0, row, NIC_HEADER_AT, 0))
		return -1;
	return bpf_skb_store_bytes(skb, NIC_HEADER_AT, nic, NIC_HEADER_BYTES, 0);
}

/* An ACK or NACK. */
struct nic_answer {
	struct nic_header nic;
#ifdef CC_TELEMETRY
	struct lab_int records; /* those of the packet that it answers */
#endif
};

/* Takes them out of a packet before an answer is written over it. */
static __always_inline void load_records(struct __sk_buff *skb, struct nic_answer *answer)
{
#ifdef CC_TELEMETRY
	if (bpf_skb_load_bytes(skb, LAB_INT_AT, &answer->records, sizeof(answer->records)))
		answer->records.hops = 0;
#else
	(void)skb;
	(void)answer;
#endif
}

static __always_inline int write_answer(struct __sk_buff *skb, const uint8_t *row,
					const struct nic_answer *answer)
{
#ifdef CC_TELEMETRY
	struct nic_frame frame;

	if (skb->len != PACKET_HEAD_BYTES && bpf_skb_change_tail(skb, PACKET_HEAD_BYTES, 0))
		return -1;
	__builtin_memcpy(&frame, row, NIC_HEADER_AT);
	set_lengths(&frame, PACKET_HEAD_BYTES);
	if (bpf_skb_store_bytes(skb, 0, &frame, NIC_HEADER_AT, 0))
		return -1;
	return bpf_skb_store_bytes(skb, NIC_HEADER_AT, answer, NIC_HEADER_BYTES + LAB_INT_BYTES, 0);
#else
	return write_over(skb, row, &answer->nic);
#endif
}

#endif
