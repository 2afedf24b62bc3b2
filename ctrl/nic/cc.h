/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A NIC's congestion control: what an algorithm sees, keeps and answers.
 *
 * The cut is that of programmable RDMA NICs (DOCA PCC): one entry for every event of a flow, a rate in Q20 of
 * the line rate out, 48 bytes of context a flow, integers only. An algorithm is one header, algorithms/X/X.h,
 * that is pure: no clock, no memory of its own, no call out. So the same lines run in the data path (eBPF),
 * in userspace tests and in trainers, and decide the same.
 *
 * An algorithm's header defines, before anything else includes it:
 *   CC_NAME            a string: what specs call it
 *   CC_EVENTS          mask of the events that it wants, CC_MASK(CC_CNP) | ...; others never reach it
 *   CC_STATE_WORDS     of the context that it uses; more than CC_CONTEXT_WORDS: "does not fit ConnectX"
 *   CC_PARAMETERS(X)   X(name, unit, default, least, greatest, source, help) for each parameter, in order
 *   CC_PRESETS(X)      X(name, help, CC_SET(parameter, value) ...) sets of parameters that papers name;
 *                      CC_NIC(setting, value) among them: the NIC that goes with them. cnp_interval is
 *                      CC_NS_AT_100G; spaced is 0 or 1 (pacing of a spec's [nic])
 *   CC_HELP            optional: what it does, in a line
 *   CC_TELEMETRY       optional: packets of its flows carry records of switch ports (lab_int.h), and CC_ACK
 *                      events have those of the newest one; telemetry.h reads them
 *   CC_SPRAYED         optional: it needs what CC_ACK and CC_NACK tell over transport uec alone
 *   CC_FIRST_TX        optional: of CC_TX it wants a flow's first event alone
 *   CC_TABLE           optional: it reads a table of a policy file (policy.h says how it is laid out)
 *   cc_on_event()      the decision, below
 */
#ifndef DCGYM_CC_H
#define DCGYM_CC_H

#if defined(__bpf__) || defined(NIC_NATIVE)
#include "bpf.h" /* fixed-width types for programs that have no libc */
#else
#include <stdbool.h>
#include <stdint.h>
#endif

#include "lab_int.h"

#define CC_CONTEXT_WORDS   12
#define CC_STATE_WORDS_MAX 64 /* words that the shim keeps for algorithms that do not fit a ConnectX */
#define CC_PARAMETERS_MAX  44
#define CC_TABLE_WORDS     8192
#define CC_HOPS            LAB_INT_HOPS

/* Rates are fractions of the line rate in Q20. */
#define CC_LINE_RATE (1u << 20)
#define CC_MIN_RATE  (1u << 6) /* 2^-14 of the line */

/* Numbers of DOCA PCC's event types. */
enum cc_event_type {
	CC_NULL,
	CC_CNP = 2,  /* the receiver saw a congestion mark */
	CC_TX = 3,   /* a packet or burst of the flow has left */
	CC_ACK = 4,  /* packets were acknowledged */
	CC_NACK = 5, /* the receiver misses a packet, or none was heard of for too long (CC_TIMEOUT) */
	CC_RTT = 6,  /* a probe has come back */
};
#define CC_MASK(type) (1u << (type))

enum cc_event_flag {
	CC_NEW_FLOW = 1, /* first event of a flow: its context is all zeros */
	CC_TIMEOUT = 2,  /* CC_NACK: the transport's timer made it */
	CC_PROBING = 4,  /* CC_TX: a probe is under way, since sent_ns */
	CC_MARKED = 8,   /* transport uec, CC_ACK: the packet was marked */
	CC_TRIMMED = 16, /* transport uec, CC_NACK: a port trimmed the packet */
};

/*
 * One event, or several that the NIC has summed up. Times are the low 32 bits of a clock in ns and wrap each
 * 4.29 s: only differences mean something.
 */
struct cc_event {
	uint32_t type, flags;
	uint32_t now_ns;
	uint32_t first_ns;  /* time of the first of them; CC_RTT: of the last */
	uint32_t coalesced; /* number of events that this one stands for; at least 1 */
	uint32_t bytes;     /* CC_TX: sent, CC_ACK: acknowledged, with headers, since the event of that type
			       before; transport uec, CC_NACK: lost */
	uint32_t packets;   /* likewise */
	/*
	 * CC_RTT: a probe's way. Its round trip is (first - sent) less what the receiver's NIC took.
	 * Transport uec, CC_ACK and CC_NACK: when the packet left that was answered last, and the bytes that
	 * are under way now.
	 */
	uint32_t sent_ns;
	union {
		uint32_t received_ns, under_way_bytes;
	};
	uint32_t answered_ns;
	/*
	 * The rest is set with CC_TELEMETRY alone, and for CC_ACK. Packets have numbers, of which these are
	 * the low 32 bits: the first that is not acknowledged, the first that was never sent.
	 */
	uint32_t acked_psn, sent_psn;
	uint32_t hops, reserved;
	uint64_t hop[CC_HOPS]; /* records of the ports on the way, as lab_int.h has them, in host order */
};
#define CC_EVENT_HEAD_BYTES 40 /* without telemetry */
_Static_assert(__builtin_offsetof(struct cc_event, acked_psn) == CC_EVENT_HEAD_BYTES, "event");

/* The constants of a flow. */
struct cc_flow {
	uint32_t base_rtt_ns;  /* round trip of a probe over the idle path */
	uint32_t line_mbps;    /* rate that CC_LINE_RATE stands for, Mbit/s; at least 1 */
	uint32_t packet_bytes; /* a full frame as the cable carries it */
	uint32_t hops;         /* links from end to end */
};

/* In and out: `rate` and `window_bytes` hold what was decided last (a new flow: CC_LINE_RATE and 0). */
struct cc_result {
	uint32_t rate;         /* Q20, CC_MIN_RATE to CC_LINE_RATE; anything else is clamped */
	uint32_t window_bytes; /* most that may be unacknowledged; 0: as much as it likes */
	bool probe;            /* measure the round trip after the next packet */
};

static inline uint32_t cc_rtt_ns(const struct cc_event *event)
{
	uint32_t whole = event->first_ns - event->sent_ns;
	uint32_t inside = event->answered_ns - event->received_ns;

	return whole > inside ? whole - inside : 0;
}

static inline uint32_t cc_clamp(uint64_t rate)
{
	return rate < CC_MIN_RATE ? CC_MIN_RATE : rate > CC_LINE_RATE ? CC_LINE_RATE : (uint32_t)rate;
}

/* enum { CC_PARAMETERS(CC_INDEX) } gives each parameter's place a name: parameter[P_name]. */
#define CC_INDEX(name, unit, initial, least, greatest, source, help) P_##name,

/*
 * Units of parameters are text; one means more. A time in CC_NS_AT_100G keeps its proportion to a packet's
 * time: on a line of another rate it is multiplied by 100 Gbit/s / rate before the algorithm gets it.
 */
#define CC_NS_AT_100G "ns at 100 Gbit/s"
#define CC_LONGEST_NS (1u << 31) /* half of a turn of the events' clock */

/*
 * The table of rates, by which records count: with CC_TELEMETRY it stands behind the parameters. An entry is
 * struct cc_rate as words; one of zeros is not used.
 */
struct cc_rate {
	struct lab_int_unit unit;
	uint32_t mbps;
};
#define CC_RATE_WORDS     4
#define CC_SETTING_WORDS  (CC_PARAMETERS_MAX + LAB_INT_RATES * CC_RATE_WORDS)
#define CC_RATE_MBPS_MAX  10000000 /* 10 Tbit/s; the largest units of any rate: */
#define CC_UNIT_NS_MAX    250000
#define CC_UNIT_BYTES_MAX 51200
_Static_assert(sizeof(struct cc_rate) == CC_RATE_WORDS * sizeof(uint32_t), "rate");

/*
 * state: CC_STATE_WORDS words, zero for a new flow. parameter: by the order of CC_PARAMETERS.
 * table: the CC_TABLE_WORDS words of a policy file, NULL without CC_TABLE.
 *
 *   static inline void cc_on_event(uint32_t *state, const struct cc_event *event,
 *                                  const struct cc_flow *flow, const uint32_t *parameter,
 *                                  const uint32_t *table, struct cc_result *result);
 */
#endif
