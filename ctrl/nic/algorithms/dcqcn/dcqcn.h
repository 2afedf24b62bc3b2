/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * DCQCN (Zhu et al., SIGCOMM 2015), in the paper's form and in that of Mellanox' firmware and ns-3's model.
 *
 *   cut:    RT = RC; RC = RC (1 - alpha/2)         alpha: (1-g) alpha, + g where a mark was seen
 *   raise:  RT += 0 | R_AI | i R_HAI; RC = (RT + RC) / 2, each time a timer or a counter of bytes expires
 *
 * monitor_period = 0: each CNP cuts and moves alpha, as in the paper. Else two timers run freely from the
 * first CNP on, one for alpha and one that cuts, and each remembers whether there was a CNP in its period.
 *
 * The NIC calls at events alone, so timers are caught up at the flow's next event, in the order in which they
 * expired. Alpha has 30 fraction bits, or keeps 10 of them (`short_alpha`). With 10 each decay loses what
 * falls below the last one, so that sparse marks leave alpha too low. Of a silence's raises the first and the
 * last 32 are made one by one; in between nothing but RT moves, in a straight line, and RC trails it by one
 * step. A stage counts to 32, and so the factor i ends at 32 - F.
 *
 * Sources of the preset `paper`. The paper itself was not read; two of its authors' repositories were:
 *   bobzhuyb/ns3-rdma at e8a27d0, a simulator: src/point-to-point/model/qbb-net-device.cc and its sample
 *   windows/ns-3-dev/x64/Release/mix/config.txt, for 40 Gbit/s
 *   jitupadhye-zz/rdma at e7e9160: the text of "ECN or Delay" (CoNEXT 2016), conext2016/dcqcn-*.tex, and its
 *   fluid model, fluidmodel/dcqcn/dcqcn2.m. Both say that they have the paper's values.
 * They agree but for B (300 MB in the sample) and T (60 us there). The simulator moves alpha before the cut
 * and begins with alpha 1/2; the text cuts first, as we do. R_HAI and its factor i are the simulator's
 * (rpr_hyper_increase), where the first i is 1, too; it is one raise earlier there. ns-3 below is
 * alibaba-edu/High-Precision-Congestion-Control at 9f4be2a: simulation/run.py, rdma-hw.cc.
 *
 * Overflow: rates are at most 2^20 and alpha 2^30, so that products have 50 bits. i R_HAI has at most 25
 * bits.
 */
#ifndef DCGYM_DCQCN_H
#define DCGYM_DCQCN_H

#include "../../cc.h"

#define CC_NAME "dcqcn"
#define CC_HELP "cuts by alpha / 2 at marks; recovers by a timer and a counter of bytes"

#define CC_EVENTS      (CC_MASK(CC_CNP) | CC_MASK(CC_TX) | CC_MASK(CC_NACK))
#define CC_STATE_WORDS 10

/* clang-format off */
#define CC_PARAMETERS(X) \
	X(g, "Q10", 4, 1, 1023, "bobzhuyb/ns3-rdma: config.txt (DCTCP_GAIN 1/256); jitupadhye-zz/rdma: dcqcn2.m", "weight of the last period in alpha") \
	X(alpha_timer, CC_NS_AT_100G, 55000, 1, CC_LONGEST_NS, "bobzhuyb/ns3-rdma: config.txt; jitupadhye-zz/rdma: dcqcn-convergence.tex", "alpha decays after so long without a mark") \
	X(monitor_period, CC_NS_AT_100G, 0, 0, CC_LONGEST_NS, "firmware, ns-3", "marks cut once in it; 0: each CNP cuts at once") \
	X(rate_timer, CC_NS_AT_100G, 55000, 1, CC_LONGEST_NS, "jitupadhye-zz/rdma: dcqcn-convergence.tex, dcqcn2.m; bobzhuyb/ns3-rdma, config.txt: 60 us", "T: from one raise to the next") \
	X(byte_counter, "bytes", 10000000, 0, 1u << 31, "jitupadhye-zz/rdma: dcqcn2.m; bobzhuyb/ns3-rdma, config.txt: 300 MB", "B: sent from one raise to the next; 0: the timer alone raises") \
	X(stages, "count", 5, 1, 8, "jitupadhye-zz/rdma: dcqcn-model.tex; bobzhuyb/ns3-rdma: config.txt", "F: raises that are fast recovery") \
	X(rate_ai, "Q20", 1049, 0, CC_LINE_RATE, "jitupadhye-zz/rdma: dcqcn-model.tex; bobzhuyb/ns3-rdma: config.txt: 40 Mbit/s of 40 Gbit/s", "R_AI, of the line rate") \
	X(rate_hai, "Q20", 5243, 0, CC_LINE_RATE, "bobzhuyb/ns3-rdma: config.txt: 200 Mbit/s of 40 Gbit/s", "R_HAI, of the line rate") \
	X(rate_min, "Q20", CC_MIN_RATE, CC_MIN_RATE, CC_LINE_RATE, "ours: the NIC's least; no source has the paper's", "no cut goes below it") \
	X(alpha_initial, "Q10", 1024, 0, 1024, "ns-3's rdma-hw.cc: 1; bobzhuyb/ns3-rdma, qbb-net-device.cc: 0.5", "alpha at the first mark") \
	X(clamp_target, "0 or 1", 1, 0, 1, "jitupadhye-zz/rdma: dcqcn-protocol.tex; bobzhuyb/ns3-rdma: config.txt", "RT = RC at each cut; 0: only at the first after a raise") \
	X(nack, "0 or 1", 0, 0, 1, "firmware (a public port of it)", "a NACK counts as a mark") \
	X(hyper_factor, "0 or 1", 1, 0, 1, "bobzhuyb/ns3-rdma: qbb-net-device.cc (rpr_hyper_increase)", "the i-th hyper raise is i R_HAI; 0: each is R_HAI") \
	X(short_alpha, "0 or 1", 0, 0, 1, "0: a real number in both simulators", "alpha keeps 10 fraction bits; 0: 30") \
	X(rate_initial, "Q20", CC_LINE_RATE, CC_MIN_RATE, CC_LINE_RATE, "ours: the line, as all sources have it", "what a new flow starts at, of the line; below it timers run from the start")

#define DCQCN_FIRMWARE \
	CC_SET(g, 5) CC_SET(alpha_timer, 1000) CC_SET(monitor_period, 4000) CC_SET(rate_timer, 300000) \
	CC_SET(stages, 1) CC_SET(rate_ai, 52) CC_SET(rate_hai, 524) CC_SET(hyper_factor, 0) \
	CC_SET(alpha_initial, 1023) CC_SET(short_alpha, 1) CC_SET(clamp_target, 0) CC_SET(nack, 1)

#define CC_PRESETS(X) \
	X(paper, "the paper's, by its authors' repositories; rates as shares of its 40 Gbit/s") \
	X(firmware, "defaults of a Mellanox NIC's configuration without its byte counter; rates as shares of 100 Gbit/s", \
	  DCQCN_FIRMWARE CC_SET(byte_counter, 0) CC_NIC(cnp_interval, 2000)) \
	X(firmware_bytes, "`firmware` with RPG_BYTE_RESET 32767 in bytes, as nine stored configurations have it", \
	  DCQCN_FIRMWARE CC_SET(byte_counter, 32767) CC_NIC(cnp_interval, 4000)) \
	X(firmware_blocks, "`firmware` with RPG_BYTE_RESET 32767 in units of 64 bytes, which is hearsay", \
	  DCQCN_FIRMWARE CC_SET(byte_counter, 2097088) CC_NIC(cnp_interval, 4000)) \
	X(ns3, "`dcqcn` of the HPCC artifact's run.py; rates as shares of 25 Gbit/s, the least of 100 Gbit/s", \
	  CC_SET(alpha_timer, 1000) CC_SET(monitor_period, 4000) CC_SET(rate_timer, 300000) \
	  CC_SET(byte_counter, 0) CC_SET(stages, 1) CC_SET(rate_ai, 210) CC_SET(rate_hai, 2097) \
	  CC_SET(hyper_factor, 0) \
	  CC_SET(rate_min, 10486) CC_SET(clamp_target, 0) CC_NIC(cnp_interval, 0) CC_NIC(spaced, 1)) \
	X(ns3_paper, "`dcqcn_paper` of the HPCC artifact's run.py; rates likewise", \
	  CC_SET(alpha_timer, 50000) CC_SET(monitor_period, 50000) CC_SET(rate_timer, 55000) \
	  CC_SET(byte_counter, 0) CC_SET(stages, 1) CC_SET(rate_ai, 210) CC_SET(rate_hai, 2097) \
	  CC_SET(hyper_factor, 0) \
	  CC_SET(rate_min, 10486) CC_SET(clamp_target, 0) CC_NIC(cnp_interval, 0) CC_NIC(spaced, 1))
/* clang-format on */

enum { CC_PARAMETERS(CC_INDEX) };

enum dcqcn_state {
	DCQCN_CURRENT, /* RC, Q20; 0: a new flow */
	DCQCN_TARGET,  /* RT, Q20 */
	DCQCN_ALPHA,   /* Q30 */
	DCQCN_FLAGS,
	DCQCN_ALPHA_SINCE, /* when the timers last expired or were set */
	DCQCN_RATE_SINCE,
	DCQCN_CUT_SINCE,
	DCQCN_BYTES, /* since the counter last expired */
	DCQCN_TIMER_STAGE,
	DCQCN_BYTE_STAGE,
};
_Static_assert(DCQCN_BYTE_STAGE + 1 == CC_STATE_WORDS, "DCQCN's state");

enum dcqcn_flag {
	DCQCN_STARTED = 1,    /* timers run: there has been a mark, or the flow began below the line */
	DCQCN_ALPHA_MARK = 2, /* a mark in this period of the alpha timer */
	DCQCN_CUT_MARK = 4,   /* a mark in this monitor period */
	DCQCN_MARKED = 8,     /* there has been a mark: alpha counts */
};

#define DCQCN_DECAYS     1023u       /* that take any alpha of 10 bits to 0 */
#define DCQCN_EXACT      32u         /* raises made one by one at either end of a silence */
#define DCQCN_STAGE_MOST DCQCN_EXACT /* more than F ever is */
#define DCQCN_CNPS       16u         /* of one event that are acted on: the rest would find a rate of 2^-16 */

static inline uint32_t dcqcn_next_alpha(uint32_t alpha, const uint32_t *parameter, bool mark)
{
	uint32_t g = parameter[P_g],
		 next = (uint32_t)((uint64_t)alpha * (1024 - g) >> 10) + (mark ? g << 20 : 0);

	return parameter[P_short_alpha] ? next & ~((1u << 20) - 1) : next;
}

/* So many decays: alpha (1 - g)^times, by squares. */
static inline uint32_t dcqcn_decayed(uint32_t alpha, const uint32_t *parameter, uint32_t times)
{
	uint64_t left = alpha, factor = (uint64_t)(1024 - parameter[P_g]) << 20;

	if (parameter[P_short_alpha]) {
		for (uint32_t i = 0; i < DCQCN_DECAYS && i < times; i++)
			alpha = dcqcn_next_alpha(alpha, parameter, false);
		return alpha;
	}
	for (uint32_t bit = 0; bit < 32; bit++) {
		if (times >> bit & 1)
			left = left * factor >> 30;
		factor = factor * factor >> 30;
	}
	return (uint32_t)left;
}

/* How often a timer has expired until then. */
static inline uint32_t dcqcn_expired(uint32_t *since_ns, uint32_t until_ns, uint32_t period_ns)
{
	uint32_t times = (until_ns - *since_ns) / (period_ns ? period_ns : 1);

	*since_ns += times * period_ns;
	return times;
}

static inline void dcqcn_run_alpha(uint32_t *state, const uint32_t *parameter, uint32_t until_ns)
{
	uint32_t times = dcqcn_expired(&state[DCQCN_ALPHA_SINCE], until_ns, parameter[P_alpha_timer]);
	uint32_t alpha;

	if (!times)
		return;
	alpha = dcqcn_next_alpha(state[DCQCN_ALPHA], parameter, state[DCQCN_FLAGS] & DCQCN_ALPHA_MARK);
	state[DCQCN_ALPHA] = times > 1 ? dcqcn_decayed(alpha, parameter, times - 1) : alpha;
	state[DCQCN_FLAGS] &= ~DCQCN_ALPHA_MARK;
}

/* What RT gains at the next raise: the slower of timer and counter decides on R_HAI, the faster ends
 * recovery. */
static inline uint32_t dcqcn_gain(const uint32_t *state, const uint32_t *parameter)
{
	uint32_t timer = state[DCQCN_TIMER_STAGE];
	uint32_t bytes = parameter[P_byte_counter] ? state[DCQCN_BYTE_STAGE] : timer;
	uint32_t most = timer > bytes ? timer : bytes, least = timer > bytes ? bytes : timer;

	if (most < parameter[P_stages])
		return 0;
	if (least <= parameter[P_stages])
		return parameter[P_rate_ai];
	return parameter[P_rate_hai] * (parameter[P_hyper_factor] ? least - parameter[P_stages] : 1);
}

static inline void dcqcn_raise(uint32_t *state, const uint32_t *parameter, uint32_t *stage)
{
	uint32_t target = state[DCQCN_TARGET] + dcqcn_gain(state, parameter);

	if (target > CC_LINE_RATE)
		target = CC_LINE_RATE;
	state[DCQCN_TARGET] = target;
	state[DCQCN_CURRENT] = (target + state[DCQCN_CURRENT] + 1) >> 1;
	if (*stage < DCQCN_STAGE_MOST)
		(*stage)++;
}

/* So many raises of one kind, long after the stages have changed for the last time. */
static inline void dcqcn_skip(uint32_t *state, const uint32_t *parameter, uint32_t times)
{
	uint32_t gain = dcqcn_gain(state, parameter);
	uint64_t target = state[DCQCN_TARGET] + (uint64_t)gain * times; /* 20 + 32 bits */
	uint32_t trailing;

	state[DCQCN_TARGET] = target < CC_LINE_RATE ? (uint32_t)target : CC_LINE_RATE;
	trailing = state[DCQCN_TARGET] > gain ? state[DCQCN_TARGET] - gain : 0;
	if (state[DCQCN_CURRENT] < trailing)
		state[DCQCN_CURRENT] = trailing;
}

static inline void dcqcn_raises(uint32_t *state, const uint32_t *parameter, uint32_t *stage, uint32_t times)
{
	for (uint32_t i = 0; i < 2 * DCQCN_EXACT && i < times; i++) {
		if (i == DCQCN_EXACT && times > 2 * DCQCN_EXACT)
			dcqcn_skip(state, parameter, times - 2 * DCQCN_EXACT);
		dcqcn_raise(state, parameter, stage);
	}
}

static inline void dcqcn_run(uint32_t *state, const uint32_t *parameter, uint32_t until_ns)
{
	uint32_t times;

	dcqcn_run_alpha(state, parameter, until_ns);
	times = dcqcn_expired(&state[DCQCN_RATE_SINCE], until_ns, parameter[P_rate_timer]);
	dcqcn_raises(state, parameter, &state[DCQCN_TIMER_STAGE], times);
}

/* RT = RC; RC = RC (1 - alpha/2); all begins anew. */
static inline void dcqcn_cut(uint32_t *state, const uint32_t *parameter, uint32_t now_ns)
{
	uint32_t current = state[DCQCN_CURRENT];

	if (parameter[P_clamp_target] || state[DCQCN_TIMER_STAGE] || state[DCQCN_BYTE_STAGE])
		state[DCQCN_TARGET] = current;
	current -= (uint32_t)((uint64_t)current * state[DCQCN_ALPHA] >> 31);
	state[DCQCN_CURRENT] = current > parameter[P_rate_min] ? current : parameter[P_rate_min];
	state[DCQCN_TIMER_STAGE] = 0;
	state[DCQCN_BYTE_STAGE] = 0;
	state[DCQCN_BYTES] = 0;
	state[DCQCN_RATE_SINCE] = now_ns;
}

/* All that has expired since the flow's last event. At most one cut was due: marks are events themselves. */
static inline void dcqcn_catch_up(uint32_t *state, const uint32_t *parameter, uint32_t now_ns)
{
	uint32_t period_ns = parameter[P_monitor_period];

	if (period_ns) {
		uint32_t first_ns = state[DCQCN_CUT_SINCE] + period_ns;
		uint32_t times = dcqcn_expired(&state[DCQCN_CUT_SINCE], now_ns, period_ns);

		if (times && state[DCQCN_FLAGS] & DCQCN_CUT_MARK) {
			dcqcn_run(state, parameter, first_ns);
			dcqcn_cut(state, parameter, first_ns);
			state[DCQCN_FLAGS] &= ~DCQCN_CUT_MARK;
		}
	}
	dcqcn_run(state, parameter, now_ns);
}

/* Raises are due from now on. */
static inline void dcqcn_start(uint32_t *state, uint32_t now_ns)
{
	state[DCQCN_FLAGS] |= DCQCN_STARTED;
	state[DCQCN_RATE_SINCE] = now_ns;
	state[DCQCN_BYTES] = 0;
}

/* A flow that begins below the line could not rise before its first mark if its timers did not run. */
static inline void dcqcn_begin(uint32_t *state, const uint32_t *parameter, uint32_t now_ns)
{
	state[DCQCN_CURRENT] = state[DCQCN_TARGET] = cc_clamp(parameter[P_rate_initial]);
	if (state[DCQCN_CURRENT] < CC_LINE_RATE)
		dcqcn_start(state, now_ns);
}

static inline void dcqcn_first_mark(uint32_t *state, const uint32_t *parameter, uint32_t now_ns)
{
	if (!(state[DCQCN_FLAGS] & DCQCN_STARTED))
		dcqcn_start(state, now_ns);
	state[DCQCN_FLAGS] |= DCQCN_MARKED;
	state[DCQCN_ALPHA] = parameter[P_alpha_initial] << 20;
	state[DCQCN_ALPHA_SINCE] = now_ns;
	state[DCQCN_CUT_SINCE] = now_ns;
}

static inline void dcqcn_mark(uint32_t *state, const uint32_t *parameter, uint32_t now_ns, uint32_t times)
{
	bool first = !(state[DCQCN_FLAGS] & DCQCN_MARKED);

	if (first)
		dcqcn_first_mark(state, parameter, now_ns);
	if (parameter[P_monitor_period]) {
		state[DCQCN_FLAGS] |= DCQCN_CUT_MARK | (first ? 0 : DCQCN_ALPHA_MARK);
		return;
	}
	for (uint32_t i = 0; i < DCQCN_CNPS && i < times; i++) {
		dcqcn_cut(state, parameter, now_ns);
		state[DCQCN_ALPHA] = dcqcn_next_alpha(state[DCQCN_ALPHA], parameter, true);
	}
	state[DCQCN_ALPHA_SINCE] = now_ns;
}

static inline void dcqcn_sent(uint32_t *state, const uint32_t *parameter, uint32_t bytes)
{
	uint64_t sum = (uint64_t)state[DCQCN_BYTES] + bytes;
	uint32_t every = parameter[P_byte_counter];

	if (!every)
		return;
	state[DCQCN_BYTES] = (uint32_t)(sum % every);
	dcqcn_raises(state, parameter, &state[DCQCN_BYTE_STAGE], (uint32_t)(sum / every));
}

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	(void)flow, (void)table;
	if (!state[DCQCN_CURRENT])
		dcqcn_begin(state, parameter, event->now_ns);
	if (state[DCQCN_FLAGS] & DCQCN_STARTED) {
		dcqcn_catch_up(state, parameter, event->now_ns);
		if (event->type == CC_TX)
			dcqcn_sent(state, parameter, event->bytes);
	}
	if (event->type == CC_CNP || (event->type == CC_NACK && parameter[P_nack]))
		dcqcn_mark(state, parameter, event->now_ns, event->coalesced);
	result->rate = cc_clamp(state[DCQCN_CURRENT]);
	result->window_bytes = 0;
	result->probe = false;
}

#endif
