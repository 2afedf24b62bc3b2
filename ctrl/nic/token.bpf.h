/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tokens: the right of a flow to send one packet, as a frame that goes round in its NIC's ring. A flow has
 * one token that sends at most, and one more that watches the time while the flow waits for an ACK.
 *
 * At the ring's egress a token gets its departure time and fq holds it until then; at the ring's other end
 * nic_turn looks at the flow's row and sends a packet, or sends the token round once more, or lets the flow
 * park. The token is the frame that was sent last, so that a frame of that size is at hand; three of its
 * header's fields, which DATA leaves alone, are the token's own.
 */
#ifndef DCGYM_TOKEN_BPF_H
#define DCGYM_TOKEN_BPF_H

#include "spray.bpf.h"

#define RETRIES_MOST 16 /* doublings of a timeout */

/* A token's own fields, in the place of received_ns, answered_ns and marked; host byte order. */
struct nic_token {
	uint64_t wake_ns;
	uint32_t generation;
} __attribute__((packed));
#define TOKEN_AT (NIC_HEADER_AT + 20)
_Static_assert(TOKEN_AT + sizeof(struct nic_token) == NIC_FRAME_BYTES, "token");

static __always_inline struct nic_token *token_in(struct nic_frame *frame)
{
	return (void *)frame + TOKEN_AT;
}

/* --- packets that were lost --- */

/* The packet leaves once more or is acknowledged. False: it was not trimmed. */
static __always_inline bool forget_trimmed(struct nic_sender *s, uint64_t psn)
{
	uint64_t *word = word_of(s->trimmed, psn);

	if (!(*word & bit_of(psn)))
		return false;
	*word &= ~bit_of(psn);
	s->trims--;
	return true;
}

/* Returns the first packet that was trimmed, and forgets it; there is one. */
static __noinline uint64_t take_trimmed(struct nic_sender *s)
{
	uint64_t psn = s->acked, rest = 0;

	for (int i = 0; i <= (int)WINDOW_WORDS; i++) {
		rest = *word_of(s->trimmed, psn) >> (psn & 63);
		if (rest)
			break;
		psn = (psn | 63) + 1;
	}
	psn += ones_in((rest & -rest) - 1);
	forget_trimmed(s, psn);
	return psn;
}

/* Payload of a packet and whether it is the last of its message. */
static __always_inline uint32_t payload_of(const struct nic_sender *s, uint64_t psn, uint8_t *flags)
{
	if (psn + 1 == s->total_packets) {
		*flags |= NIC_LAST;
		return s->final_bytes;
	}
	if (psn % s->message_packets + 1 == s->message_packets) {
		*flags |= NIC_LAST;
		return s->tail_bytes;
	}
	return s->payload_bytes;
}

/* Bytes of all packets before one, with headers. */
static __always_inline uint64_t bytes_before(const struct nic_sender *s, uint64_t psn)
{
	uint64_t messages = psn / s->message_packets;
	uint64_t bytes = messages * s->message_bytes + psn % s->message_packets * s->payload_bytes;

	if (psn == s->total_packets)
		bytes = s->total_bytes;
	return bytes + psn * PACKET_HEAD_BYTES;
}

/* A packet must fit into the window, and with selective repeat into the receiver's. With spaced packets
 * payload under way counts, without headers, as in HPCC's simulator (RdmaQueuePair::GetOnTheFly).
 */
static __always_inline bool window_full(const struct nic_sender *s)
{
	uint64_t bytes;

	if (settings.selective && s->next - s->acked >= NIC_WINDOW_PACKETS)
		return true;
	if (sprays())
		return !has_room(s);
	if (!s->window_bytes || s->next <= s->acked)
		return false;
	bytes = bytes_before(s, s->next) - bytes_before(s, s->acked);
	if (settings.spaced)
		bytes -= (s->next - s->acked) * PACKET_HEAD_BYTES;
	return bytes + s->flow.packet_bytes > s->window_bytes;
}

/* The flow has a packet that it may send. */
static __always_inline bool ready(const struct nic_sender *s)
{
	if (sprays() && s->trims)
		return has_room(s);
	return s->repeat < s->repeat_end || (settings.trims && s->trims) ||
	       (s->next < s->end && !window_full(s));
}

/*
 * An ACK has to be on its way for all that was sent, or nothing would wake the flow. The last packet did not
 * ask for one where more was to follow and does not: the window has shrunk, or the host took back what it had
 * posted. It goes once more, and asks. False: no need.
 */
static __always_inline bool ask_again(struct nic_sender *s)
{
	if (s->asked >= s->next || s->acked >= s->next)
		return false;
	s->repeat = s->next - 1;
	s->repeat_end = s->next;
	return true;
}

static __always_inline uint64_t backed_off(uint64_t ns, uint64_t most_ns, uint32_t retries)
{
	uint64_t wait_ns = ns << (retries < RETRIES_MOST ? retries : RETRIES_MOST);

	return wait_ns < most_ns ? wait_ns : most_ns;
}

static __always_inline void start_timer(struct nic_sender *s, uint64_t now)
{
	s->timeout_ns = now + backed_off(settings.timeout_ns, settings.timeout_max_ns, s->retries);
	if (sprays())
		s->timed = s->high;
}

/* All from `acked` on is sent again. */
static __always_inline void go_back(struct nic_sender *s)
{
	s->next = s->asked = s->acked;
	s->repeat = s->repeat_end = 0;
	s->timeout_ns = 0;
}

/* The first packet goes once more. Its answer says what the receiver lacks of the others. */
static __always_inline void ask_what_is_missing(struct nic_sender *s)
{
	s->repeat = s->acked;
	s->repeat_end = s->acked + 1;
	s->recover = s->high;
	s->timeout_ns = 0;
}

static __always_inline void time_out(struct nic_sender *s, struct nic_port *port, uint32_t flow, uint64_t now)
{
	uint32_t lost = 0;

	s->timeouts++;
	s->retries++;
	s->nack_flags |= CC_TIMEOUT;
	if (sprays()) {
		lost = declare_lost(s, s->timed, true);
		start_timer(s, now);
	} else if (settings.selective) {
		ask_what_is_missing(s);
	} else {
		go_back(s);
	}
	happen(s, port, flow, CC_NACK, lost * s->flow.packet_bytes, lost, now);
}

/* A burst that was cut short is over. */
static __always_inline void end_burst(struct nic_sender *s)
{
	if (!s->burst)
		return;
	s->burst = 0;
	s->due_ns = s->left_ns + nic_span_ns(s->left_bytes, s->byte_ns);
}

/*
 * Makes the packet, whatever it was, the flow's token, at home in the ring from `wake_ns` on. Called, for the
 * stack's sake: see at_receiver().
 */
static __noinline int become_token(struct __sk_buff *skb, struct nic_sender *s, uint32_t flow,
				   uint64_t wake_ns)
{
	struct nic_header nic = { .version = NIC_VERSION, .opcode = NIC_TOKEN, .flow = bpf_htonl(flow) };
	struct nic_token *token = (void *)&nic + TOKEN_AT - NIC_HEADER_AT;

	s->token = ++s->generation;
	s->parked = 0;
	s->wake_ns = wake_ns;
	token->wake_ns = wake_ns;
	token->generation = s->token;
	skb->mark = NIC_MARK_TOKEN;
	/* fq tells flows by it: tokens that wait must hold up no others, least of all their own successors.
	 */
	bpf_set_hash(skb, nic_tag(flow, s->token));
	return write_over(skb, s->frame, &nic);
}

/*
 * A flow that could send earlier than its token comes back, by more than a packet's time, gets a new token;
 * with spaced packets it gets one whenever it could send earlier (RdmaHw::ChangeRate).
 * One that waits in its turn at the line (wake_ns = 0) is left alone.
 */
static __always_inline bool sleeps_too_long(const struct nic_sender *s)
{
	uint64_t due_ns = s->due_ns, byte_ns = s->byte_ns;

	if (!ready(s))
		return false;
	if (s->parked)
		return true;
	if (takes_time() && s->decided_ns && s->next_rate > s->rate) {
		byte_ns = byte_ns * s->rate / s->next_rate;
		due_ns = s->left_ns + nic_span_ns(s->left_bytes, byte_ns);
		due_ns = due_ns > s->decided_ns ? due_ns : s->decided_ns;
	}
	return s->wake_ns > due_ns + (settings.spaced ? 0 : nic_span_ns(s->flow.packet_bytes, byte_ns));
}

/* The token goes round once more, until `wake_ns`. */
static __always_inline int go_round(struct nic_frame *frame, const struct nic_port *port, uint64_t wake_ns)
{
	token_in(frame)->wake_ns = wake_ns;
	return bpf_redirect(port->ring_ifindex, 0);
}

/* The place at the line that the token has is another's. */
static __always_inline void give_back(struct nic_frame *frame, const struct nic_sender *s,
				      struct nic_port *port)
{
	if (!frame->nic.reserved)
		return;
	frame->nic.reserved = 0;
	port->free_at -= line_time(port, s->flow.packet_bytes);
}

/* The flow's next packet is not due yet. */
static __always_inline int rest(struct nic_frame *frame, struct nic_sender *s, struct nic_port *port)
{
	end_burst(s);
	s->wake_ns = s->due_ns;
	return go_round(frame, port, s->due_ns);
}

/*
 * The flow has nothing that it may send: it parks. While an ACK is owed one token stays in the ring to watch
 * the time; the others are dropped. An ACK or a doorbell makes the next token that sends.
 */
static __always_inline int park(struct nic_frame *frame, struct nic_sender *s, struct nic_port *port)
{
	end_burst(s);
	s->token = 0;
	s->parked = 1;
	if (!s->timeout_ns || (s->timer && s->timer_ns <= s->timeout_ns))
		return TC_ACT_STOLEN;
	s->timer = token_in(frame)->generation;
	s->timer_ns = s->timeout_ns;
	return go_round(frame, port, s->timeout_ns);
}

/* One packet more was sent: sets when the next one may leave. */
static __always_inline void schedule(struct nic_sender *s, uint32_t bytes, uint64_t now)
{
	if (!s->burst) {
		/* A packet that is late makes the next one early, but by no more than itself. Where packets
		 * are spaced, it makes the next one no earlier (RdmaHw::UpdateNextAvail).
		 */
		bool late = settings.spaced || now > s->due_ns + nic_span_ns(bytes, s->byte_ns);

		s->left_ns = late ? now : s->due_ns;
		s->left_bytes = 0;
	}
	s->left_bytes += bytes;
	s->burst++;
	if (s->burst >= settings.burst_packets)
		end_burst(s);
}

static __always_inline bool probe_due(const struct nic_sender *s, uint64_t now)
{
	return (CC_EVENTS & CC_MASK(CC_RTT)) && s->probe_wanted && now >= s->probe_until_ns;
}

/* A copy of the token leaves. */
static __always_inline void transmit(struct __sk_buff *skb, struct nic_port *port)
{
	skb->mark = 0;
	if (bpf_clone_redirect(skb, port->wire_ifindex, 0))
		port->dropped_packets++;
	skb->mark = NIC_MARK_TOKEN;
}

/* One leaves now. Its bytes count against the flow's rate. */
static __always_inline void count_probe(struct nic_sender *s, uint64_t now)
{
	s->probe_retries = s->probe_sent_ns ? s->probe_retries + 1 : 0;
	s->probe_number++;
	s->probe_sent_ns = now;
	s->probe_until_ns =
		now + backed_off(settings.probe_timeout_ns, settings.probe_timeout_max_ns, s->probe_retries);
	s->probes++;
	s->probe_bytes += NIC_FRAME_BYTES;
	s->left_bytes += NIC_FRAME_BYTES;
	if (!s->burst)
		s->due_ns += nic_span_ns(NIC_FRAME_BYTES, s->byte_ns);
}

/* A probe follows the data, in the same packet buffer. */
static __always_inline int send_probe(struct __sk_buff *skb, struct nic_sender *s, struct nic_port *port,
				      uint64_t now)
{
	struct nic_frame *frame = resize(skb, NIC_FRAME_BYTES);

	if (!frame)
		return -1;
	count_probe(s, now);
	frame->nic.opcode = NIC_PROBE;
	frame->nic.flags = 0;
	frame->nic.psn = bpf_htonl(s->probe_number);
	frame->nic.sum = 0;
	frame->nic.sent_ns = bpf_htonl((uint32_t)now);
	count_sent(port, NIC_FRAME_BYTES, now);
	transmit(skb, port);
	return 0;
}

/* The next packet: one that the receiver lacks, or the first not yet sent. */
static __always_inline uint64_t next_packet(struct nic_sender *s, uint8_t *flags)
{
	uint64_t psn = s->next;

	if (s->repeat < s->repeat_end) {
		psn = s->repeat++;
		if (knows_lost())
			forget_trimmed(s, psn);
	} else if (knows_lost() && s->trims) {
		psn = take_trimmed(s);
	} else {
		s->next++;
	}
	if (psn < s->high) {
		*flags |= NIC_RESENT;
		s->resent_packets++;
		if (sprays())
			*word_of(s->resent, psn) |= bit_of(psn);
	} else {
		s->high = psn + 1;
	}
	return psn;
}

/*
 * An ACK is asked for by each packet that completes settings.ack_packets, and where the receiver would be
 * silent for long: nothing follows, the packet is sent again after a loss, or packets are so far apart that
 * those which share an ACK would take half of the timeout.
 */
static __always_inline bool wants_ack(const struct nic_sender *s, uint64_t psn, uint8_t flags)
{
	return s->unasked >= settings.ack_packets || s->next >= s->end || flags & NIC_LAST ||
	       (flags & NIC_RESENT && (sprays() || psn == s->acked)) || window_full(s) ||
	       nic_span_ns(s->flow.packet_bytes, s->byte_ns) * settings.ack_packets * 2 > settings.timeout_ns;
}

#ifdef CC_TELEMETRY
/* No port has written yet. */
static __always_inline int clear_records(struct __sk_buff *skb, struct nic_frame *frame)
{
	struct lab_int *records = (void *)(frame + 1);

	if ((void *)(records + 1) > (void *)(long)skb->data_end)
		return -1;
	__builtin_memset(records, 0, sizeof(*records));
	return 0;
}
#endif

/* Makes the token the flow's next packet and sends a copy: its bytes, or 0 where there was no room for it. */
static __always_inline uint32_t send_data(struct __sk_buff *skb, struct nic_frame *frame,
					  struct nic_sender *s, struct nic_port *port, uint32_t flow,
					  uint64_t now)
{
	uint8_t flags = 0;
	uint64_t psn = next_packet(s, &flags);
	uint32_t bytes = PACKET_HEAD_BYTES + payload_of(s, psn, &flags);

	if (flags & NIC_RESENT) {
		s->repeated = psn + 1;
		s->repeated_ns = now;
	}
	s->unasked++;
	if (wants_ack(s, psn, flags)) {
		flags |= NIC_ACK_REQUEST;
		s->unasked = 0;
		if (s->asked <= psn)
			s->asked = psn + 1;
		if (!s->timeout_ns || (sprays() && flags & NIC_RESENT))
			start_timer(s, now);
	}
	if (skb->len != bytes) {
		frame = resize(skb, bytes);
		if (!frame)
			return 0;
	}
#ifdef CC_TELEMETRY
	if (clear_records(skb, frame))
		return 0;
	flags |= NIC_INT;
#endif
	frame->nic.opcode = NIC_DATA;
	frame->nic.flags = flags;
	frame->nic.reserved = 0;
	frame->nic.psn = bpf_htonl((uint32_t)psn);
	frame->nic.sum = bpf_htonl(nic_tag(flow, (uint32_t)psn));
	frame->nic.sent_ns = bpf_htonl((uint32_t)now);
	if (sprays())
		frame->udp.source = port_of_entropy(s, next_entropy(s, flow));
	transmit(skb, port);
	s->sent_packets++;
	s->sent_bytes += bytes;
	return bytes;
}

#endif
