/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The difference of two records of one switch port: the time between the packets that brought them, the bytes
 * that the port sent meanwhile, and its queue at each. Algorithms with CC_TELEMETRY use it.
 *
 * Fields of records wrap (lab_int.h): their time after 2^24 units, 16.8 ms at 25 Gbit/s and above, in which
 * no line sends the 2^20 units after which bytes wrap. Records that lie half a turn apart by the NIC's clock
 * are not compared.
 */
#ifndef DCGYM_TELEMETRY_H
#define DCGYM_TELEMETRY_H

#include "cc.h"

#define TELEMETRY_ONE  (1u << 20) /* shares of a line, and multiples of them, are Q20 */
#define TELEMETRY_MOST (1u << 30) /* and end here: 1024 */
#define TELEMETRY_TURN (1u << 24) /* units of time */

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

/*
 * Windows are shares of the line rate x base round trip in Q26 (finer than rates, so that small steps add
 * up), which are rates as well: W / T. A packet may leave while less than the window is under way, as in the
 * algorithms' simulators: the NIC counts what is under way with that packet.
 */
#define TELEMETRY_LINE     (64u * CC_LINE_RATE)
#define TELEMETRY_BDP_MOST ((1ull << 38) - 1)

static inline uint32_t telemetry_line_mbps(const struct cc_flow *flow)
{
	return flow->line_mbps < CC_RATE_MBPS_MAX ? flow->line_mbps : CC_RATE_MBPS_MAX;
}

/* Line rate x base round trip, Q6 bytes, of 24 + 32 bits. */
static inline uint64_t telemetry_bdp(const struct cc_flow *flow)
{
	uint64_t bdp = (uint64_t)telemetry_line_mbps(flow) * flow->base_rtt_ns / 125;

	return bdp < TELEMETRY_BDP_MOST ? bdp : TELEMETRY_BDP_MOST;
}

static inline void telemetry_answer(uint64_t window, const struct cc_flow *flow, struct cc_result *result)
{
	uint64_t bytes = (telemetry_bdp(flow) * window >> 32) + flow->packet_bytes; /* 38 + 26 bits */

	bytes -= bytes > 1;
	result->rate = cc_clamp(window >> 6);
	result->window_bytes = bytes < UINT32_MAX ? (uint32_t)(bytes ? bytes : 1) : UINT32_MAX;
}

/* The words of a flow's context for telemetry: the records of the ACK before, and a mean of loads. */
enum telemetry_word {
	TELEMETRY_MEAN,
	TELEMETRY_UPDATED, /* the first packet that was not sent when the algorithm last took its step */
	TELEMETRY_HEARD,   /* time at which the records came */
	TELEMETRY_HOPS,    /* number of records */
	TELEMETRY_RECORDS,
	TELEMETRY_WORDS = TELEMETRY_RECORDS + 2 * CC_HOPS,
};

/* A port's load, Q20; the algorithm's header defines it. */
static inline uint32_t telemetry_load(const struct telemetry *port, const struct cc_flow *flow,
				      const uint32_t *parameter);

/*
 * The newest records against those before: the busiest port of the path, the first one of the largest load.
 * False: there is nothing to compare.
 */
static inline bool telemetry_busiest(const uint32_t *kept, const struct cc_event *event,
				     const struct cc_flow *flow, const uint32_t *parameter,
				     struct telemetry *busiest, uint32_t *load)
{
	const uint32_t *records = kept + TELEMETRY_RECORDS;
	uint32_t apart_ns = event->now_ns - kept[TELEMETRY_HEARD];

	if (kept[TELEMETRY_HOPS] != event->hops)
		return false;
	*busiest = (struct telemetry){ 0 };
	*load = 0;
	for (uint32_t i = 0; i < CC_HOPS; i++) {
		struct telemetry port;
		uint32_t here;

		if (i >= event->hops)
			break;
		if (!telemetry_between(event->hop[i], records[2 * i] | (uint64_t)records[2 * i + 1] << 32,
				       apart_ns, parameter, &port))
			return false;
		here = telemetry_load(&port, flow, parameter);
		if (!i || here > *load)
			*busiest = port;
		*load = here > *load ? here : *load;
	}
	return true;
}

/* The largest load goes into the mean, with its time as its weight. False: there is nothing to compare. */
static inline bool telemetry_measure(uint32_t *kept, const struct cc_event *event, const struct cc_flow *flow,
				     const uint32_t *parameter)
{
	struct telemetry busiest;
	uint32_t load;

	if (!telemetry_busiest(kept, event, flow, parameter, &busiest, &load))
		return false;
	load = load < TELEMETRY_MOST ? load : TELEMETRY_MOST;
	kept[TELEMETRY_MEAN] = telemetry_mean(kept[TELEMETRY_MEAN], load, busiest.time_ns, flow->base_rtt_ns);
	return true;
}

/* Packet numbers wrap: a is behind b. */
static inline bool telemetry_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/*
 * A round trip has passed since the algorithm took its step: a packet is acknowledged that was sent after it.
 * So it is with a queue pair's next flow, whose packets have other numbers.
 */
static inline bool telemetry_due(const uint32_t *kept, const struct cc_event *event)
{
	return telemetry_after(event->acked_psn, kept[TELEMETRY_UPDATED]) ||
	       telemetry_after(kept[TELEMETRY_UPDATED], event->sent_psn);
}

/* The ACK is dealt with: its records are the ones before. */
static inline void telemetry_keep(uint32_t *kept, const struct cc_event *event, bool due)
{
	if (due || !kept[TELEMETRY_HOPS])
		kept[TELEMETRY_UPDATED] = event->sent_psn;
	kept[TELEMETRY_HEARD] = event->now_ns;
	kept[TELEMETRY_HOPS] = event->hops;
	for (uint32_t i = 0; i < CC_HOPS; i++) {
		kept[TELEMETRY_RECORDS + 2 * i] = (uint32_t)event->hop[i];
		kept[TELEMETRY_RECORDS + 2 * i + 1] = (uint32_t)(event->hop[i] >> 32);
	}
}

#endif
