/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * HPCC (Li et al., SIGCOMM 2019, algorithm 1): a window from what the switch ports on the path say of
 * themselves.
 *
 *   u_i = (bytes sent / time) / B_i + min(queue now, queue before) / (B_i T), of the port i between two ACKs;
 *   u is the largest, tau its time, at most T: U = (1 - tau/T) U + tau/T u
 *   U >= eta, or maxStage raises in a row: W = W_c eta / U + W_AI; else W = W_c + W_AI
 *   W_c becomes W once a round trip: at the first ACK of a packet that was sent after it did so last
 *   rate R = W / T
 *
 * T is the flow's base round trip. A flow begins with W = line rate x T, which is also the most. Its first
 * ACK only leaves its records. `max_stage` 0 is the form of its authors' simulator (each change is
 * multiplicative), which also has a least rate.
 *
 * Ours: records are not compared with those from before a silence of half a turn of their clock (8.4 ms at 25
 * Gbit/s and above), nor with those of another number of ports or of ports of other rates. Losses say
 * nothing: the paper's fabric has none.
 *
 * Sources: github.com/alibaba-edu/High-Precision-Congestion-Control, the authors' simulator, at 9f4be2a:
 * simulation/src/point-to-point/model/rdma-hw.cc (UpdateRateHp and its attributes), simulation/run.py and
 * simulation/mix/config_doc.txt, which names the paper's eta and maxStage. The paper itself was not read.
 *
 * Fixed point: W and W_c Q26 of line rate x T, U and eta Q20. A W of 0 is a new flow.
 */
#ifndef DCGYM_HPCC_H
#define DCGYM_HPCC_H

#include "../../cc.h"
#include "../../telemetry.h"

#define CC_NAME "hpcc"
#define CC_HELP                                                                                              \
	"a window that keeps the busiest port of the path at 95 % of its rate, from records of the ports"
#define CC_EVENTS      (CC_MASK(CC_TX) | CC_MASK(CC_ACK))
#define CC_STATE_WORDS 16
#define CC_TELEMETRY
#define CC_FIRST_TX

/* clang-format off */
#define CC_PARAMETERS(X) \
	X(eta, "Q20", 996147, 1, CC_LINE_RATE, "alibaba-edu/High-Precision-Congestion-Control: rdma-hw.cc (TargetUtil), run.py (--utgt); paper not read", "utilization that is aimed at: 0.95") \
	X(max_stage, "count", 5, 0, 1000, "alibaba-edu/High-Precision-Congestion-Control: rdma-hw.cc (MiThresh); run.py sets 0; paper not read", "raises in a row before one that is multiplicative; 0: all are") \
	X(flows, "count", 100, 1, 1u << 20, "ours; the paper, which has W_AI by N, was not read", "N: flows that a port is expected to have; W_AI = (1 - eta) / N of line rate x T") \
	X(w_ai, "Q26", 0, 0, TELEMETRY_LINE, "ours", "W_AI itself, of line rate x T; 0: by N") \
	X(rate_min, "Q20", CC_MIN_RATE, CC_MIN_RATE, CC_LINE_RATE, "ours: the NIC's least", "least W / T, of the line rate")

#define CC_PRESETS(X) \
	X(paper, "defaults of its authors' rdma-hw.cc: up to five raises in a row; W_AI by N, after the paper, which was not read") \
	X(ns3, "`hp` of its authors' run.py: each change is multiplicative, W_AI 10 Mbit/s of 25 Gbit/s, least rate 1 Gbit/s of 100 Gbit/s", \
	  CC_SET(max_stage, 0) CC_SET(w_ai, 26844) CC_SET(rate_min, 10486) CC_NIC(spaced, 1))
/* clang-format on */

enum { CC_PARAMETERS(CC_INDEX) };

enum hpcc_state {
	HPCC_WINDOW,    /* W_c */
	HPCC_STAGE,     /* raises in a row */
	HPCC_TELEMETRY, /* its mean is U */
};
_Static_assert(HPCC_TELEMETRY + TELEMETRY_WORDS == CC_STATE_WORDS, "HPCC's state");

#define HPCC_LOAD (HPCC_TELEMETRY + TELEMETRY_MEAN)

/* u: at most 2^31. */
static inline uint32_t telemetry_load(const struct telemetry *port, const struct cc_flow *flow,
				      const uint32_t *parameter)
{
	uint64_t queue = port->queue_bytes < port->before_bytes ? port->queue_bytes : port->before_bytes;

	(void)parameter;
	return telemetry_share(port->sent_bytes, port->mbps, port->time_ns) +
	       telemetry_share(queue, port->mbps, flow->base_rtt_ns);
}

/* W of W_c. W_c eta: 26 + 20 bits. */
static inline uint64_t hpcc_window(const uint32_t *state, const uint32_t *parameter, bool cut)
{
	uint64_t least = 64ull * parameter[P_rate_min], window = state[HPCC_WINDOW];

	if (cut)
		window = window * parameter[P_eta] / (state[HPCC_LOAD] ? state[HPCC_LOAD] : 1);
	window += parameter[P_w_ai] ? parameter[P_w_ai]
				    : 64ull * (CC_LINE_RATE - parameter[P_eta]) / parameter[P_flows];
	return window < least ? least : window < TELEMETRY_LINE ? window : TELEMETRY_LINE;
}

static inline void hpcc_start(uint32_t *state, const struct cc_flow *flow, struct cc_result *result)
{
	state[HPCC_WINDOW] = TELEMETRY_LINE;
	state[HPCC_LOAD] = TELEMETRY_ONE;
	telemetry_answer(TELEMETRY_LINE, flow, result);
}

static inline void hpcc_on_ack(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, struct cc_result *result)
{
	uint32_t *kept = state + HPCC_TELEMETRY;
	bool due = telemetry_due(kept, event);

	if (!event->hops)
		return;
	if (telemetry_measure(kept, event, flow, parameter)) {
		bool cut =
			state[HPCC_LOAD] >= parameter[P_eta] || state[HPCC_STAGE] >= parameter[P_max_stage];
		uint64_t window = hpcc_window(state, parameter, cut);

		if (due) {
			state[HPCC_WINDOW] = (uint32_t)window;
			state[HPCC_STAGE] = cut ? 0 : state[HPCC_STAGE] + 1;
		}
		telemetry_answer(window, flow, result);
	}
	telemetry_keep(kept, event, due);
}

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	(void)table;
	if (!state[HPCC_WINDOW])
		hpcc_start(state, flow, result);
	if (event->type == CC_ACK)
		hpcc_on_ack(state, event, flow, parameter, result);
}

#endif
