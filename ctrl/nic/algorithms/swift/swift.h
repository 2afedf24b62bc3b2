/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Swift (Kumar et al., SIGCOMM 2020), as a NIC does it: the fabric's delay alone, measured by probes.
 *
 *   target = base + hops h + range (1/sqrt(cwnd) - 1/sqrt(fs_max)) / (1/sqrt(fs_min) - 1/sqrt(fs_max)), the
 *            last term within 0..range
 *   ACK while the last delay was below target: cwnd += ai acked / cwnd; below one packet: ai acked
 *   delay >= target, once a round trip: cwnd *= max(1 - beta (delay - target) / delay, 1 - max_mdf)
 *   NACK, once a round trip: cwnd *= 1 - max_mdf. So do timeouts, and from the fifth in a row on cwnd is the
 *   least there is.
 *
 * A window below one packet is one packet, paced to packet / (RTT / cwnd). Above, the window alone limits,
 * unless pace_gain says that packets are spread over the round trip, too. The paper's endpoint window is left
 * out: a NIC answers probes itself, so that the host's delay is not seen. Its ACKs carry no delay: the last
 * probe's stands for it.
 *
 * With rate_only there is no window: the rate is cwnd / RTT, and a probe below target adds ai, not an ACK.
 * RL-CC's authors ran a Swift of their own on NVIDIA's PCC (Fuhrer et al. 2023, footnote 1), whose results
 * are rates alone. Their code is not public: that a probe raises is our choice, raises and cuts are as above.
 * With rate_only = 2 the rate is cwnd / base round trip: cwnd alone changes it, and nothing raises a flow at
 * line rate. NVIDIA's example for PCC keeps a rate in this way.
 *
 * Sources: htsim is github.com/Broadcom/csg-htsim at 841d9e7, sim/swift.cpp, whose author calls most values
 * guesses. falcon-transport/isekai at ab3a028, isekai/host/falcon/rue/algorithm/swift.cc, is Google's and
 * says that many of its defaults come from Swift in Pony. The paper itself was not read.
 *
 * Times are those of a fabric whose base round trip is reference_rtt and scaled to the flow's own.
 * Fixed point: cwnd in Q20 packets (up to 4095), 1/sqrt in Q24 (Newton, error below 2^-20), factors in Q16.
 */
#ifndef DCGYM_SWIFT_H
#define DCGYM_SWIFT_H

#include "../../cc.h"

#define CC_NAME "swift"
#define CC_HELP                                                                                              \
	"a window that holds the delay at a target, which grows with hops and with the number of flows"
#define CC_EVENTS      (CC_MASK(CC_RTT) | CC_MASK(CC_TX) | CC_MASK(CC_ACK) | CC_MASK(CC_NACK))
#define CC_STATE_WORDS 5

#define SWIFT_MOST 0xfff00000u /* 4095 packets */

/* clang-format off */
#define CC_PARAMETERS(X) \
	X(reference_rtt, "ns", 10000, 0, 1u << 30, "RL-CC's fabric", "base round trip that times below are for; 0: take them as they are") \
	X(base_target, "ns at reference_rtt", 25000, 1, 1u << 30, "falcon-transport/isekai: swift.cc; htsim: 20 us", "target without hops and scaling") \
	X(hop, "ns at reference_rtt", 3050, 0, 1u << 30, "htsim: base / 6.55; falcon-transport/isekai: 1 us", "h: more for each link of the path") \
	X(fs_range, "ns at reference_rtt", 100000, 0, 1u << 30, "htsim: 5 x 20 us; falcon-transport/isekai: swift.cc", "most that flow scaling adds") \
	X(fs_min, "Q20 packets", 104858, 1, SWIFT_MOST, "htsim; falcon-transport/isekai: swift.cc", "cwnd at which it adds all: 0.1") \
	X(fs_max, "Q20 packets", 104857600, 1, SWIFT_MOST, "htsim; falcon-transport/isekai: 256", "cwnd at which it adds nothing: 100") \
	X(ai, "Q20 packets", 1048576, 1, 1u << 24, "htsim; falcon-transport/isekai: swift.cc", "additive increase a round trip: 1") \
	X(beta, "Q16", 52429, 0, 65536, "htsim; falcon-transport/isekai: swift.cc", "share of the excess that a cut takes: 0.8") \
	X(max_mdf, "Q16", 32768, 0, 65535, "htsim; falcon-transport/isekai: swift.cc", "most that a cut takes: 0.5") \
	X(cwnd_min, "Q20 packets", 6926, 1, SWIFT_MOST, "htsim: 10 bytes; falcon-transport/isekai: 0.01", "least window: 0.0066") \
	X(cwnd_max, "Q20 packets", 1048576000, 1, SWIFT_MOST, "htsim; falcon-transport/isekai: 256", "largest window: 1000") \
	X(cwnd_initial, "Q20 packets", 0, 0, SWIFT_MOST, "ours", "window of a new flow; 0: line rate x base round trip") \
	X(retx_reset, "count", 5, 1, 1000, "htsim", "timeouts in a row that make the window the least") \
	X(pace_gain, "Q8", 0, 0, 65536, "ours", "above one packet: rate over cwnd / RTT; 0: the line's") \
	X(rate_only, "0..2", 0, 0, 2, "RL-CC, footnote 1: on PCC", "1: no window, a rate of cwnd / RTT, and raises at probes instead of ACKs; 2: of cwnd / base RTT") \
	X(rate_initial, "Q20", CC_LINE_RATE, CC_MIN_RATE, CC_LINE_RATE, "ours", "share of cwnd_initial that a new flow starts with; with rate_only that of the line")

#define CC_PRESETS(X) \
	X(paper, "htsim's values with the base target of falcon-transport/isekai, scaled by reference_rtt") \
	X(absolute, "the same, with its times taken as they are", CC_SET(reference_rtt, 0)) \
	X(isekai, "falcon-transport/isekai's defaults, with their times taken as they are", \
	  CC_SET(reference_rtt, 0) CC_SET(hop, 1000) CC_SET(fs_max, 268435456) CC_SET(cwnd_min, 10486) \
	  CC_SET(cwnd_max, 268435456) CC_SET(retx_reset, 3)) \
	X(paced, "the same, spread over the round trip at 1.25 cwnd / RTT", CC_SET(pace_gain, 320)) \
	X(pcc, "the same as a rate alone: no window, and probes raise it; the results of NVIDIA's PCC are rates", CC_SET(rate_only, 1)) \
	X(held, "the same with a rate that stays from probe to probe: cwnd over the base round trip", CC_SET(rate_only, 2))
/* clang-format on */

enum { CC_PARAMETERS(CC_INDEX) };

enum swift_state {
	SWIFT_CWND,     /* Q20 packets; 0: a new flow */
	SWIFT_DELAY,    /* the last probe's; the base round trip before there was one */
	SWIFT_BELOW,    /* it was below target */
	SWIFT_CUT,      /* when the window was last cut */
	SWIFT_TIMEOUTS, /* in a row */
};
_Static_assert(SWIFT_TIMEOUTS + 1 == CC_STATE_WORDS, "Swift's state");

#define SWIFT_ONE       65536u /* of factors */
#define SWIFT_PACKET    (1u << 20)
#define SWIFT_DELAY_MAX (1u << 30)
#define SWIFT_HELD      2u /* rate_only: the rate does not follow the RTT */

/*
 * 1 / sqrt(x) of x > 0 in Q20, in Q24. x = m 4^(5-k) with m in 1..4; Newton on y = 1/sqrt(m), from a line
 * that is at most 16 % off: 1.5 e^2 four times is below 2^-30, so that the rounding of Q30 is what remains.
 */
static inline uint64_t swift_inverse_sqrt(uint32_t x)
{
	uint64_t m = x ? x : 1, y;
	uint32_t k = 0;

	for (uint32_t half = 8; half; half >>= 1) {
		if (m >> (32 - 2 * half))
			continue;
		m <<= 2 * half;
		k += half;
	}
	y = (1170378588ull - m / 6); /* 1.09 - m / 6 in Q30 */
	for (uint32_t i = 0; i < 4; i++)
		y = y * ((3ull << 30) - (m * (y * y >> 30) >> 30)) >> 31;
	return k < 11 ? y >> (11 - k) : y << (k - 11);
}

/* A time of the parameters for this flow: 30 + 32 bits, over at least 1. */
static inline uint64_t swift_scaled(uint64_t time_ns, const struct cc_flow *flow, const uint32_t *parameter)
{
	uint32_t reference_ns = parameter[P_reference_rtt];

	return reference_ns ? time_ns * flow->base_rtt_ns / reference_ns : time_ns;
}

/* The term of flow scaling: 30 + 32 bits. */
static inline uint32_t swift_scaling(uint32_t cwnd, const uint32_t *parameter)
{
	uint64_t here = swift_inverse_sqrt(cwnd);
	uint64_t most = swift_inverse_sqrt(parameter[P_fs_min]),
		 least = swift_inverse_sqrt(parameter[P_fs_max]);

	if (here <= least || most <= least)
		return 0;
	if (here >= most)
		return parameter[P_fs_range];
	return (uint32_t)(parameter[P_fs_range] * (here - least) / (most - least));
}

/* Sums of parameters have at most 30 + 9 bits where a path has no more than 255 links. */
static inline uint64_t swift_target(uint32_t cwnd, const struct cc_flow *flow, const uint32_t *parameter)
{
	uint64_t hops = flow->hops < 255 ? flow->hops : 255;
	uint64_t target = parameter[P_base_target] + hops * parameter[P_hop] + swift_scaling(cwnd, parameter);

	return swift_scaled(target < SWIFT_DELAY_MAX ? target : SWIFT_DELAY_MAX, flow, parameter);
}

static inline void swift_set(uint32_t *state, const uint32_t *parameter, uint64_t cwnd)
{
	if (cwnd > parameter[P_cwnd_max])
		cwnd = parameter[P_cwnd_max];
	state[SWIFT_CWND] = (uint32_t)(cwnd > parameter[P_cwnd_min] ? cwnd : parameter[P_cwnd_min]);
}

/* Line rate x base round trip: Mbit/s x ns / 8000 is bytes; at most 4096 packets, which no window has. */
static inline uint64_t swift_line(const struct cc_flow *flow)
{
	uint64_t bytes = (uint64_t)flow->line_mbps * flow->base_rtt_ns / 8000, packets;

	if (bytes >> 40)
		return 1ull << 32;
	packets = (bytes << 20) / (flow->packet_bytes ? flow->packet_bytes : 1);
	if (packets >> 32)
		return 1ull << 32;
	return packets > SWIFT_PACKET ? packets : SWIFT_PACKET;
}

static inline uint64_t swift_first(const struct cc_flow *flow, const uint32_t *parameter)
{
	return parameter[P_cwnd_initial] ? parameter[P_cwnd_initial] : swift_line(flow);
}

/* 33 + 21 bits */
static inline uint64_t swift_initial(const struct cc_flow *flow, const uint32_t *parameter)
{
	return swift_first(flow, parameter) * cc_clamp(parameter[P_rate_initial]) >> 20;
}

static inline void swift_start(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter)
{
	swift_set(state, parameter, swift_initial(flow, parameter));
	state[SWIFT_DELAY] = flow->base_rtt_ns < SWIFT_DELAY_MAX ? flow->base_rtt_ns : SWIFT_DELAY_MAX;
	state[SWIFT_BELOW] = 1;
	state[SWIFT_CUT] = event->now_ns - SWIFT_DELAY_MAX;
}

/* cwnd *= 1 - cut (Q16: 32 + 16 bits), once a round trip. */
static inline void swift_cut(uint32_t *state, const uint32_t *parameter, uint32_t now_ns, uint32_t cut)
{
	if (now_ns - state[SWIFT_CUT] < state[SWIFT_DELAY])
		return;
	state[SWIFT_CUT] = now_ns;
	swift_set(state, parameter, (uint64_t)state[SWIFT_CWND] * (SWIFT_ONE - cut) >> 16);
}

/* A probe's raise. A held rate does not pass the line's by it. */
static inline uint64_t swift_raised(const uint32_t *state, const struct cc_flow *flow,
				    const uint32_t *parameter)
{
	uint64_t before = state[SWIFT_CWND], raised = before + parameter[P_ai], line;

	if (parameter[P_rate_only] != SWIFT_HELD)
		return raised;
	line = swift_line(flow);
	return raised < line ? raised : before > line ? before : line;
}

static inline void swift_on_rtt(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
				const uint32_t *parameter)
{
	uint32_t rtt_ns = cc_rtt_ns(event);
	uint64_t target_ns = swift_target(state[SWIFT_CWND], flow, parameter), cut;

	rtt_ns = rtt_ns < 1 ? 1 : rtt_ns > SWIFT_DELAY_MAX ? SWIFT_DELAY_MAX : rtt_ns;
	state[SWIFT_DELAY] = rtt_ns;
	state[SWIFT_BELOW] = rtt_ns < target_ns;
	if (state[SWIFT_BELOW]) {
		if (parameter[P_rate_only]) /* one probe is under way at a time: about one a round trip */
			swift_set(state, parameter, swift_raised(state, flow, parameter));
		return;
	}
	cut = parameter[P_beta] * (rtt_ns - target_ns) / rtt_ns; /* 17 + 30 bits */
	swift_cut(state, parameter, event->now_ns,
		  cut < parameter[P_max_mdf] ? (uint32_t)cut : parameter[P_max_mdf]);
}

/* ai acked (25 + 16 bits) / cwnd; the quotient in Q20 again. */
static inline void swift_on_ack(uint32_t *state, const struct cc_event *event, const uint32_t *parameter)
{
	uint64_t more = (uint64_t)parameter[P_ai] * (event->packets < 65535 ? event->packets : 65535);

	if (event->packets)
		state[SWIFT_TIMEOUTS] = 0;
	if (!state[SWIFT_BELOW] || parameter[P_rate_only])
		return;
	if (state[SWIFT_CWND] >= SWIFT_PACKET)
		more = (more << 20) / state[SWIFT_CWND];
	swift_set(state, parameter, state[SWIFT_CWND] + more);
}

static inline void swift_on_loss(uint32_t *state, const struct cc_event *event, const uint32_t *parameter)
{
	if (event->flags & CC_TIMEOUT && ++state[SWIFT_TIMEOUTS] >= parameter[P_retx_reset]) {
		state[SWIFT_TIMEOUTS] = parameter[P_retx_reset]; /* so that it cannot wrap */
		swift_set(state, parameter, 0);
		return;
	}
	swift_cut(state, parameter, event->now_ns, parameter[P_max_mdf]);
}

/*
 * A window of so many packets in one round trip, in Q20 of the line. Both in Q16 bytes: 32 + 16 - 4 bits, and
 * what the line carries in a round trip: 23 + 30 bits and 10 more.
 */
static inline uint64_t swift_rate(const uint32_t *state, const struct cc_flow *flow,
				  const uint32_t *parameter)
{
	uint64_t packet_bytes = flow->packet_bytes < 65535 ? flow->packet_bytes : 65535;
	uint64_t line_mbps = flow->line_mbps < 1u << 23 ? flow->line_mbps : 1u << 23;
	uint64_t base_ns = flow->base_rtt_ns < SWIFT_DELAY_MAX ? flow->base_rtt_ns : SWIFT_DELAY_MAX;
	uint64_t rtt_ns = parameter[P_rate_only] == SWIFT_HELD ? base_ns : state[SWIFT_DELAY];
	uint64_t window = state[SWIFT_CWND] * packet_bytes >> 4;
	uint64_t line = line_mbps * rtt_ns * 1024 / 125;

	return window < line ? (window << 20) / line : CC_LINE_RATE;
}

static inline void swift_answer(const uint32_t *state, const struct cc_flow *flow, const uint32_t *parameter,
				struct cc_result *result)
{
	uint32_t cwnd = state[SWIFT_CWND];
	uint64_t window = (uint64_t)cwnd * flow->packet_bytes >> 20;

	if (window < flow->packet_bytes)
		window = flow->packet_bytes;
	result->window_bytes = window < 0xffffffff ? (uint32_t)window : 0xffffffff;
	if (parameter[P_rate_only])
		result->window_bytes = 0;
	if (cwnd >= SWIFT_PACKET && parameter[P_pace_gain])
		result->rate = cc_clamp(swift_rate(state, flow, parameter) * parameter[P_pace_gain] >> 8);
	else if (cwnd < SWIFT_PACKET || parameter[P_rate_only])
		result->rate = cc_clamp(swift_rate(state, flow, parameter));
	else
		result->rate = CC_LINE_RATE;
	result->probe = true;
}

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	(void)table;
	if (!state[SWIFT_CWND])
		swift_start(state, event, flow, parameter);
	if (event->type == CC_RTT)
		swift_on_rtt(state, event, flow, parameter);
	else if (event->type == CC_ACK)
		swift_on_ack(state, event, parameter);
	else if (event->type == CC_NACK)
		swift_on_loss(state, event, parameter);
	swift_answer(state, flow, parameter, result);
}

#endif
