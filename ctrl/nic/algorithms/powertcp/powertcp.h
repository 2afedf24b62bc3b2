/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * PowerTCP (Addanki et al., NSDI 2022, algorithm 1), with telemetry: a window from the power of each port,
 * the product of its current (what arrives) and its voltage (what is under way).
 *
 *   of the port i between two ACKs: current = bytes sent / time + change of queue / time,
 *     voltage = queue now + B_i T, its normed power current x voltage / (B_i^2 T)
 *   power is the largest, tau its time, at most T: P = (1 - tau/T) P + tau/T power
 *   W = gamma (W_old / P + beta) + (1 - gamma) W
 *   W_old becomes W once a round trip: at the first ACK of a packet that was sent after it did so last
 *   rate R = W / T
 *
 * T is the flow's base round trip. A flow begins with W = line rate x T, which is also the most. Its first
 * ACK only leaves its records. With N flows the queue rests at the sum of their beta.
 *
 * The preset `ns3` is the form of its authors' simulator: P counts against a target utilization, a current
 * below half of the line counts as half, the last term has W_old in the place of W. There ports tell what
 * arrived; here that is what they sent and the change of their queue.
 *
 * Sources: github.com/inet-tub/ns3-datacenter, the authors' simulator, at 6ddb4a4, below simulator/ns-3.39:
 * src/point-to-point/model/rdma-hw.cc (UpdateRatePower) has gamma, beta and the least current,
 * examples/PowerTCP/config-burst.txt the target and the least rate. The paper itself was not read; the
 * formula and what the preset `paper` leaves out of the simulator's are after it, unchecked.
 *
 * Ours: stale records are dropped, and losses say nothing, as in hpcc.h. A current is at least 0.
 *
 * Fixed point: W and W_old Q26 of line rate x T, P Q20, gamma Q16. A W of 0 is a new flow.
 */
#ifndef DCGYM_POWERTCP_H
#define DCGYM_POWERTCP_H

#include "../../cc.h"
#include "../../telemetry.h"

#define CC_NAME "powertcp"
#define CC_HELP                                                                                              \
	"a window from the busiest port's power, the product of what arrives there and what is under way"
#define CC_EVENTS      (CC_MASK(CC_TX) | CC_MASK(CC_ACK))
#define CC_STATE_WORDS 16
#define CC_TELEMETRY
#define CC_FIRST_TX

/* clang-format off */
#define CC_PARAMETERS(X) \
	X(gamma, "Q16", 58982, 1, 65536, "inet-tub/ns3-datacenter: rdma-hw.cc (UpdateRatePower); paper not read", "weight of the newest window: 0.9") \
	X(flows, "count", 100, 1, 1u << 20, "ours; the paper, which has beta by N, was not read", "N: flows that a NIC is expected to have; beta = 1/N of line rate x T") \
	X(beta, "Q26", 0, 0, TELEMETRY_LINE, "ours", "beta itself, of line rate x T; 0: by N") \
	X(target, "Q20", CC_LINE_RATE, 1, CC_LINE_RATE, "paper's formula, not read: none; inet-tub/ns3-datacenter, config-burst.txt: 0.95", "power that is aimed at, of a line's own") \
	X(current_min, "Q20", 0, 0, CC_LINE_RATE, "paper's formula, not read: none; inet-tub/ns3-datacenter, rdma-hw.cc: 0.5", "what a current counts as at least, of the line") \
	X(last_old, "0 or 1", 0, 0, 1, "paper's formula, not read: W; inet-tub/ns3-datacenter, rdma-hw.cc: W_old", "1: the last term has W_old") \
	X(rate_min, "Q20", CC_MIN_RATE, CC_MIN_RATE, CC_LINE_RATE, "ours: the NIC's least", "least W / T, of the line rate")

#define CC_PRESETS(X) \
	X(paper, "the paper's formula, which was not read; gamma of its authors' simulator") \
	X(ns3, "its authors' simulator (rdma-hw.cc, config-burst.txt): target 0.95, beta 150 Mbit/s of 25 Gbit/s, least rate 100 Mbit/s of 25 Gbit/s", \
	  CC_SET(beta, 402653) CC_SET(target, 996147) CC_SET(current_min, 524288) CC_SET(last_old, 1) CC_SET(rate_min, 4194) CC_NIC(spaced, 1))
/* clang-format on */

enum { CC_PARAMETERS(CC_INDEX) };

enum powertcp_state {
	POWERTCP_WINDOW,    /* W */
	POWERTCP_OLD,       /* W_old */
	POWERTCP_TELEMETRY, /* its mean is P */
};
_Static_assert(POWERTCP_TELEMETRY + TELEMETRY_WORDS == CC_STATE_WORDS, "PowerTCP's state");

#define POWERTCP_POWER (POWERTCP_TELEMETRY + TELEMETRY_MEAN)

/* A port's power over that of a line without a queue, Q20: 30 + 30 bits. */
static inline uint32_t telemetry_load(const struct telemetry *port, const struct cc_flow *flow,
				      const uint32_t *parameter)
{
	uint64_t arrived = port->sent_bytes + port->queue_bytes, power;
	uint32_t current, voltage;

	arrived = arrived > port->before_bytes ? arrived - port->before_bytes : 0;
	current = telemetry_share(arrived, port->mbps, port->time_ns);
	current = current > parameter[P_current_min] ? current : parameter[P_current_min];
	voltage = TELEMETRY_ONE + telemetry_share(port->queue_bytes, port->mbps, flow->base_rtt_ns);
	power = (uint64_t)current * voltage >> 20;
	return power < TELEMETRY_MOST ? (uint32_t)power : TELEMETRY_MOST;
}

/* W_old target: 26 + 20 bits; what it becomes is held to the line before gamma's 16 bits. */
static inline uint64_t powertcp_window(const uint32_t *state, const uint32_t *parameter)
{
	uint64_t gamma = parameter[P_gamma], least = 64ull * parameter[P_rate_min];
	uint64_t last = state[parameter[P_last_old] ? POWERTCP_OLD : POWERTCP_WINDOW];
	uint64_t window = (uint64_t)state[POWERTCP_OLD] * parameter[P_target] /
			  (state[POWERTCP_POWER] ? state[POWERTCP_POWER] : 1);

	window = window < 2 * TELEMETRY_LINE ? window : 2 * TELEMETRY_LINE;
	window += parameter[P_beta] ? parameter[P_beta] : TELEMETRY_LINE / parameter[P_flows];
	window = (gamma * window + (65536 - gamma) * last) >> 16;
	return window < least ? least : window < TELEMETRY_LINE ? window : TELEMETRY_LINE;
}

static inline void powertcp_start(uint32_t *state, const struct cc_flow *flow, struct cc_result *result)
{
	state[POWERTCP_WINDOW] = state[POWERTCP_OLD] = TELEMETRY_LINE;
	state[POWERTCP_POWER] = TELEMETRY_ONE;
	telemetry_answer(TELEMETRY_LINE, flow, result);
}

static inline void powertcp_on_ack(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
				   const uint32_t *parameter, struct cc_result *result)
{
	uint32_t *kept = state + POWERTCP_TELEMETRY;
	bool due = telemetry_due(kept, event);

	if (!event->hops)
		return;
	if (telemetry_measure(kept, event, flow, parameter)) {
		state[POWERTCP_WINDOW] = (uint32_t)powertcp_window(state, parameter);
		if (due)
			state[POWERTCP_OLD] = state[POWERTCP_WINDOW];
		telemetry_answer(state[POWERTCP_WINDOW], flow, result);
	}
	telemetry_keep(kept, event, due);
}

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	(void)table;
	if (!state[POWERTCP_WINDOW])
		powertcp_start(state, flow, result);
	if (event->type == CC_ACK)
		powertcp_on_ack(state, event, flow, parameter, result);
}

#endif
