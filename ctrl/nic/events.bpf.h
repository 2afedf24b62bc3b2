/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between transport and algorithm: which events reach it, when, and when what it decides is in force.
 *
 * Events of a type are summed up in the flow's row until the algorithm is told. It is told of one type at a
 * time, and of nothing while a decision of its is under way (settings.latency_ns). Nothing here has a timer:
 * a decision comes into force, and waiting events are handed over, at the flow's next departure or event.
 *
 * With settings.in_turn a NIC has one processor. Each event takes settings.event_cost_ns of it, and
 * settings.latency_ns more if it changes something, behind all events before. The algorithm is asked when an
 * event comes, so that it is known at once how long the event takes; its answer holds when the event's turn
 * is over. An event that finds settings.event_queue others there is lost.
 */
#ifndef DCGYM_EVENTS_BPF_H
#define DCGYM_EVENTS_BPF_H

#include "frames.bpf.h"

#define PPM 1000000

#ifdef CC_TELEMETRY
#define NIC_EVENT_BYTES sizeof(struct cc_event)
#else
#define NIC_EVENT_BYTES CC_EVENT_HEAD_BYTES /* the rest is never looked at */
#endif

/* The flows' transport is uec. */
static __always_inline bool sprays(void)
{
	return settings.entropies;
}

/* Transport uec: packets that left and have neither arrived nor been lost. */
static __always_inline uint64_t under_way(const struct nic_sender *s)
{
	return s->next - s->acked - s->arrivals - s->trims;
}

static __always_inline const uint32_t *parameters(void)
{
	const uint32_t *first = (const uint32_t *)settings.parameter;

	barrier_var(first); /* or the compiler takes the zeros that stand here for their values */
	return first;
}

static __always_inline const uint32_t *the_table(void)
{
#ifdef CC_TABLE
	uint32_t zero = 0;
	const struct nic_table *found = bpf_map_lookup_elem(&table, &zero);

	return found ? found->word : NULL;
#else
	return NULL;
#endif
}

/* The flow has this rate from now on. A packet that is due was due at the old rate. */
static __always_inline void enforce(struct nic_sender *s, const struct nic_port *port, uint32_t rate,
				    uint32_t window)
{
	s->window_bytes = window;
	if (rate == s->rate)
		return;
	s->rate = rate;
	s->byte_ns = (port->byte_ns << BYTE_NS_SHIFT) / rate;
	if (!s->burst)
		s->due_ns = s->left_ns + nic_span_ns(s->left_bytes, s->byte_ns);
}

/* A packet that came or went and changed nothing is not: of those there are too many. */
static __always_inline bool worth_a_record(const struct nic_sender *s, const struct cc_event *event,
					   const struct cc_result *result)
{
	return (event->type != CC_TX && event->type != CC_ACK) || event->flags & CC_NEW_FLOW ||
	       result->rate != s->rate || result->window_bytes != s->window_bytes;
}

static __always_inline void record_state(const struct nic_sender *s, const struct nic_decision *decision)
{
	struct nic_step *step = bpf_ringbuf_reserve(&decisions, sizeof(*step), 0);

	if (!step)
		return;
	step->decision = *decision;
	for (int i = 0; i < NIC_STEP_WORDS; i++)
		step->state[i] = s->state[i];
	bpf_ringbuf_submit(step, BPF_RB_NO_WAKEUP);
}

static __always_inline void record(uint32_t flow, const struct nic_sender *s, const struct cc_event *event,
				   const struct cc_result *result, uint64_t now)
{
	struct nic_decision decision = {
		.t_ns = now,
		.flow = flow,
		.event = event->type,
		.flags = event->flags,
		.rtt_ns = event->type == CC_RTT       ? cc_rtt_ns(event)
			  : event->flags & CC_PROBING ? event->now_ns - event->sent_ns
						      : 0,
		.rate_before = s->rate,
		.rate = result->rate,
		.window_bytes = result->window_bytes,
	};

	if (settings.trace == NIC_TRACE_STATES)
		record_state(s, &decision);
	else
		bpf_ringbuf_output(&decisions, &decision, sizeof(decision), BPF_RB_NO_WAKEUP);
}

/* A packet's records wait in its flow's row until the algorithm is told. A newer packet's take their place.
 */
static __always_inline void keep_records(struct __sk_buff *skb, struct nic_sender *s)
{
#ifdef CC_TELEMETRY
	if (bpf_skb_load_bytes(skb, LAB_INT_AT, &s->int_hops, sizeof(s->int_hops)) ||
	    bpf_skb_load_bytes(skb, LAB_INT_AT + sizeof(s->int_hops), s->int_hop, sizeof(s->int_hop)))
		s->int_hops = 0;
#else
	(void)skb;
	(void)s;
#endif
}

static __always_inline void take_records(const struct nic_sender *s, struct cc_event *event)
{
#ifdef CC_TELEMETRY
	uint32_t hops = bpf_ntohs(s->int_hops);

	event->acked_psn = (uint32_t)s->acked;
	event->sent_psn = (uint32_t)s->high;
	event->hops = hops < CC_HOPS ? hops : CC_HOPS;
	for (int i = 0; i < CC_HOPS; i++)
		event->hop[i] = bpf_be64_to_cpu(s->int_hop[i]);
#else
	(void)s;
	(void)event;
#endif
}

static __always_inline void take(struct nic_sender *s, uint32_t type, uint64_t now, struct cc_event *event)
{
	struct nic_pending *pending = &s->pending[type & (NIC_PENDING_TYPES - 1)];

	event->type = type;
	event->now_ns = now;
	event->first_ns = pending->first_ns;
	event->coalesced = pending->count;
	event->bytes = pending->bytes;
	event->packets = pending->packets;
	if (!s->decisions && !s->kept)
		event->flags = CC_NEW_FLOW;
	if (type == CC_NACK) {
		event->flags |= s->nack_flags;
		s->nack_flags = 0;
	}
	/* One behind a segment of TCP leaves when that does, which may be later than now. */
	if (type == CC_TX && s->probe_sent_ns && s->probe_sent_ns < now) {
		event->flags |= CC_PROBING;
		event->sent_ns = (uint32_t)s->probe_sent_ns;
	}
	if (type == CC_RTT) {
		event->sent_ns = s->probe_times[0];
		event->received_ns = s->probe_times[1];
		event->answered_ns = s->probe_times[2];
	}
	if (type == CC_ACK)
		take_records(s, event);
	if (sprays() && (type == CC_ACK || type == CC_NACK)) {
		event->sent_ns = s->answered_sent_ns;
		event->under_way_bytes = under_way(s) * s->flow.packet_bytes;
		event->flags |= type == CC_ACK ? s->ack_flags : 0;
		s->ack_flags &= type == CC_ACK ? 0 : CC_MARKED;
	}
	pending->count = pending->bytes = pending->packets = 0;
	s->ready_types &= ~CC_MASK(type);
}

/* Answers take time: they come into force later than they are given. */
static __always_inline bool takes_time(void)
{
	return settings.latency_ns || settings.event_cost_ns;
}

/*
 * The NIC's queue has no room. Events leave it in their order, so it has none if the one that came
 * settings.event_queue places earlier is still there.
 */
static __always_inline bool queue_full(const struct nic_port *port, uint64_t now)
{
	return settings.event_queue &&
	       port->done_ns[(port->queued - settings.event_queue) & (NIC_QUEUE_MAX - 1)] > now;
}

/* Returns when an event that takes so long has been dealt with. */
static __always_inline uint64_t deal_with(struct nic_port *port, uint64_t takes_ns, uint64_t now)
{
	if (!settings.in_turn)
		return now + takes_ns;
	port->busy_until_ns = (port->busy_until_ns > now ? port->busy_until_ns : now) + takes_ns;
	if (settings.event_queue)
		port->done_ns[port->queued++ & (NIC_QUEUE_MAX - 1)] = port->busy_until_ns;
	return port->busy_until_ns;
}

/* Drops what is pending of a type: the algorithm never hears of it. */
static __always_inline void lose(struct nic_sender *s, uint32_t type)
{
	struct nic_pending *pending = &s->pending[type & (NIC_PENDING_TYPES - 1)];

	s->lost_events++;
	pending->count = pending->bytes = pending->packets = 0;
	s->ready_types &= ~CC_MASK(type);
	if (type == CC_NACK)
		s->nack_flags = 0;
}

/* Tells the algorithm of what is pending of a type. */
static __noinline int decide(struct nic_sender *s, struct nic_port *port, uint32_t flow, uint32_t type,
			     uint64_t now)
{
	uint32_t zero = 0;
	struct consultation *c = bpf_map_lookup_elem(&consultations, &zero);
	const uint32_t *words = the_table();
	struct cc_result *result;
	uint64_t takes_ns, done_ns;
	bool changed;

	if (!c)
		return 0;
	if (queue_full(port, now)) {
		lose(s, type);
		return 0;
	}
	result = &c->result;
	__builtin_memset(&c->event, 0, NIC_EVENT_BYTES);
	*result = (struct cc_result){ .rate = s->rate, .window_bytes = s->window_bytes };
	take(s, type, now, &c->event);
	cc_on_event(s->state, &c->event, &s->flow, parameters(), words, result);
	result->rate = cc_clamp(result->rate);
	if (s->inflight_bytes && (!result->window_bytes || result->window_bytes > s->inflight_bytes))
		result->window_bytes = s->inflight_bytes;
	s->decisions++;
	if (settings.trace == NIC_TRACE_ALL || (settings.trace && worth_a_record(s, &c->event, result)))
		record(flow, s, &c->event, result, now);
	/* A decision that changes nothing is not what latency stands for. */
	changed = result->rate != s->rate || result->window_bytes != s->window_bytes;
	takes_ns = settings.event_cost_ns + (changed ? settings.latency_ns : 0);
	if (!takes_ns) {
		s->probe_wanted |= result->probe;
		enforce(s, port, result->rate, result->window_bytes);
		return 0;
	}
	done_ns = deal_with(port, takes_ns, now);
	if (!changed && !result->probe)
		return 0; /* nothing is to come of it */
	s->next_rate = result->rate;
	s->next_window = result->window_bytes;
	s->next_probe = result->probe;
	s->decided_ns = done_ns;
	return 0;
}

/* Marks and losses first, then what is measured, then what is routine. */
static __always_inline uint32_t first_of(uint32_t types)
{
	return types & CC_MASK(CC_CNP)    ? CC_CNP
	       : types & CC_MASK(CC_NACK) ? CC_NACK
	       : types & CC_MASK(CC_RTT)  ? CC_RTT
	       : types & CC_MASK(CC_ACK)  ? CC_ACK
					  : CC_TX;
}

/* Brings a decision into force whose time has come, and begins the next. */
static __always_inline void settle(struct nic_sender *s, struct nic_port *port, uint32_t flow, uint64_t now)
{
	if (!takes_time() || !s->decided_ns || now < s->decided_ns)
		return;
	s->decided_ns = 0;
	s->probe_wanted |= s->next_probe;
	enforce(s, port, s->next_rate, s->next_window);
	if (s->ready_types)
		decide(s, port, flow, first_of(s->ready_types), now);
}

/* The event is one of those that settings.event_loss_ppm takes. */
static __always_inline bool lost(struct nic_sender *s, uint32_t flow)
{
	if (!settings.event_loss_ppm)
		return false;
	return (uint64_t)nic_tag(flow ^ (uint32_t)settings.seed, s->draws++) * PPM >> 32 <
	       settings.event_loss_ppm;
}

/* Enough events of a type are pending to make one for the algorithm. A flow's first packet is told of at
 * once. */
static __always_inline bool enough(const struct nic_sender *s, uint32_t type,
				   const struct nic_pending *pending)
{
	if (type == CC_TX)
		return pending->packets >= settings.burst_packets || !s->decisions;
	return type == CC_RTT || pending->count >= settings.event_coalesce;
}

/* Something has happened to a flow, which an ACK or NACK has told with its records, or no frame (NULL). */
static __always_inline void happen_by(struct __sk_buff *skb, struct nic_sender *s, struct nic_port *port,
				      uint32_t flow, uint32_t type, uint32_t bytes, uint32_t packets,
				      uint64_t now)
{
	struct nic_pending *pending = &s->pending[type & (NIC_PENDING_TYPES - 1)];

	if (!(CC_EVENTS & CC_MASK(type)))
		return;
#ifdef CC_FIRST_TX
	if (type == CC_TX && s->decisions)
		return;
#endif
	if (lost(s, flow)) {
		if (type == CC_NACK && !pending->count)
			s->nack_flags = 0; /* they were of the lost one */
		return;
	}
	if (!pending->count++ || type == CC_RTT)
		pending->first_ns = now;
	if (skb)
		keep_records(skb, s);
	pending->bytes += bytes;
	pending->packets += packets;
	if (!enough(s, type, pending))
		return;
	if (takes_time() && s->decided_ns)
		s->ready_types |= CC_MASK(type);
	else
		decide(s, port, flow, type, now);
}

static __always_inline void happen(struct nic_sender *s, struct nic_port *port, uint32_t flow, uint32_t type,
				   uint32_t bytes, uint32_t packets, uint64_t now)
{
	happen_by(NULL, s, port, flow, type, bytes, packets, now);
}

#endif
