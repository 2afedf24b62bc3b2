// SPDX-License-Identifier: GPL-2.0
/*
 * The NIC shim's data path (docs/nic.md): one object a congestion control algorithm, compiled with
 * -DCC_ALGORITHM='"algorithms/X/X.h"', to BPF or (native.c) to machine code of the lab kernel. All NICs of a
 * ground share its maps; nicd.c loads and attaches it.
 *
 *   nic_depart    ring, egress   doorbells become tokens; tokens get the time until which fq holds them
 *   nic_turn      tail, ingress  a token has come round: sends a packet of its flow
 *   nic_receive   wire, ingress  frames from the cable; all but the NIC's own pass untouched
 *   nic_cap       wire, egress   segments of capped flows of the host's TCP get their departure times; beside
 *                                RDMA, the host's frames get their turns at the line
 *   nic_test      nowhere        one event to the algorithm, for tests
 *
 * nic_test stays also for another reason: without a second caller of the algorithm, clang 19 builds rlcc-lstm
 * with a combined stack of 544 bytes, and BPF has 512.
 *
 * Written for User Mode Linux's interpreter: no kfuncs, callbacks, timers or bpf_loop. A row has one writer
 * at a time, because all of a host's NIC runs in softirqs of one CPU.
 */
#include "cc.h"

/* It is inlined, since a call passes at most five arguments. */
static inline __attribute__((always_inline)) void
cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
	    const uint32_t *parameter, const uint32_t *table, struct cc_result *result);

#include CC_ALGORITHM

#include "cap.bpf.h"

_Static_assert(CC_STATE_WORDS <= CC_STATE_WORDS_MAX, "the algorithm keeps more than the shim has room for");

static __always_inline int depart(struct __sk_buff *skb, uint64_t wake_ns)
{
	/* A time that is past would be right, too, but 0 means none. */
	bpf_skb_set_tstamp(skb, wake_ns ? wake_ns : 1, BPF_SKB_TSTAMP_DELIVERY_MONO);
	return TC_ACT_OK;
}

static __always_inline int doorbell(struct __sk_buff *skb, const struct nic_frame *frame)
{
	uint32_t flow = bpf_ntohl(frame->nic.flow);
	struct nic_sender *s = sender_of(flow);
	uint64_t now = bpf_ktime_get_ns();

	/* Nobody needs the frame. SHOT would tell the host that its buffers are full. */
	if (!s || !s->payload_bytes || !sleeps_too_long(s))
		return TC_ACT_STOLEN;
	if (become_token(skb, s, flow, now))
		return TC_ACT_SHOT;
	/* A copy goes round: the frame itself is charged to the host's socket for as long as it lives. */
	if (bpf_clone_redirect(skb, skb->ifindex, 0)) {
		s->token = 0;
		s->parked = 1;
	}
	return TC_ACT_STOLEN;
}

SEC("tc")
int nic_depart(struct __sk_buff *skb)
{
	struct nic_frame *frame = frame_of(skb);

	if (!frame)
		return TC_ACT_SHOT;
	if (skb->mark == NIC_MARK_TOKEN)
		return depart(skb, token_in(frame)->wake_ns);
	if (!for_nic(frame) || !well_formed(frame, skb->len) || frame->nic.opcode != NIC_DOORBELL)
		return TC_ACT_SHOT;
	return doorbell(skb, frame);
}

/*
 * fq keeps its times to the nanosecond. A token that comes late says that the ring stood still, since the
 * cable was paused: its place at the line has passed.
 */
static __always_inline bool in_time(struct nic_frame *frame, uint64_t needs, uint64_t now)
{
	return now <= token_in(frame)->wake_ns + (needs >> LINE_SHIFT);
}

/* Behind a pause the host's queue still has what was handed over before, and places begin after that. */
static __always_inline void start_over(struct nic_port *port, uint64_t needs, uint64_t now)
{
	uint64_t first = (now << LINE_SHIFT) + 2 * needs;

	if (port->free_at < first)
		port->free_at = first;
}

/*
 * The NIC's transmitter is one for all its flows. A packet that would find more than one other before it
 * waits for its turn here, not in the host's queue: its time at the line is reserved, the token comes back
 * for it.
 */
static __always_inline bool in_turn(struct nic_frame *frame, struct nic_port *port, uint32_t bytes,
				    uint64_t now, uint64_t *turn_ns)
{
	uint64_t needs = line_time(port, bytes);

	if (frame->nic.reserved) {
		frame->nic.reserved = 0;
		if (in_time(frame, needs, now)) {
			port->free_at -= needs; /* count_sent adds it again */
			return true;
		}
		start_over(port, needs, now);
	}
	if (port->free_at <= (now << LINE_SHIFT) + needs)
		return true;
	*turn_ns = (port->free_at - needs) >> LINE_SHIFT;
	port->free_at += needs;
	frame->nic.reserved = 1;
	return false;
}

static __always_inline bool may_send(struct nic_sender *s)
{
	return ready(s) || ask_again(s);
}

/* The token that sends has come. */
static __always_inline int turn(struct __sk_buff *skb, struct nic_frame *frame, struct nic_sender *s,
				struct nic_port *port, uint32_t flow, uint64_t now)
{
	uint64_t turn_ns;
	uint32_t bytes;

	if (s->timeout_ns && now >= s->timeout_ns)
		time_out(s, port, flow, now);
	if (now < s->due_ns || !may_send(s)) {
		give_back(frame, s, port);
		return may_send(s) ? rest(frame, s, port) : park(frame, s, port);
	}
	if (!in_turn(frame, port, s->flow.packet_bytes, now, &turn_ns)) {
		s->wake_ns = 0;
		return go_round(frame, port, turn_ns);
	}
	bytes = send_data(skb, frame, s, port, flow, now);
	if (!bytes) {
		s->token = 0;
		s->parked = 1;
		return TC_ACT_SHOT;
	}
	count_sent(port, bytes, now);
	schedule(s, bytes, now);
	happen(s, port, flow, CC_TX, bytes, 1, now);
	if (probe_due(s, now))
		send_probe(skb, s, port, now);
	frame = frame_of(skb);
	if (!frame)
		return TC_ACT_SHOT;
	frame->nic.opcode = NIC_TOKEN;
	if (!may_send(s))
		return park(frame, s, port);
	s->wake_ns = s->due_ns;
	return go_round(frame, port, s->due_ns);
}

/* The token that watches the time is back. True: time is up, and it is the one that sends now. */
static __always_inline bool time_is_up(struct nic_sender *s, struct nic_port *port, uint32_t flow,
				       uint64_t now)
{
	uint32_t generation = s->timer;

	if (now < s->timeout_ns) {
		s->timer_ns = s->timeout_ns;
		return false;
	}
	s->timer = 0;
	if (!s->timeout_ns)
		return false;
	time_out(s, port, flow, now);
	if (s->token)
		return false;
	s->token = generation;
	s->parked = 0;
	return true;
}

SEC("tc")
int nic_turn(struct __sk_buff *skb)
{
	struct nic_frame *frame = frame_of(skb);
	struct nic_sender *s;
	struct nic_port *port;
	uint64_t now;
	uint32_t flow, generation;

	if (!frame || skb->mark != NIC_MARK_TOKEN)
		return TC_ACT_SHOT;
	flow = bpf_ntohl(frame->nic.flow);
	s = sender_of(flow);
	if (!s || !s->payload_bytes)
		return TC_ACT_SHOT;
	generation = token_in(frame)->generation;
	port = port_of(s->port);
	if (!port || (generation != s->token && generation != s->timer))
		return TC_ACT_STOLEN;
	now = bpf_ktime_get_ns();
	settle(s, port, flow, now);
	if (generation == s->timer && !time_is_up(s, port, flow, now))
		return s->timer ? go_round(frame, port, s->timer_ns) : TC_ACT_STOLEN;
	return turn(skb, frame, s, port, flow, now);
}

SEC("tc")
int nic_receive(struct __sk_buff *skb)
{
	struct nic_frame *frame = frame_of(skb);
	uint64_t now;
	uint32_t flow;

	if (settings.caps) {
		const struct tcp_segment *segment = segment_of(skb);

		if (segment)
			return receive_segment(skb, segment);
	}
	if (!frame || !for_nic(frame))
		return TC_ACT_OK;
	if (!well_formed(frame, skb->len))
		return TC_ACT_SHOT;
	now = bpf_ktime_get_ns();
	flow = bpf_ntohl(frame->nic.flow);
	switch (frame->nic.opcode) {
	case NIC_DATA:
	case NIC_PROBE:
		return at_receiver(skb, frame, flow, now);
	case NIC_ACK:
	case NIC_NACK:
	case NIC_CNP:
	case NIC_ANSWER:
		return at_sender(skb, frame, flow, now);
	default:
		return TC_ACT_SHOT;
	}
}

SEC("tc")
int nic_cap(struct __sk_buff *skb)
{
	struct tcp_segment *segment;
	const uint32_t *flow;

	if (settings.beside)
		return share_line(skb);
	segment = segment_of(skb);
	flow = segment ? flow_of(segment) : NULL;
	return flow ? leave(skb, segment, *flow) : TC_ACT_OK;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct nic_test);
} test SEC(".maps");

SEC("tc")
int nic_test(struct __sk_buff *skb)
{
	uint32_t zero = 0;
	struct nic_test *t = bpf_map_lookup_elem(&test, &zero);
	const uint32_t *words = the_table();

	if (!t || bpf_skb_load_bytes(skb, 0, t, sizeof(*t)))
		return TC_ACT_SHOT;
	cc_on_event(t->state, &t->event, &t->flow, parameters(), words, &t->result);
	t->result.rate = cc_clamp(t->result.rate);
	return bpf_skb_store_bytes(skb, 0, t, sizeof(*t), 0) ? TC_ACT_SHOT : TC_ACT_OK;
}

const char LICENSE[] SEC("license") = "GPL";
