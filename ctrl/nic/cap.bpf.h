/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flows of the host's TCP that the NIC caps: each segment gets its departure time by the flow's rate, for
 * which fq at the wire holds it. To the algorithm they are flows as any, with rows; but acknowledging,
 * repeating and windows are TCP's.
 *
 * Frames of the NIC's own for such a flow, probes and CNPs, are made of a copy of a segment: it goes out
 * through the wire with a mark, and nic_cap writes the frame over it there.
 */
#ifndef DCGYM_CAP_BPF_H
#define DCGYM_CAP_BPF_H

#include <linux/tcp.h>

#include "receive.bpf.h"

#define NIC_MARK_PROBE 0x4e4944u /* skb->mark of a copy that becomes one, inside of a host */
#define NIC_MARK_CNP   0x4e4945u
#define ECT_0          2

struct tcp_segment {
	struct ethhdr eth;
	struct iphdr ip;
	struct tcphdr tcp;
} __attribute__((packed));

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct nic_tcp);
	__type(value, uint32_t);
} capped SEC(".maps");

/* TCP over IPv4 without options; the headers of a segment are linear, its payload need not be. */
static __always_inline struct tcp_segment *segment_of(struct __sk_buff *skb)
{
	struct tcp_segment *segment = (void *)(long)skb->data;

	if ((void *)(segment + 1) > (void *)(long)skb->data_end)
		return NULL;
	if (segment->eth.h_proto != bpf_htons(ETH_P_IP) || *(const uint8_t *)&segment->ip != IP_VERSION_IHL)
		return NULL;
	return segment->ip.protocol == IPPROTO_TCP ? segment : NULL;
}

/* The segment's flow, or NULL: it goes the other way, or is nobody's. */
static __always_inline const uint32_t *flow_of(const struct tcp_segment *segment)
{
	struct nic_tcp key = {
		.src_addr = segment->ip.saddr,
		.dst_addr = segment->ip.daddr,
		.src_port = segment->tcp.source,
		.dst_port = segment->tcp.dest,
	};

	return bpf_map_lookup_elem(&capped, &key);
}

static __always_inline uint32_t payload_in(const struct tcp_segment *segment)
{
	return bpf_ntohs(segment->ip.tot_len) - sizeof(segment->ip) - segment->tcp.doff * 4;
}

/* Switches mark it from now on instead of dropping it (RFC 3168); IP's checksum follows (RFC 1624). */
static __always_inline void set_ect(struct tcp_segment *segment)
{
	uint8_t tos = segment->ip.tos;
	uint32_t sum;

	if (tos & ECN_MASK)
		return;
	segment->ip.tos = tos | ECT_0;
	sum = (uint16_t)~bpf_ntohs(segment->ip.check) + ECT_0;
	segment->ip.check = bpf_htons((uint16_t) ~((sum & 0xffff) + (sum >> 16)));
}

/* --- the sending end --- */

/* Returns the time at which the segment leaves; the flow's next one is due a gap later. */
static __always_inline uint64_t depart_at(struct nic_sender *s, uint32_t bytes, uint64_t now)
{
	s->left_ns = now > s->due_ns ? now : s->due_ns;
	s->left_bytes = bytes;
	s->due_ns = s->left_ns + nic_span_ns(bytes, s->byte_ns);
	s->sent_packets++;
	s->sent_bytes += bytes;
	return s->left_ns;
}

/* A copy leaves through the wire as what `mark` says. */
static __always_inline void copy_as(struct __sk_buff *skb, struct nic_port *port, uint32_t mark)
{
	uint32_t before = skb->mark;

	skb->mark = mark;
	if (bpf_clone_redirect(skb, port->wire_ifindex, 0))
		port->dropped_packets++;
	skb->mark = before;
}

/*
 * A segment with payload moves the flow's clock. One without waits behind those before it, so that a FIN does
 * not overtake data.
 */
static __always_inline int cap(struct __sk_buff *skb, struct tcp_segment *segment, struct nic_sender *s,
			       struct nic_port *port, uint32_t flow)
{
	uint64_t now = bpf_ktime_get_ns(), departs;
	uint32_t bytes = skb->len;

	settle(s, port, flow, now);
	if (!payload_in(segment)) {
		if (s->left_ns > now)
			bpf_skb_set_tstamp(skb, s->left_ns, BPF_SKB_TSTAMP_DELIVERY_MONO);
		return TC_ACT_OK;
	}
	if (CC_EVENTS & CC_MASK(CC_CNP))
		set_ect(segment);
	departs = depart_at(s, bytes, now);
	happen(s, port, flow, CC_TX, bytes, 1, now);
	if (probe_due(s, departs))
		copy_as(skb, port, NIC_MARK_PROBE);
	bpf_skb_set_tstamp(skb, departs, BPF_SKB_TSTAMP_DELIVERY_MONO);
	return TC_ACT_OK;
}

/* The copy becomes a probe that leaves right behind its segment. */
static __always_inline int become_probe(struct __sk_buff *skb, struct nic_sender *s, struct nic_port *port,
					uint32_t flow)
{
	uint64_t departs = s->left_ns + 1;
	struct nic_header nic = { .version = NIC_VERSION, .opcode = NIC_PROBE, .flow = bpf_htonl(flow) };

	count_probe(s, departs);
	nic.psn = bpf_htonl(s->probe_number);
	nic.sent_ns = bpf_htonl(
		(uint32_t)s->left_ns); /* the same time as for a probe behind a packet of the NIC's own */
	skb->mark = 0;
	if (write_over(skb, s->frame, &nic))
		return TC_ACT_SHOT;
	bpf_skb_set_tstamp(skb, departs, BPF_SKB_TSTAMP_DELIVERY_MONO);
	count_sent(port, NIC_FRAME_BYTES, departs);
	return TC_ACT_OK;
}

/* --- the receiving end --- */

/* The copy becomes a CNP. */
static __always_inline int become_cnp(struct __sk_buff *skb, struct nic_receiver *r, struct nic_port *port,
				      uint32_t flow, uint64_t now)
{
	struct nic_header nic = { .opcode = NIC_CNP };

	from_receiver(&nic, r, flow);
	skb->mark = 0;
	if (write_over(skb, r->cnp_frame, &nic))
		return TC_ACT_SHOT;
	count_sent(port, NIC_FRAME_BYTES, now);
	return TC_ACT_OK;
}

/* A segment has come: it is counted, and its mark told to the sender's NIC. Hosts' TCP does without ECN. */
static __always_inline int receive_segment(struct __sk_buff *skb, const struct tcp_segment *segment)
{
	uint32_t payload = payload_in(segment);
	const uint32_t *flow = flow_of(segment);
	uint64_t now = bpf_ktime_get_ns();
	struct nic_receiver *r;
	struct nic_port *port;

	if (!flow || !payload)
		return TC_ACT_OK;
	r = receiver_of(*flow);
	port = r ? port_of(r->port) : NULL;
	if (!port || port->wire_ifindex != skb->ifindex)
		return TC_ACT_OK;
	if (!r->received_packets)
		r->first_ns = now;
	r->last_ns = now;
	r->received_packets++;
	r->received_bytes += payload;
	if (cnp_due(r, segment->ip.tos, now))
		copy_as(skb, port, NIC_MARK_CNP);
	return TC_ACT_OK;
}

/* --- what leaves through the wire --- */

struct host_frame {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp; /* of TCP, too, the first bytes are its ports */
} __attribute__((packed));

/* A frame of the host's own, over TCP or UDP, will need the line. Those of the NIC are counted already. */
static __always_inline int share_line(struct __sk_buff *skb)
{
	const struct host_frame *frame = (void *)(long)skb->data;
	struct nic_tcp key = { 0 };
	const uint32_t *number;
	struct nic_port *port;

	if ((void *)(frame + 1) > (void *)(long)skb->data_end || frame->eth.h_proto != bpf_htons(ETH_P_IP) ||
	    *(const uint8_t *)&frame->ip != IP_VERSION_IHL)
		return TC_ACT_OK;
	if (frame->ip.protocol == IPPROTO_UDP && frame->udp.dest == bpf_htons(NIC_UDP_PORT))
		return TC_ACT_OK;
	key.src_addr = frame->ip.saddr;
	number = bpf_map_lookup_elem(&capped, &key);
	port = number ? port_of(*number) : NULL;
	if (!port || port->wire_ifindex != skb->ifindex)
		return TC_ACT_OK;
	let_host_pass(port, bpf_ktime_get_ns() << LINE_SHIFT);
	port->host_left += line_time(port, skb->len);
	return TC_ACT_OK;
}

static __always_inline int leave(struct __sk_buff *skb, struct tcp_segment *segment, uint32_t flow)
{
	bool answers = skb->mark == NIC_MARK_CNP;
	struct nic_receiver *r = receiver_of(flow);
	struct nic_sender *s = sender_of(flow);
	struct nic_port *port;

	if (!r || !s)
		return TC_ACT_OK;
	port = port_of(answers ? r->port : s->port);
	if (!port || port->wire_ifindex != skb->ifindex)
		return TC_ACT_OK;
	if (answers)
		return become_cnp(skb, r, port, flow, bpf_ktime_get_ns());
	if (skb->mark == NIC_MARK_PROBE)
		return become_probe(skb, s, port, flow);
	return cap(skb, segment, s, port, flow);
}

#endif
