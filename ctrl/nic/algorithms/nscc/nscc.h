/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * NSCC, the sender's congestion control of ultraethernet/uet-htsim at 40ccb05, htsim/sim/uec.cpp, whose
 * README says that it is not the standard. Places in uec.cpp are named; none of its code is here. For
 * transport uec.
 *
 *   delay = round trip of the acknowledged packet - base round trip B (the least so far; line 1389)
 *   a = line rate x B / (100 Gbit/s x 12 us) (121); target delay T = 0.75 B with trimming, B without (108)
 *   A: exponential average of delays (1402), of B / 4 where an unmarked packet had more than T
 *   ACK (updateCwndOnAck_NSCC, 1310): unmarked and below T: inc += 4 mss a bytes (T - delay) / 12 us (1208);
 *     if a whole window in a row had less than 1 us: cwnd += bytes a / 4 at once (1221)
 *     unmarked, T or more: inc += 5 mss a bytes (1202)
 *     marked, T or more, A > T, once in B: cwnd *= max(1 - 0.8 (A - T) / A, 0.5) (1240)
 *   each 8 packets, or each B: cwnd += inc / cwnd; each B also 0.15 mss a (1257)
 *   quick adapt (1145): once in B + T, if a packet was trimmed or one was delayed by more than 4 T, and less
 *     than an eighth of the largest window arrived in that time, cwnd is what arrived; then marks are ignored
 *     until as many bytes as were under way have come
 *   trimmed packet (1359): it counts as a delay of B, and cwnd -= its bytes, unless there is a quick adapt
 *   timeout (1297): cwnd -= bytes that are lost
 *   packet .. cwnd .. 1.5 line rate x B (170, 1137), which is also the first cwnd
 *
 * Ours: B and line are the flow's, for uet-htsim's of the network; loss by counting changes nothing, as
 * there. Times are absolute. Averages in Q16 ns, inc in bytes^2, a in Q16; bdp below 2^30 bytes, bytes of an
 * event below 2^26, delays below 2^31.
 */
#ifndef DCGYM_NSCC_H
#define DCGYM_NSCC_H

#include "../../bits.h"
#include "../../cc.h"

#define CC_NAME        "nscc"
#define CC_HELP        "a window by marks and delays of single packets, as uet-htsim does it, for transport uec"
#define CC_EVENTS      (CC_MASK(CC_TX) | CC_MASK(CC_ACK) | CC_MASK(CC_NACK))
#define CC_STATE_WORDS 17
#define CC_FIRST_TX
#define CC_SPRAYED

/* clang-format off */
#define CC_PARAMETERS(X) \
	X(target, "Q10 base round trips", 768, 1, 1u << 20, "uec.cpp:108 (_target_Qdelay)", "T: 0.75, for networks that trim") \
	X(reference_rtt, "ns", 12000, 1, 1u << 30, "uec.cpp:94", "the 12 us of a and of proportional increase") \
	X(header, "bytes", 74, 0, 65535, "ours; uec.cpp:28 (_hdr_size) has 64", "of a packet; the rest is mss") \
	X(fair, "count", 5, 0, 1024, "uec.cpp:125 (_fi)", "fair increase, in mss a") \
	X(proportional, "count", 4, 0, 1024, "uec.cpp:124 (_alpha)", "proportional increase, in mss a for 12 us below T") \
	X(fast, "Q16", 16384, 0, 1u << 20, "uec.cpp:130 (_fi_scale)", "fast increase, in a bytes: 0.25") \
	X(fast_below, "ns", 1000, 0, 1u << 30, "uec.cpp:1222", "delay below which packets count for fast increase") \
	X(eta, "Q16", 9830, 0, 1u << 20, "uec.cpp:126 (_eta)", "increase each round trip, in mss a: 0.15") \
	X(gamma, "Q16", 52429, 0, 65536, "uec.cpp:129 (_gamma)", "share of the excess that a cut takes: 0.8") \
	X(most_cut, "Q16", 32768, 0, 65536, "uec.cpp:1247", "most that a cut takes: 0.5") \
	X(delay_alpha, "Q16", 819, 1, 65535, "uec.cpp:132 (_delay_alpha)", "weight of a new delay in A: 0.0125") \
	X(adjust_packets, "packets", 8, 1, 65535, "uec.cpp:135 (_adjust_bytes_threshold)", "after which inc becomes part of cwnd") \
	X(qa_gate, "count", 3, 0, 30, "uec.cpp:115 (_qa_gate)", "quick adapt below 2^-qa_gate of the largest window") \
	X(qa_threshold, "count", 4, 0, 1024, "uec.cpp:119 (_qa_threshold)", "quick adapt above so many T") \
	X(window_most, "Q10", 1536, 1, 1u << 20, "uec.cpp:166 (setMaxWnd)", "largest window, in line rate x B: 1.5")

#define CC_PRESETS(X) \
	X(trim, "uet-htsim's values for networks that trim (topology.trim)") \
	X(drop, "the same for networks that do not trim: T is a base round trip (uec.cpp:110)", CC_SET(target, 1024))
/* clang-format on */

enum { CC_PARAMETERS(CC_INDEX) };

enum nscc_state {
	NSCC_CWND,        /* bytes; 0: a new flow */
	NSCC_BASE,        /* B, ns */
	NSCC_AVERAGE,     /* A, Q16 ns, two words */
	NSCC_INC = 4,     /* bytes^2, two words */
	NSCC_ARRIVED = 6, /* bytes since the last look of quick adapt, */
	NSCC_QA_FROM,     /* when that was, */
	NSCC_QA_PERIOD,   /* and how long until the next; 0: there was none */
	NSCC_SINCE,       /* bytes since inc became part of cwnd, */
	NSCC_ADJUSTED,    /* and when eta last did */
	NSCC_FAST,        /* bytes in a row with less delay than fast_below */
	NSCC_IGNORE,      /* bytes whose marks are ignored after a quick adapt, */
	NSCC_IGNORED,     /* and how many came since */
	NSCC_CUT,         /* time of the last cut */
	NSCC_FLAGS,
	NSCC_FIRST_BASE, /* the flow's, of which T and a are; ns */
};
_Static_assert(NSCC_FIRST_BASE + 1 == CC_STATE_WORDS, "NSCC's state");

enum { NSCC_TRIGGER = 1, NSCC_RISING = 2 };
enum { NSCC_IS_MARKED = 1, NSCC_IS_LOST = 2 }; /* of a packet */

#define NSCC_BYTES_MAX     (1u << 26)
#define NSCC_BDP_MAX       (1u << 30)
#define NSCC_DELAY_MAX     (1u << 31)
#define NSCC_INC_MAX       (1ull << 60)
#define NSCC_LONG_AGO_NS   (1u << 31)
#define NSCC_REFERENCE_BPS 100000u /* Mbit/s */

/* What a flow has of the parameters. */
struct nscc {
	uint64_t target_ns, a_q16, most;
	uint32_t packet, mss;
};

static inline uint64_t nscc_pair(const uint32_t *word)
{
	return (uint64_t)word[1] << 32 | word[0];
}

static inline void nscc_set_pair(uint32_t *word, uint64_t value)
{
	word[0] = (uint32_t)value;
	word[1] = (uint32_t)(value >> 32);
}

/* Of two numbers below 2^63, without a branch for the verifier to walk. */
static inline uint64_t nscc_least(uint64_t a, uint64_t b)
{
	return b + ((a - b) & -(uint64_t)bits_sign((int64_t)(a - b)));
}

static inline uint64_t nscc_most(uint64_t a, uint64_t b)
{
	return a + b - nscc_least(a, b);
}

/* line rate x round trip in bytes: 32 + 32 bits, below NSCC_BDP_MAX */
static inline uint64_t nscc_bdp(uint32_t rtt_ns, uint32_t line_mbps)
{
	return nscc_least((uint64_t)rtt_ns * line_mbps / 8000, NSCC_BDP_MAX);
}

static inline void nscc_fill(struct nscc *n, const uint32_t *state, const struct cc_flow *flow,
			     const uint32_t *parameter)
{
	uint64_t packet = nscc_most(1, nscc_least(flow->packet_bytes, 65535));
	uint64_t reference = nscc_most(1, nscc_bdp(parameter[P_reference_rtt], NSCC_REFERENCE_BPS));
	uint32_t first_ns = state[NSCC_FIRST_BASE];

	*n = (struct nscc){
		.target_ns = nscc_least((uint64_t)first_ns * parameter[P_target] >> 10, NSCC_DELAY_MAX),
		.a_q16 = (nscc_bdp(first_ns, flow->line_mbps) << 16) / reference,
		.most = nscc_most(1, nscc_least(0xffffffff, nscc_bdp(state[NSCC_BASE], flow->line_mbps) *
									    parameter[P_window_most] >>
								    10)),
		.packet = (uint32_t)packet,
		.mss = (uint32_t)(nscc_most(packet, parameter[P_header] + 1) - parameter[P_header]),
	};
}

static inline void nscc_set(uint32_t *state, const struct nscc *n, uint64_t cwnd)
{
	state[NSCC_CWND] = (uint32_t)nscc_least(nscc_most(cwnd, n->packet), n->most);
}

static inline void nscc_lower(uint32_t *state, const struct nscc *n, uint64_t bytes)
{
	nscc_set(state, n, state[NSCC_CWND] - nscc_least(state[NSCC_CWND], bytes));
}

static inline void nscc_start(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow)
{
	state[NSCC_BASE] = (uint32_t)nscc_most(flow->base_rtt_ns, 1);
	state[NSCC_FIRST_BASE] = state[NSCC_BASE];
	state[NSCC_ADJUSTED] = state[NSCC_CUT] = event->now_ns - NSCC_LONG_AGO_NS;
}

/* A round trip: B is the least. Returns the delay above it. */
static inline uint32_t nscc_measure(uint32_t *state, const struct cc_event *event)
{
	uint32_t rtt_ns = event->now_ns - event->sent_ns;

	rtt_ns = (uint32_t)nscc_most(1, nscc_least(rtt_ns, NSCC_DELAY_MAX));
	state[NSCC_BASE] = (uint32_t)nscc_least(state[NSCC_BASE], rtt_ns);
	return rtt_ns - state[NSCC_BASE];
}

/* A += alpha (delay - A): 31 + 16 + 16 bits */
static inline void nscc_average(uint32_t *state, const uint32_t *parameter, uint64_t delay_q16)
{
	uint64_t average = nscc_pair(&state[NSCC_AVERAGE]);

	average += (nscc_most(delay_q16, average) - average) * parameter[P_delay_alpha] >> 16;
	average -= (average - nscc_least(delay_q16, average)) * parameter[P_delay_alpha] >> 16;
	nscc_set_pair(&state[NSCC_AVERAGE], average);
}

/* True: the window is what has arrived, or the mark is ignored. */
static inline bool nscc_quick_adapt(uint32_t *state, const struct cc_event *event, const struct nscc *n,
				    const uint32_t *parameter, uint32_t what, uint32_t delay_ns)
{
	bool done = state[NSCC_IGNORED] < state[NSCC_IGNORE] && what & NSCC_IS_MARKED,
	     lost = what & NSCC_IS_LOST;
	bool wanted = state[NSCC_FLAGS] & NSCC_TRIGGER || lost ||
		      delay_ns > parameter[P_qa_threshold] * n->target_ns;
	uint32_t period_ns = state[NSCC_QA_PERIOD];

	if (!done && (!period_ns || event->now_ns - state[NSCC_QA_FROM] > period_ns)) {
		if (period_ns && wanted && state[NSCC_ARRIVED] < n->most >> (parameter[P_qa_gate] & 31)) {
			state[NSCC_CWND] = (uint32_t)nscc_most(state[NSCC_ARRIVED], n->packet);
			state[NSCC_IGNORE] = event->under_way_bytes + (lost ? event->bytes : 0);
			state[NSCC_IGNORED] = 0;
			state[NSCC_FLAGS] &= ~(uint32_t)NSCC_TRIGGER;
			done = true;
		}
		state[NSCC_ARRIVED] = 0;
		state[NSCC_QA_FROM] = event->now_ns;
		state[NSCC_QA_PERIOD] = (uint32_t)nscc_least(state[NSCC_BASE] + n->target_ns, NSCC_DELAY_MAX);
	}
	if (done) {
		nscc_set_pair(&state[NSCC_INC], 0);
		state[NSCC_SINCE] = 0;
	}
	return done;
}

static inline void nscc_add_inc(uint32_t *state, uint64_t more)
{
	nscc_set_pair(&state[NSCC_INC], nscc_least(nscc_pair(&state[NSCC_INC]) + more, NSCC_INC_MAX));
}

/* mss a times a count, in Q8 bytes: 16 + 29 + 10 bits less 8; at most 36, so that bytes may be multiplied */
static inline uint64_t nscc_share_q8(const struct nscc *n, uint32_t count)
{
	return nscc_least(n->mss * n->a_q16 * count >> 8, 1ull << 36);
}

/* True: the window rises at once, by a quarter of a times the bytes (26 + 29 bits, and 20 of `fast`, less
 * 16). */
static inline bool nscc_fast_increase(uint32_t *state, const struct nscc *n, const uint32_t *parameter,
				      uint64_t bytes, uint32_t delay_ns)
{
	state[NSCC_FLAGS] &= ~(uint32_t)NSCC_RISING | (delay_ns < parameter[P_fast_below] ? NSCC_RISING : 0);
	if (delay_ns >= parameter[P_fast_below]) {
		state[NSCC_FAST] = 0;
		return false;
	}
	state[NSCC_FAST] = (uint32_t)nscc_least(state[NSCC_FAST] + bytes, NSCC_BDP_MAX * 2);
	if (state[NSCC_FAST] <= state[NSCC_CWND] && !(state[NSCC_FLAGS] & NSCC_RISING))
		return false;
	state[NSCC_FLAGS] |= NSCC_RISING;
	state[NSCC_CWND] = (uint32_t)nscc_least(
		state[NSCC_CWND] + ((bytes * n->a_q16 >> 16) * parameter[P_fast] >> 16), 0xffffffff);
	return true;
}

/* Below T. Products of 63 bits: where bytes^2 have more than 32, 16 of them are left out. */
static inline void nscc_proportional(uint32_t *state, const struct nscc *n, const uint32_t *parameter,
				     uint64_t bytes, uint32_t delay_ns)
{
	uint64_t below_q16 =
		nscc_least(((n->target_ns - delay_ns) << 16) / parameter[P_reference_rtt], 1u << 30);
	uint64_t square = nscc_share_q8(n, parameter[P_proportional]) * bytes >> 8;

	if (nscc_fast_increase(state, n, parameter, bytes, delay_ns))
		return;
	if (square >> 32)
		nscc_add_inc(state, nscc_least(square >> 16, NSCC_INC_MAX / (below_q16 + 1)) * below_q16);
	else
		nscc_add_inc(state, square * below_q16 >> 16);
}

static inline void nscc_cut(uint32_t *state, const struct cc_event *event, const struct nscc *n,
			    const uint32_t *parameter)
{
	uint64_t average_q8 = nscc_pair(&state[NSCC_AVERAGE]) >> 8, target_q8 = n->target_ns << 8, cut_q16;

	state[NSCC_FLAGS] &= ~(uint32_t)NSCC_RISING;
	state[NSCC_FAST] = 0;
	if (average_q8 <= target_q8 || event->now_ns - state[NSCC_CUT] <= state[NSCC_BASE])
		return;
	cut_q16 = parameter[P_gamma] * (average_q8 - target_q8) / average_q8;
	nscc_lower(state, n, (uint64_t)state[NSCC_CWND] * nscc_least(cut_q16, parameter[P_most_cut]) >> 16);
	state[NSCC_CUT] = event->now_ns;
}

/* What has added up becomes part of the window. */
static inline void nscc_fulfill(uint32_t *state, const struct cc_event *event, const struct nscc *n,
				const uint32_t *parameter)
{
	uint32_t since_ns = event->now_ns - state[NSCC_ADJUSTED];
	uint64_t cwnd = state[NSCC_CWND] + nscc_pair(&state[NSCC_INC]) / state[NSCC_CWND];

	if (state[NSCC_SINCE] <= parameter[P_adjust_packets] * n->packet &&
	    since_ns <= state[NSCC_FIRST_BASE])
		return;
	if (since_ns >= state[NSCC_FIRST_BASE]) {
		cwnd += n->mss * n->a_q16 * parameter[P_eta] >> 32;
		state[NSCC_ADJUSTED] = event->now_ns;
	}
	nscc_set_pair(&state[NSCC_INC], 0);
	state[NSCC_SINCE] = 0;
	nscc_set(state, n, cwnd);
}

static inline uint32_t nscc_sum(uint32_t before, uint32_t bytes)
{
	return (uint32_t)nscc_least((uint64_t)before + bytes, 0xffffffff);
}

static inline void nscc_on_ack(uint32_t *state, const struct cc_event *event, const struct nscc *n,
			       const uint32_t *parameter, uint32_t delay_ns)
{
	uint32_t bytes = (uint32_t)nscc_least(event->bytes, NSCC_BYTES_MAX);
	bool marked = event->flags & CC_MARKED, late = delay_ns >= n->target_ns;

	state[NSCC_ARRIVED] = nscc_sum(state[NSCC_ARRIVED], bytes);
	state[NSCC_SINCE] = nscc_sum(state[NSCC_SINCE], bytes);
	state[NSCC_IGNORED] = nscc_sum(state[NSCC_IGNORED], bytes);
	nscc_average(state, parameter,
		     !marked && delay_ns > n->target_ns ? (uint64_t)state[NSCC_BASE] << 14
							: (uint64_t)delay_ns << 16);
	if (nscc_quick_adapt(state, event, n, parameter, marked ? NSCC_IS_MARKED : 0, delay_ns))
		return;
	if (marked && late)
		nscc_cut(state, event, n, parameter);
	else if (!marked && late)
		nscc_add_inc(state, nscc_share_q8(n, parameter[P_fair]) * bytes >> 8);
	else if (!marked)
		nscc_proportional(state, n, parameter, bytes, delay_ns);
	nscc_set(state, n, state[NSCC_CWND]);
	nscc_fulfill(state, event, n, parameter);
}

static inline void nscc_on_trimmed(uint32_t *state, const struct cc_event *event, const struct nscc *n,
				   const uint32_t *parameter)
{
	uint32_t bytes = (uint32_t)nscc_least(event->bytes, NSCC_BYTES_MAX);

	state[NSCC_IGNORED] = nscc_sum(state[NSCC_IGNORED], bytes);
	nscc_average(state, parameter, (uint64_t)state[NSCC_FIRST_BASE] << 16);
	state[NSCC_FLAGS] |= NSCC_TRIGGER;
	if (!nscc_quick_adapt(state, event, n, parameter, NSCC_IS_MARKED | NSCC_IS_LOST, 0))
		nscc_lower(state, n, bytes);
}

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	bool trimmed = event->type == CC_NACK && event->flags & CC_TRIMMED, is_new = !state[NSCC_CWND];
	uint32_t delay_ns = 0;
	struct nscc n;

	(void)table;
	if (is_new)
		nscc_start(state, event, flow);
	if (event->type == CC_ACK || trimmed)
		delay_ns = nscc_measure(state, event);
	nscc_fill(&n, state, flow, parameter);
	if (is_new)
		nscc_set(state, &n, n.most);
	if (event->type == CC_ACK)
		nscc_on_ack(state, event, &n, parameter, delay_ns);
	else if (trimmed)
		nscc_on_trimmed(state, event, &n, parameter);
	else if (event->type == CC_NACK && event->flags & CC_TIMEOUT)
		nscc_lower(state, &n, event->bytes);
	result->rate = CC_LINE_RATE;
	result->window_bytes = state[NSCC_CWND];
}

#endif
