/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What two records of one switch port say: how long lay between the packets that brought them, what the port
 * sent meanwhile, and how long its queue was at each. For algorithms with CC_TELEMETRY.
 *
 * Fields of records wrap (lab_int.h): their time after 2^24 units, 16.8 ms at 25 Gbit/s and above, in which
 * no line sends the 2^20 units after which bytes wrap. Records that lie half a turn apart by the NIC's clock
 * are not compared.
 */
#ifndef DCGYM_TELEMETRY_H
#define DCGYM_TELEMETRY_H

#include "cc.h"

#define TELEMETRY_ONE   (1u << 20)    /* shares of a line, and multiples of them, are Q20 */
#define TELEMETRY_MOST  (1u << 30)    /* and end here: 1024 */
#define TELEMETRY_WORDS (2 * CC_HOPS) /* what a flow's context needs to keep records */
#define TELEMETRY_TURN  (1u << 24)    /* units of time */

/* Sizes: time_ns below 2^42, sent_bytes 2^36, the queues 2^33; time_ns x mbps below 2^48. */
struct telemetry {
	uint64_t time_ns, sent_bytes, queue_bytes, before_bytes; /* before: the queue at the older record */
	uint32_t mbps;
};

static inline uint32_t telemetry_field(uint64_t record, uint32_t shift, uint32_t mask)
{
	return (uint32_t)(record >> shift) & mask;
}

/*
 * apart_ns: the time between the ACKs that brought them. False: too long, or they are of different lines,
 * which means that the path has changed.
 */
static inline bool telemetry_between(uint64_t newer, uint64_t older, uint32_t apart_ns,
				     const uint32_t *parameter, struct telemetry *found)
{
	uint32_t place = (uint32_t)(newer >> LAB_INT_RATE_SHIFT);
	const uint32_t *rate = parameter + CC_PARAMETERS_MAX + place * CC_RATE_WORDS;
	uint32_t time = (telemetry_field(newer, LAB_INT_TIME_SHIFT, LAB_INT_TIME_MASK) -
			 telemetry_field(older, LAB_INT_TIME_SHIFT, LAB_INT_TIME_MASK)) &
			LAB_INT_TIME_MASK;
	uint32_t sent = (telemetry_field(newer, LAB_INT_SENT_SHIFT, LAB_INT_SENT_MASK) -
			 telemetry_field(older, LAB_INT_SENT_SHIFT, LAB_INT_SENT_MASK)) &
			LAB_INT_SENT_MASK;

	found->time_ns = (uint64_t)time * rate[0];
	found->sent_bytes = (uint64_t)sent * rate[1];
	found->queue_bytes = (newer & LAB_INT_QUEUE_MASK) * rate[2];
	found->before_bytes = (older & LAB_INT_QUEUE_MASK) * rate[2];
	found->mbps = rate[3];
	return place == (uint32_t)(older >> LAB_INT_RATE_SHIFT) && rate[3] &&
	       apart_ns < (uint64_t)rate[0] * (TELEMETRY_TURN / 2);
}

/*
 * Bytes over what a line sends in a time, which is Mbit/s x ns / 8000 bytes; Q20. `bytes` below 2^37 (8000
 * has 13 bits, and 13 of the 20 make 63), Mbit/s x ns below 2^56.
 */
static inline uint32_t telemetry_share(uint64_t bytes, uint32_t mbps, uint64_t ns)
{
	uint64_t line = mbps * ns >> 7, share;

	share = (bytes * 8000 << 13) / (line ? line : 1);
	return share < TELEMETRY_MOST ? (uint32_t)share : TELEMETRY_MOST;
}

/* A moving mean whose newest value has the weight tau / T (tau at most T): 30 + 32 bits, twice. */
static inline uint32_t telemetry_mean(uint32_t mean, uint32_t newest, uint64_t tau_ns, uint32_t base_ns)
{
	uint64_t tau = tau_ns < base_ns ? tau_ns : base_ns;

	return (uint32_t)(((uint64_t)mean * (base_ns - tau) + newest * tau) / (base_ns ? base_ns : 1));
}

static inline uint64_t telemetry_kept(const uint32_t *words, uint32_t hop)
{
	return words[2 * hop] | (uint64_t)words[2 * hop + 1] << 32;
}

static inline void telemetry_keep(uint32_t *words, const struct cc_event *event)
{
	for (uint32_t i = 0; i < CC_HOPS; i++) {
		words[2 * i] = (uint32_t)event->hop[i];
		words[2 * i + 1] = (uint32_t)(event->hop[i] >> 32);
	}
}

/* Packet numbers wrap: a is behind b. */
static inline bool telemetry_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/*
 * Windows are shares of the line rate x base round trip in Q26 (finer than rates, so that small steps add
 * up), which are rates as well: W / T. A packet may leave while less than the window is under way, as in the
 * algorithms' simulators: the NIC counts what is under way with that packet.
 */
#define TELEMETRY_LINE     (64u * CC_LINE_RATE)
#define TELEMETRY_BDP_MOST ((1ull << 38) - 1)

static inline void telemetry_answer(uint64_t window, const struct cc_flow *flow, struct cc_result *result)
{
	uint64_t line_mbps = flow->line_mbps < CC_RATE_MBPS_MAX ? flow->line_mbps : CC_RATE_MBPS_MAX;
	uint64_t bdp = line_mbps * flow->base_rtt_ns / 125; /* Q6 bytes, of 24 + 32 bits */
	uint64_t bytes;

	if (bdp > TELEMETRY_BDP_MOST)
		bdp = TELEMETRY_BDP_MOST;
	bytes = (bdp * window >> 32) + flow->packet_bytes; /* 38 + 26 bits */
	bytes -= bytes > 1;
	result->rate = cc_clamp(window >> 6);
	result->window_bytes = bytes < UINT32_MAX ? (uint32_t)(bytes ? bytes : 1) : UINT32_MAX;
}

#endif
