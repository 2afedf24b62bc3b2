/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * FDCC (K. Zhang, "An Investigation on Data Center Congestion Control Algorithms", MSc thesis, University of
 * Alberta, 2023, chapter 4) without its policy: what a flow observes, when it decides, and what an output
 * does to its window.
 *
 *   observations  o_1 round trip / T
 *                 o_2, o_3 of the most congested port: queue / (B_i T), bytes sent / (B_i t)
 *                 o_4 bytes acknowledged / (B t)
 *                 o_5, o_6 changes of o_1 and o_2 / (t / T)
 *                 o_7 W / (B T)
 *                 o_8 the last output
 *   decision      at the first ACK after half of the last round trip: f = 1 + o/2, or 1 / (1 - o/2) below 0
 *                 W = f W, rate = W / T, enforced window = W in whole packets, at least one
 *
 * with the output o of the policy in -1..1, the flow's base round trip T and line rate B, the port's rate
 * B_i, and the time t since the last decision. The most congested port has the largest o_2 + o_3.
 *
 * Ours, where the thesis says nothing or cannot be meant: how a policy's inputs are scaled (net.py);
 * changes are by base round trips, not by ms, so that a policy holds on networks of other scales; the W that
 * is kept has fraction bits (in whole packets, a W of one would never grow, since f < 2: preset
 * `thesis-literal`); INSRATE is the rate in force; the round trip is a probe's, as in all algorithms here,
 * and the base round trip until the first is back; records are compared as telemetry.h says. Losses say
 * nothing: the thesis' fabric has none.
 *
 * Fixed point: W Q26 of line rate x T; observations Q20 up to 1024, inputs and outputs Q16. A W of 0 is a new
 * flow.
 *
 * A header that includes this one defines CC_NAME, CC_HELP, CC_TABLE and fdcc_think().
 */
#ifndef DCGYM_FDCC_H
#define DCGYM_FDCC_H

#include "bits.h"
#include "policy.h"
#include "telemetry.h"

/* Words that a policy adds to the context, zeros for a new flow; it defines this before it includes us. */
#ifndef FDCC_MEMORY_WORDS
#define FDCC_MEMORY_WORDS 0
#endif

#define CC_EVENTS (CC_MASK(CC_TX) | CC_MASK(CC_ACK) | CC_MASK(CC_RTT))
#define CC_TELEMETRY
#define CC_FIRST_TX

/* clang-format off */
#define CC_PARAMETERS(X) \
	X(period, "Q16", 32768, 0, 1u << 20, "Zhang 2023, ch. 4: half", "time between two decisions, of the last round trip; 0: at each ACK") \
	X(window_initial, "Q26", TELEMETRY_LINE, FDCC_WINDOW_LEAST, TELEMETRY_LINE, "ours: as HPCC's flows begin", "W that a new flow begins with, of line rate x base round trip") \
	X(window_least, "Q26", FDCC_WINDOW_LEAST, FDCC_WINDOW_LEAST, TELEMETRY_LINE, "ours: the NIC's least rate", "least W; the greatest is one line rate x base round trip") \
	X(whole, "0 or 1", 0, 0, 1, "Zhang 2023, ch. 4: 1", "1: the W that is kept is rounded down to whole packets, too")

#define CC_PRESETS(X) \
	X(default, "the W that is kept has fraction bits; only the enforced one is rounded down to whole packets") \
	X(thesis-literal, "the thesis word for word: the W that is kept is rounded down to whole packets, so one of a packet never grows", CC_SET(whole, 1))
/* clang-format on */
enum { CC_PARAMETERS(CC_INDEX) };

/* The context. The inputs come first, where a training reads them (struct nic_step). */
enum fdcc_state {
	FDCC_INPUT,                                     /* of the last decision, Q16 */
	FDCC_WINDOW = FDCC_INPUT + POLICY_FDCC_INPUTS,  /* W */
	FDCC_RTT,                                       /* the newest round trip, ns; 0: none yet */
	FDCC_BEFORE,                                    /* o_1 of the last decision; 0: there was none */
	FDCC_OUTPUT,                                    /* of the last decision */
	FDCC_ACKED,                                     /* bytes acknowledged since then */
	FDCC_TELEMETRY,                                 /* the records of the last decision, and its time */
	FDCC_MEMORY = FDCC_TELEMETRY + TELEMETRY_WORDS, /* the policy's */
	FDCC_STATE_WORDS = FDCC_MEMORY + FDCC_MEMORY_WORDS,
};
#define CC_STATE_WORDS FDCC_STATE_WORDS

/* The inputs, in the order of OBSERVATIONS in net.py. */
enum fdcc_input {
	FDCC_IN_RTT,
	FDCC_IN_QUEUE,
	FDCC_IN_SWITCH_RATE,
	FDCC_IN_GOODPUT,
	FDCC_IN_RTT_CHANGE,
	FDCC_IN_QUEUE_CHANGE,
	FDCC_IN_INS_RATE,
	FDCC_IN_ACTION,
};

#define FDCC_WINDOW_LEAST (64u * CC_MIN_RATE)
#define FDCC_ONE          (1 << 16)
#define FDCC_FLOOR        (1u << 8)  /* 2^-12, Q20: added before the logarithm */
#define FDCC_CHANGE_FLOOR (1u << 16) /* 2^-4 */

/*
 * log2 of 1 to 2^32 - 1, Q16. Between powers of two log2(1 + m) = m + m (1 - m) p(m), with a cubic p; off by
 * at most 2^-15.
 */
static BITS_CALLED int64_t fdcc_log2(uint64_t n)
{
	uint32_t bits = bits_sign(-(int64_t)(n >> 16)) << 4;
	int64_t part, factor;

	bits += bits_sign(-(int64_t)(n >> (bits + 8))) << 3;
	bits += bits_sign(-(int64_t)(n >> (bits + 4))) << 2;
	bits += bits_sign(-(int64_t)(n >> (bits + 2))) << 1;
	bits += bits_sign(-(int64_t)(n >> (bits + 1)));
	part = (int64_t)((n << (31 - bits)) & 0x7fffffff) >> 15;
	factor = (-2918 * part >> 16) + 9691;
	factor = (factor * part >> 16) - 17508;
	factor = (factor * part >> 16) + 28964;
	return ((int64_t)bits << 16) + part + ((part * (FDCC_ONE - part) >> 16) * factor >> 16);
}

/* log2(o + 2^-12) / 3, at most 4 in size. */
static inline uint32_t fdcc_log_input(uint32_t observed)
{
	int64_t log = fdcc_log2((uint64_t)observed + FDCC_FLOOR) - (20 << 16);

	return (uint32_t)((log * 21845 + FDCC_ONE / 2) >> 16);
}

/* sign(o) (log2(|o| + 2^-4) + 4) / 4, for the change from `before` to `now` in `passed` / T; passed_ns: at
 * least 1. */
static BITS_CALLED uint32_t fdcc_change_input(uint32_t now, uint32_t before, uint32_t passed_ns,
					      uint32_t base_rtt_ns)
{
	uint32_t falls = bits_sign((int64_t)now - before);
	uint64_t size = (uint64_t)(now > before ? now - before : before - now) * base_rtt_ns / passed_ns;
	uint32_t input;

	if (size > TELEMETRY_MOST)
		size = TELEMETRY_MOST;
	input = (uint32_t)((fdcc_log2(size + FDCC_CHANGE_FLOOR) - (16 << 16)) >> 2);
	return (input ^ -falls) + falls;
}

/* o_2 + o_3. */
static inline uint32_t telemetry_load(const struct telemetry *port, const struct cc_flow *flow,
				      const uint32_t *parameter)
{
	(void)parameter;
	return telemetry_share(port->sent_bytes, port->mbps, port->time_ns) +
	       telemetry_share(port->queue_bytes, port->mbps, flow->base_rtt_ns);
}

/* o_1, at least 1 */
static inline uint32_t fdcc_inflation(const uint32_t *state, const struct cc_flow *flow)
{
	uint64_t inflation = ((uint64_t)state[FDCC_RTT] << 20) / (flow->base_rtt_ns ? flow->base_rtt_ns : 1);

	if (!state[FDCC_RTT])
		return TELEMETRY_ONE;
	inflation += !inflation;
	return inflation < TELEMETRY_MOST ? (uint32_t)inflation : TELEMETRY_MOST;
}

/* Fills the inputs in. 0: the records cannot be compared. */
static BITS_CALLED int fdcc_observe(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
				    const uint32_t *parameter)
{
	const uint32_t *kept = state + FDCC_TELEMETRY;
	uint32_t passed_ns = event->now_ns - kept[TELEMETRY_HEARD], inflation = fdcc_inflation(state, flow);
	uint32_t before = state[FDCC_BEFORE] ? state[FDCC_BEFORE] : inflation, load, queue, sent;
	struct telemetry port;

	if (!telemetry_busiest(kept, event, flow, parameter, &port, &load))
		return 0;
	passed_ns += !passed_ns;
	queue = telemetry_share(port.queue_bytes, port.mbps, flow->base_rtt_ns);
	sent = telemetry_share(port.sent_bytes, port.mbps, port.time_ns) >> 4;
	state[FDCC_INPUT + FDCC_IN_RTT] = fdcc_log_input(inflation);
	state[FDCC_INPUT + FDCC_IN_QUEUE] = fdcc_log_input(queue);
	state[FDCC_INPUT + FDCC_IN_SWITCH_RATE] = sent < 4 * FDCC_ONE ? sent : 4 * FDCC_ONE;
	state[FDCC_INPUT + FDCC_IN_GOODPUT] =
		fdcc_log_input(telemetry_share(state[FDCC_ACKED], telemetry_line_mbps(flow), passed_ns));
	state[FDCC_INPUT + FDCC_IN_RTT_CHANGE] =
		fdcc_change_input(inflation, before, passed_ns, flow->base_rtt_ns);
	before = telemetry_share(port.before_bytes, port.mbps, flow->base_rtt_ns);
	state[FDCC_INPUT + FDCC_IN_QUEUE_CHANGE] =
		fdcc_change_input(queue, before, passed_ns, flow->base_rtt_ns);
	state[FDCC_INPUT + FDCC_IN_INS_RATE] = fdcc_log_input(state[FDCC_WINDOW] >> 6);
	state[FDCC_INPUT + FDCC_IN_ACTION] = state[FDCC_OUTPUT];
	state[FDCC_BEFORE] = inflation;
	return 1;
}

/* Sets the policy's output, Q16 of -1..1, for the inputs in the state. */
static BITS_CALLED int fdcc_think(uint32_t *state, const uint32_t *table);

/* f, Q20: at most 1.5. */
static inline uint64_t fdcc_factor(int32_t output)
{
	uint64_t size = (uint64_t)(output < 0 ? -(int64_t)output : output);

	return output < 0 ? (1ull << 37) / ((1ull << 17) + size) : TELEMETRY_ONE + 8 * size;
}

/* Whole packets of a W, at least one: 38 + 26 bits. */
static inline uint64_t fdcc_packets(uint64_t window, const struct cc_flow *flow)
{
	uint64_t packets =
		(telemetry_bdp(flow) * window >> 32) / (flow->packet_bytes ? flow->packet_bytes : 1);

	return packets ? packets : 1;
}

/* W of whole packets, rounded up, so that as many are in it again. packets x bytes: below 2^32, or one. */
static inline uint64_t fdcc_whole(uint64_t packets, const struct cc_flow *flow)
{
	uint64_t bytes = packets * flow->packet_bytes << 32, bdp = telemetry_bdp(flow);
	uint64_t window = bytes / (bdp ? bdp : 1);

	return window + (window * bdp < bytes);
}

static inline uint32_t fdcc_limited(uint64_t window, const uint32_t *parameter)
{
	window = window > parameter[P_window_least] ? window : parameter[P_window_least];
	return (uint32_t)(window < TELEMETRY_LINE ? window : TELEMETRY_LINE);
}

static inline void fdcc_answer(uint32_t window, const struct cc_flow *flow, struct cc_result *result)
{
	uint64_t bytes = fdcc_packets(window, flow) * flow->packet_bytes;

	result->rate = cc_clamp(window >> 6);
	result->window_bytes = (uint32_t)(bytes ? bytes : 1);
}

static inline void fdcc_decide(uint32_t *state, const struct cc_flow *flow, const uint32_t *parameter,
			       const uint32_t *table, struct cc_result *result)
{
	uint64_t window;

	fdcc_think(state, table);
	window = state[FDCC_WINDOW] * fdcc_factor((int32_t)state[FDCC_OUTPUT]) + TELEMETRY_ONE / 2;
	state[FDCC_WINDOW] = fdcc_limited(window >> 20, parameter);
	if (parameter[P_whole])
		state[FDCC_WINDOW] =
			fdcc_limited(fdcc_whole(fdcc_packets(state[FDCC_WINDOW], flow), flow), parameter);
	fdcc_answer(state[FDCC_WINDOW], flow, result);
}

static inline void fdcc_start(uint32_t *state, const struct cc_flow *flow, const uint32_t *parameter,
			      struct cc_result *result)
{
	state[FDCC_WINDOW] = fdcc_limited(parameter[P_window_initial], parameter);
	fdcc_answer(state[FDCC_WINDOW], flow, result);
}

/* Half of the last round trip has passed since the last decision. */
static inline bool fdcc_due(const uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			    const uint32_t *parameter)
{
	uint32_t passed_ns = event->now_ns - state[FDCC_TELEMETRY + TELEMETRY_HEARD];
	uint64_t rtt_ns = state[FDCC_RTT] ? state[FDCC_RTT] : flow->base_rtt_ns;

	return passed_ns >= rtt_ns * parameter[P_period] >> 16;
}

static inline void fdcc_on_ack(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	uint32_t *kept = state + FDCC_TELEMETRY;
	uint32_t acked = state[FDCC_ACKED] + event->bytes;

	state[FDCC_ACKED] = acked < event->bytes ? UINT32_MAX : acked;
	if (!event->hops || (kept[TELEMETRY_HOPS] && !fdcc_due(state, event, flow, parameter)))
		return;
	if (kept[TELEMETRY_HOPS] && fdcc_observe(state, event, flow, parameter))
		fdcc_decide(state, flow, parameter, table, result);
	telemetry_keep(kept, event, true);
	state[FDCC_ACKED] = 0;
}

/* 1 ns to 2^30 ns. */
static inline uint32_t fdcc_rtt_ns(const struct cc_event *event)
{
	uint32_t rtt_ns = cc_rtt_ns(event);

	return !rtt_ns ? 1 : rtt_ns < 1u << 30 ? rtt_ns : 1u << 30;
}

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	if (!state[FDCC_WINDOW])
		fdcc_start(state, flow, parameter, result);
	if (event->type == CC_RTT)
		state[FDCC_RTT] = fdcc_rtt_ns(event);
	if (event->type == CC_ACK && table)
		fdcc_on_ack(state, event, flow, parameter, table, result);
	result->probe = true;
}

#endif
