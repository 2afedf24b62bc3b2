/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Handling of frames that a NIC receives from its cable: data and probes of flows that end here, answers to
 * flows that begin here. Answers are written over the packet that asked for them.
 */
#ifndef DCGYM_RECEIVE_BPF_H
#define DCGYM_RECEIVE_BPF_H

#include "token.bpf.h"

/* --- the receiving end of a flow --- */

static __always_inline bool is_here(struct nic_receiver *r, uint64_t psn)
{
	return *word_of(r->window, psn) & bit_of(psn);
}

/* `expected` has arrived. */
static __always_inline void advance(struct nic_receiver *r, uint32_t flow)
{
	r->sum -= nic_tag(flow, (uint32_t)r->expected);
	r->expected++;
}

/* Counts the messages that end before `expected`, which are whole if the tags of all packets came, each once.
 * Returns whether there are more than before. */
static __always_inline bool end_messages(struct nic_receiver *r)
{
	uint64_t messages = r->expected / r->message_packets, before = r->messages + r->broken_messages;

	if (r->expected == r->total_packets && r->expected % r->message_packets)
		messages++;
	if (!r->beyond && r->sum) {
		r->broken_messages += messages - r->messages - r->broken_messages;
		r->sum = 0;
	}
	r->messages = messages - r->broken_messages;
	return messages != before;
}

static __always_inline void count_received(struct nic_receiver *r, const struct nic_frame *frame,
					   uint32_t payload, uint64_t now)
{
	if (!r->received_packets)
		r->first_ns = now;
	r->last_ns = now;
	r->received_packets++;
	r->received_bytes += payload;
	r->sum += bpf_ntohl(frame->nic.sum);
}

/* A packet ahead of `expected` is kept if that is allowed. Its place is free, or it has come twice. */
static __always_inline bool keep(struct nic_receiver *r, uint64_t psn)
{
	if (!settings.selective || psn - r->expected >= NIC_WINDOW_PACKETS || is_here(r, psn))
		return false;
	*word_of(r->window, psn) |= bit_of(psn);
	r->beyond++;
	return true;
}

/* Goes on over what is in the window already. */
static __noinline int catch_up(struct nic_receiver *r, uint32_t flow)
{
	for (int i = 0; i < (int)NIC_WINDOW_PACKETS && r->beyond && is_here(r, r->expected); i++) {
		*word_of(r->window, r->expected) &= ~bit_of(r->expected);
		r->beyond--;
		advance(r, flow);
	}
	return 0;
}

/* Returns the first packet behind the gap at `expected`, or that itself if nothing behind it is here. */
static __noinline uint32_t gap_end(struct nic_receiver *r)
{
	uint64_t psn = r->expected + 1;

	if (!r->beyond)
		return r->expected;
	for (int i = 0; i < (int)NIC_WINDOW_PACKETS && !is_here(r, psn); i++)
		psn++;
	return psn;
}

/* Transport uec: packet `psn` and the 63 before it, one bit each, that packet's the highest. The sender knows
 * of those before `expected`. */
static __always_inline uint64_t arrived_until(struct nic_receiver *r, uint64_t psn)
{
	uint64_t first = psn - 63, shift = first & 63;
	uint64_t bits = *word_of(r->window, first) >> shift;

	return shift ? bits | *word_of(r->window, psn) << (64 - shift) : bits;
}

/* Does what data asks of the receiver. */
struct due {
	bool ack, nack, cnp, bell, trimmed;
};

static __always_inline bool nack_due(struct nic_receiver *r, uint64_t now)
{
	if (r->nacked == r->expected + 1 && now - r->last_nack_ns < settings.nack_interval_ns)
		return false;
	r->nacked = r->expected + 1;
	r->last_nack_ns = now;
	return true;
}

static __always_inline bool cnp_due(struct nic_receiver *r, uint8_t tos, uint64_t now)
{
	if ((tos & ECN_MASK) != ECN_CE)
		return false;
	r->marked_packets++;
	if (r->last_cnp_ns && now - r->last_cnp_ns < settings.cnp_interval_ns)
		return false;
	r->last_cnp_ns = now;
	return true;
}

static __always_inline bool ack_due(struct nic_receiver *r, uint8_t flags)
{
	r->since_ack++;
	return r->since_ack >= settings.ack_packets || flags & (NIC_LAST | NIC_ACK_REQUEST);
}

static __always_inline void arrive(struct nic_receiver *r, const struct nic_frame *frame, uint32_t flow,
				   uint32_t payload, uint64_t now, struct due *due)
{
	int32_t ahead = bpf_ntohl(frame->nic.psn) - (uint32_t)r->expected;
	uint8_t flags = frame->nic.flags;
	bool ended = false;

	due->cnp = cnp_due(r, frame->ip.tos, now);
	if (ahead > 0) {
		if (keep(r, r->expected + ahead))
			count_received(r, frame, payload, now);
		else
			r->dropped_packets++;
		if (sprays())
			due->ack = ack_due(r, flags);
		else
			due->nack = nack_due(r, now);
		return;
	}
	due->ack = ack_due(r, flags);
	if (ahead < 0) {
		r->dropped_packets++;
		due->nack = !sprays() && r->beyond && nack_due(r, now);
		return;
	}
	count_received(r, frame, payload, now);
	advance(r, flow);
	if (settings.selective && r->beyond) {
		catch_up(r, flow);
		due->nack = !sprays() && r->beyond && nack_due(r, now);
		due->ack = true;
		ended = end_messages(r);
	} else if (flags & NIC_LAST) {
		ended = end_messages(r);
	}
	due->bell = r->expected == r->total_packets || (ended && r->each_message);
}

/* A packet came without its payload: it is asked for at once, unless it is here already. It may have
 * overtaken those before it, so it tells of no gap.
 */
static __always_inline void arrive_trimmed(struct nic_receiver *r, const struct nic_frame *frame,
					   uint64_t now, struct due *due)
{
	int32_t ahead = bpf_ntohl(frame->nic.psn) - (uint32_t)r->expected;

	due->cnp = cnp_due(r, frame->ip.tos, now);
	r->dropped_packets++;
	due->trimmed = ahead >= 0 && !(ahead && is_here(r, r->expected + ahead));
	due->ack = !due->trimmed;
	due->nack = due->trimmed;
	if (!ahead)
		nack_due(r, now);
}

/* Tells the host of the end of a flow, or of a message: a copy of the frame under another EtherType, at the
 * ring. */
static __always_inline void ring_bell(struct __sk_buff *skb, const struct nic_port *port)
{
	uint16_t type = bpf_htons(NIC_BELL_ETHERTYPE);

	bpf_skb_store_bytes(skb, __builtin_offsetof(struct ethhdr, h_proto), &type, sizeof(type), 0);
	bpf_clone_redirect(skb, port->ring_ifindex, BPF_F_INGRESS);
}

static __always_inline void from_receiver(struct nic_header *nic, const struct nic_receiver *r, uint32_t flow)
{
	nic->version = NIC_VERSION;
	nic->flow = bpf_htonl(flow);
	nic->psn = bpf_htonl((uint32_t)r->expected);
	nic->marked = bpf_htonl((uint32_t)r->marked_packets);
}

/* An ACK or NACK of transport uec tells of the packet that it answers, by way of that packet's path. */
static __always_inline void tell_of(struct nic_header *nic, struct nic_receiver *r, uint32_t psn, bool marked)
{
	uint64_t bits = arrived_until(r, r->expected + (int32_t)(psn - (uint32_t)r->expected));

	nic->sum = bpf_htonl(psn);
	nic->received_ns = bpf_htonl((uint32_t)(bits >> 32));
	nic->answered_ns = bpf_htonl((uint32_t)bits);
	nic->flags |= NIC_SPRAYED | (marked ? NIC_MARKED : 0);
}

static __always_inline int return_entropy(struct __sk_buff *skb, uint16_t port)
{
	return bpf_skb_store_bytes(skb, __builtin_offsetof(struct nic_frame, udp.source), &port, sizeof(port),
				   0);
}

static __always_inline int receive_data(struct __sk_buff *skb, const struct nic_frame *frame,
					struct nic_receiver *r, struct nic_port *port, uint32_t flow,
					uint64_t now)
{
	struct nic_answer answer = { .nic.sent_ns = frame->nic.sent_ns };
	uint32_t payload = skb->len - PACKET_HEAD_BYTES, psn = frame->nic.psn;
	bool marked = (frame->ip.tos & ECN_MASK) == ECN_CE;
	uint16_t entropy = frame->udp.source;
	struct due due = { 0 };

	if (is_trimmed(frame, skb->len)) {
		arrive_trimmed(r, frame, now, &due);
	} else if (!payload || payload > r->payload_bytes) {
		port->dropped_packets++;
		return TC_ACT_SHOT;
	} else {
		arrive(r, frame, flow, payload, now, &due);
	}
	if (sprays()) { /* ACKs tell of marks */
		due.ack |= marked;
		due.cnp &= (CC_EVENTS & CC_MASK(CC_CNP)) != 0;
	}
	if (due.bell)
		ring_bell(skb, port);
	if (!due.ack && !due.nack && !due.cnp)
		return TC_ACT_STOLEN;
	from_receiver(&answer.nic, r, flow);
	skb->mark = 0;
	if (due.cnp) {
		if (due.ack || due.nack)
			load_records(skb, &answer);
		answer.nic.opcode = NIC_CNP;
		if (write_over(skb, r->cnp_frame, &answer.nic))
			return TC_ACT_SHOT;
		count_sent(port, NIC_FRAME_BYTES, now);
		if (!due.ack && !due.nack)
			return bpf_redirect(port->wire_ifindex, 0);
		bpf_clone_redirect(skb, port->wire_ifindex, 0);
	} else {
		load_records(skb, &answer);
	}
	answer.nic.opcode = due.nack ? NIC_NACK : NIC_ACK;
	answer.nic.flags = (INT_BYTES ? NIC_INT : 0) | (due.trimmed ? NIC_TRIMMED : 0);
	if (sprays())
		tell_of(&answer.nic, r, bpf_ntohl(psn), marked);
	else if (settings.selective)
		answer.nic.sum = due.trimmed ? psn : bpf_htonl(gap_end(r));
	r->since_ack = 0;
	if (write_answer(skb, r->frame, &answer) || (sprays() && return_entropy(skb, entropy)))
		return TC_ACT_SHOT;
	count_sent(port, PACKET_HEAD_BYTES, now);
	return bpf_redirect(port->wire_ifindex, 0);
}

/* The NIC answers at once: what the host does meanwhile is in no round trip. */
static __always_inline int answer_probe(struct __sk_buff *skb, const struct nic_frame *frame,
					struct nic_receiver *r, struct nic_port *port, uint32_t flow,
					uint64_t now)
{
	struct nic_header nic = {
		.version = NIC_VERSION,
		.opcode = NIC_ANSWER,
		.flow = bpf_htonl(flow),
		.psn = frame->nic.psn,
		.sent_ns = frame->nic.sent_ns,
		.received_ns = bpf_htonl((uint32_t)now),
		.answered_ns = bpf_htonl((uint32_t)now),
		.marked = bpf_htonl((uint32_t)r->received_packets),
	};

	skb->mark = 0;
	if (write_over(skb, r->frame, &nic))
		return TC_ACT_SHOT;
	count_sent(port, NIC_FRAME_BYTES, now);
	return bpf_redirect(port->wire_ifindex, 0);
}

/* Called, so that what it keeps on the stack is none of the sender's, which has an algorithm to call. */
static __noinline int at_receiver(struct __sk_buff *skb, const struct nic_frame *frame, uint32_t flow,
				  uint64_t now)
{
	struct nic_receiver *r = receiver_of(flow);
	struct nic_port *port;

	if (!r || !r->payload_bytes || !from_peer(frame, r->frame))
		return TC_ACT_SHOT;
	port = port_of(r->port);
	if (!port || port->wire_ifindex != skb->ifindex)
		return TC_ACT_SHOT;
	if (frame->nic.opcode == NIC_DATA)
		return receive_data(skb, frame, r, port, flow, now);
	return answer_probe(skb, frame, r, port, flow, now);
}

/* --- the sending end --- */

/* All before `psn` have arrived. False: it makes no sense, or comes late. */
static __always_inline bool acknowledged(struct __sk_buff *skb, struct nic_sender *s, struct nic_port *port,
					 uint32_t flow, uint32_t psn, uint64_t now)
{
	uint32_t packets = psn - (uint32_t)s->acked;
	uint64_t before = s->acked;

	if (packets > s->high - before)
		return false;
	if (!packets)
		return true;
	s->acked += packets;
	if (s->next < s->acked)
		s->next = s->acked;
	if (s->repeat < s->acked)
		s->repeat = s->acked < s->repeat_end ? s->acked : s->repeat_end;
	if (settings.trims && s->trims)
		s->trims -= clear_bits(s->trimmed, before, s->acked);
	s->retries = 0;
	s->timeout_ns = 0;
	if (s->acked < s->asked)
		start_timer(s, now);
	happen_by(skb, s, port, flow, CC_ACK, bytes_before(s, s->acked) - bytes_before(s, before), packets,
		  now);
	return true;
}

/* An answer tells of all that was sent before the packet that it answers, and of nothing later. */
static __always_inline bool tells_of_repeated(const struct nic_sender *s, uint32_t sent_ns)
{
	return (int32_t)(sent_ns - (uint32_t)s->repeated_ns) >= 0;
}

/*
 * The receiver lacks so many packets from `acked` on. Those that left once more since the packet that told of
 * it are on their way.
 */
static __always_inline void repeat_missing(struct nic_sender *s, uint64_t missing, uint32_t sent_ns)
{
	uint64_t from = s->acked, end = from + missing;

	if (end > s->high)
		return;
	if (s->repeated > from && !tells_of_repeated(s, sent_ns))
		from = s->repeated;
	if (from >= end || (s->repeat < s->repeat_end && end <= s->repeat))
		return;
	s->repeat = from;
	s->repeat_end = end;
}

static __always_inline void missed(struct nic_sender *s, struct nic_port *port, uint32_t flow,
				   uint32_t missing, uint32_t sent_ns, uint64_t now)
{
	s->nacks++;
	if (settings.selective)
		repeat_missing(s, missing, sent_ns);
	else
		go_back(s);
	happen(s, port, flow, CC_NACK, 0, 0, now);
}

/* The packet came without its payload and goes once more. The path works, so the timer begins anew. */
static __always_inline void was_trimmed(struct nic_sender *s, struct nic_port *port, uint32_t flow,
					uint32_t psn, uint64_t now)
{
	uint64_t trimmed = s->acked + (uint32_t)(psn - (uint32_t)s->acked);
	uint64_t known = *word_of(s->trimmed, trimmed);

	s->nacks++;
	if (sprays()) {
		known |= *word_of(s->arrived, trimmed);
		s->nack_flags |= CC_TRIMMED;
	}
	if (trimmed < s->high && !(known & bit_of(trimmed))) {
		*word_of(s->trimmed, trimmed) |= bit_of(trimmed);
		s->trims++;
		if (s->timeout_ns)
			start_timer(s, now);
	}
	happen(s, port, flow, CC_NACK, sprays() ? s->flow.packet_bytes : 0, sprays(), now);
}

/* An ACK or NACK of transport uec. Returns how many packets have arrived of which nothing was known. */
static __noinline uint32_t take_answer(struct nic_sender *s, const struct nic_frame *frame, uint64_t now)
{
	uint64_t bits = (uint64_t)bpf_ntohl(frame->nic.received_ns) << 32 | bpf_ntohl(frame->nic.answered_ns);
	uint64_t before = s->acked;
	uint32_t fresh = take_acked(s, bpf_ntohl(frame->nic.psn));

	fresh += take_arrivals(s, bpf_ntohl(frame->nic.sum), bits);
	learn(s, frame);
	s->answered_sent_ns = bpf_ntohl(frame->nic.sent_ns);
	if (frame->nic.flags & NIC_MARKED)
		s->ack_flags = CC_MARKED;
	if (s->acked == before)
		return fresh;
	s->retries = 0;
	s->timeout_ns = 0;
	if (s->acked < s->asked)
		start_timer(s, now);
	return fresh;
}

static __always_inline void hear_of_sprayed(struct nic_sender *s, struct nic_port *port, uint32_t flow,
					    const struct nic_frame *frame, uint64_t now)
{
	uint32_t fresh = take_answer(s, frame, now), lost;

	if (frame->nic.flags & NIC_TRIMMED) {
		was_trimmed(s, port, flow, bpf_ntohl(frame->nic.sum), now);
		return;
	}
	happen(s, port, flow, CC_ACK, fresh * s->flow.packet_bytes, fresh, now);
	lost = count_lost(s);
	if (lost)
		happen(s, port, flow, CC_NACK, lost * s->flow.packet_bytes, lost, now);
}

static __always_inline void answered(struct nic_sender *s, struct nic_port *port, uint32_t flow,
				     const struct nic_frame *frame, uint64_t now)
{
	uint32_t rtt_ns;

	if (!s->probe_sent_ns || bpf_ntohl(frame->nic.psn) != s->probe_number)
		return;
	s->probe_times[0] = bpf_ntohl(frame->nic.sent_ns);
	s->probe_times[1] = bpf_ntohl(frame->nic.received_ns);
	s->probe_times[2] = bpf_ntohl(frame->nic.answered_ns);
	rtt_ns = (uint32_t)now - s->probe_times[0] - (s->probe_times[2] - s->probe_times[1]);
	s->rtt_ns = rtt_ns;
	if (!s->least_rtt_ns || rtt_ns < s->least_rtt_ns)
		s->least_rtt_ns = rtt_ns;
	s->rtts++;
	s->probe_sent_ns = s->probe_until_ns = 0;
	s->probe_wanted = 0;
	happen(s, port, flow, CC_RTT, 0, 0, now);
}

static __always_inline void hear(struct __sk_buff *skb, struct nic_sender *s, struct nic_port *port,
				 uint32_t flow, const struct nic_frame *frame, uint64_t now)
{
	uint8_t opcode = frame->nic.opcode;
	uint32_t psn = bpf_ntohl(frame->nic.psn);

	if (opcode == NIC_ANSWER) {
		answered(s, port, flow, frame, now);
	} else if (opcode == NIC_CNP) {
		s->cnps++;
		happen(s, port, flow, CC_CNP, 0, 0, now);
	} else if (sprays()) {
		hear_of_sprayed(s, port, flow, frame, now);
	} else {
		uint32_t missing = bpf_ntohl(frame->nic.sum) - psn, sent_ns = bpf_ntohl(frame->nic.sent_ns);
		bool trimmed = settings.trims && frame->nic.flags & NIC_TRIMMED;

		if ((!acknowledged(skb, s, port, flow, psn, now) && !trimmed) || s->acked >= s->high)
			return;
		if (trimmed)
			was_trimmed(s, port, flow, psn + missing, now);
		else if (opcode == NIC_NACK)
			missed(s, port, flow, missing, sent_ns, now);
		else if (s->acked < s->recover && tells_of_repeated(s, sent_ns))
			repeat_missing(s, missing ? missing : s->recover - s->acked, sent_ns);
	}
}

static __always_inline int at_sender(struct __sk_buff *skb, const struct nic_frame *frame, uint32_t flow,
				     uint64_t now)
{
	struct nic_sender *s = sender_of(flow);
	struct nic_port *port;

	if (!s || !s->payload_bytes || !from_peer(frame, s->frame))
		return TC_ACT_SHOT;
	port = port_of(s->port);
	if (!port || port->wire_ifindex != skb->ifindex)
		return TC_ACT_SHOT;
	settle(s, port, flow, now);
	hear(skb, s, port, flow, frame, now);
	if (!sleeps_too_long(s))
		return TC_ACT_STOLEN;
	if (become_token(skb, s, flow, now))
		return TC_ACT_SHOT;
	return bpf_redirect(port->ring_ifindex, 0);
}

#endif
