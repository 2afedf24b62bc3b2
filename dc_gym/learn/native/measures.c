// SPDX-License-Identifier: Apache-2.0
/*
 * Each function names its original in dc_gym/learn; the formulas are there. Compiled without contraction: a
 * fused multiply-add would round once where Python rounds twice.
 */
#include "measures.h"

#include <string.h>

/* Scratch of the largest use: three arrays. */
#define SCRATCH(lab, number) ((lab)->scratch + (size_t)(number)*largest(lab))

static size_t largest(const struct lab *lab)
{
	return lab->flows > lab->network->ports ? lab->flows : lab->network->ports;
}

/* numpy's order of summation (pairwise_sum in loops_utils.h.src). */
static double sum(const double *values, size_t count)
{
	double part[8], total = 0;
	size_t i, half;

	if (count < 8) {
		for (i = 0; i < count; i++)
			total += values[i];
		return total;
	}
	if (count > 128) {
		half = count / 2;
		half -= half % 8;
		return sum(values, half) + sum(values + half, count - half);
	}
	for (i = 0; i < 8; i++)
		part[i] = values[i];
	for (; i < count - count % 8; i += 8)
		for (size_t lane = 0; lane < 8; lane++)
			part[lane] += values[i + lane];
	total = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
	for (; i < count; i++)
		total += values[i];
	return total;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

static double most(double a, double b)
{
	return a > b ? a : b;
}

static const uint64_t *cells_of(const struct lab *lab, size_t slot)
{
	return lab->cells + slot * lab->network->rows * SM_NR_COLUMNS;
}

static const struct sm_flow *flows_of(const struct lab *lab, size_t slot)
{
	return lab->recorded + slot * lab->flows;
}

/* The slot before; an episode's first step has none. */
static size_t before(const struct lab *lab)
{
	return lab->slot ? lab->slot - 1 : 0;
}

static int64_t elapsed_ns(const struct lab *lab)
{
	return (int64_t)((uint64_t)lab->t_ns[lab->slot] - (uint64_t)lab->t_ns[before(lab)]);
}

/* A counter may have wrapped. */
static double change(const struct lab *lab, size_t place)
{
	return (double)(int64_t)(cells_of(lab, lab->slot)[place] - cells_of(lab, before(lab))[place]);
}

/* measures.carried_bytes */
static double carried_bytes(const struct lab *lab, double rate_bps, double share_s)
{
	return most(rate_bps * share_s, lab->network->frame_bytes);
}

/* How a flow counts for its host (observation._mean_rtt, _cwnd, _retransmits, _goodput). Returns whether it
 * does. */
static int counts(const struct lab *lab, uint32_t flow, uint32_t kind, double *value)
{
	const struct sm_flow *now = &flows_of(lab, lab->slot)[flow],
			     *then = &flows_of(lab, before(lab))[flow];
	uint32_t rtt_us = kind == ELEMENT_SRTT ? now->srtt_us : now->min_rtt_us;
	int runs = now->status == SM_FLOW_RUNNING;

	switch (kind) {
	case ELEMENT_SRTT:
	case ELEMENT_RTT_MIN:
		*value = (double)rtt_us * 1000 / lab->base_rtt_ns[flow] - 1;
		return runs && rtt_us;
	case ELEMENT_CWND:
		*value = now->cwnd_packets * (double)lab->network->frame_bytes;
		return runs;
	case ELEMENT_RETRANSMITS:
		*value = ((double)now->retransmits - (double)then->retransmits) * lab->network->frame_bytes;
		return 1;
	default:
		*value = ((double)now->received_bytes - (double)then->received_bytes) /
			 lab->payload_share[flow];
		return 1;
	}
}

/* observation._sum_over_hosts; of round trips, the mean */
static const double *over_hosts(const struct lab *lab, uint32_t kind)
{
	uint32_t hosts = lab->network->hosts;
	double *sums = SCRATCH(lab, 0), *flows = SCRATCH(lab, 1), value;

	for (uint32_t host = 0; host < hosts; host++)
		sums[host] = flows[host] = 0;
	for (uint32_t i = 0; i < lab->flows; i++) {
		if (lab->host[i] >= 0 && counts(lab, i, kind, &value)) {
			sums[lab->host[i]] += value;
			flows[lab->host[i]] += 1;
		}
	}
	for (uint32_t host = 0; host < hosts; host++)
		if ((kind == ELEMENT_SRTT || kind == ELEMENT_RTT_MIN) && flows[host] > 0)
			sums[host] /= flows[host];
	return sums;
}

/* `hosts`: the values of all hosts, for a kind that has one for each. */
static float element(const struct lab *lab, const struct element *each, double share_s, const double *hosts)
{
	const uint64_t *cells = cells_of(lab, lab->slot);
	double value = 1;
	float found;

	switch (each->kind) {
	case ELEMENT_LEVEL:
		value = (double)cells[each->place];
		break;
	case ELEMENT_CHANGE:
		value = change(lab, each->place);
		break;
	case ELEMENT_SHARE:
		value = (double)cells[each->place] / (1 + (double)cells[each->place]);
		break;
	case ELEMENT_FORCE:
		value = lab->enforced[(size_t)lab->slot * lab->network->values + each->place];
		break;
	case ELEMENT_MEAN:
		value = change(lab, each->place) / (double)(elapsed_ns(lab) > 1 ? elapsed_ns(lab) : 1);
		break;
	case ELEMENT_ONE:
		break;
	default:
		value = hosts[each->place];
	}
	value = value * each->scale /
		(each->divisor > 0 ? each->divisor : carried_bytes(lab, each->rate_bps, share_s));
	found = (float)value;
	found = found > each->low ? found : each->low;
	return found < each->high ? found : each->high;
}

/* Observer.observe */
static void observe(struct lab *lab)
{
	const struct network *network = lab->network;
	double share_s = (double)elapsed_ns(lab) / 8e9;
	size_t count = network->elements;
	float *last = lab->seen + (network->history - 1) * count;
	const double *hosts = NULL;
	uint32_t kind = ELEMENT_NONE;

	if (lab->numbers[lab->slot])
		memmove(lab->seen, lab->seen + count, (network->history - 1) * count * sizeof(*last));
	for (size_t i = 0; i < count; i++) {
		const struct element *each = &network->element[i];

		if (each->kind != kind && each->kind > ELEMENT_ONE)
			hosts = over_hosts(lab, each->kind);
		kind = each->kind;
		if (kind != ELEMENT_NONE)
			last[i] = element(lab, each, share_s, hosts);
	}
	if (!lab->numbers[lab->slot])
		for (float *to = lab->seen; to < last; to += count)
			memcpy(to, last, count * sizeof(*last));
}

/* Frame.at_work, and whether all flows have ended */
static void survey(struct lab *lab)
{
	const struct sm_flow *now = flows_of(lab, lab->slot), *then = flows_of(lab, before(lab));

	lab->ended = lab->flows > 0;
	lab->work_changed = 0;
	for (uint32_t i = 0; i < lab->flows; i++) {
		uint8_t works = now[i].status == SM_FLOW_RUNNING || then[i].status == SM_FLOW_RUNNING ||
				(double)now[i].received_bytes - (double)then[i].received_bytes > 0;

		lab->ended &= now[i].status >= SM_FLOW_DONE;
		lab->work_changed |= works != lab->at_work[i];
		lab->at_work[i] = works;
	}
}

/* Frame.goodput_bps, summed */
static double goodput_bps(const struct lab *lab)
{
	const struct sm_flow *now = flows_of(lab, lab->slot), *then = flows_of(lab, before(lab));
	double factor = 8 / ((double)elapsed_ns(lab) / 1e9), *values = SCRATCH(lab, 0);

	for (uint32_t i = 0; i < lab->flows; i++)
		values[i] = ((double)now[i].received_bytes - (double)then[i].received_bytes) * factor;
	return sum(values, lab->flows);
}

/* measures.port_delays_ns */
static const double *port_delays_ns(const struct lab *lab)
{
	const struct network *network = lab->network;
	const double *enforced = lab->enforced + (size_t)lab->slot * network->values;
	const uint64_t *cells = cells_of(lab, lab->slot);
	double *delays = SCRATCH(lab, 2);

	for (uint32_t row = 0; row < network->ports; row++)
		delays[row] =
			(double)cells[row * SM_NR_COLUMNS + SM_BACKLOG_BYTES] * 8e9 / network->rate_bps[row];
	for (uint32_t host = 0; host < network->hosts; host++) {
		size_t row = (size_t)network->host_row[host];
		double rate = network->rate_place == UINT32_MAX ? network->line_bps[host]
								: enforced[network->rate_place + host];

		rate = least(most(rate, network->floor_bps[host]), network->line_bps[host]);
		delays[row] = (double)cells[row * SM_NR_COLUMNS + SM_BACKLOG_BYTES] * 8e9 / rate;
	}
	return delays;
}

/* The second array of measures.queue_delays_ns: by flow, in the switches of its path. */
static double *switch_delays_ns(const struct lab *lab, const double *port_delays)
{
	double *found = SCRATCH(lab, 1);

	memset(found, 0, lab->flows * sizeof(*found));
	for (uint32_t i = 0; i < lab->path_ports; i++)
		found[lab->path_flow[i]] += port_delays[lab->path_row[i]];
	return found;
}

/* measures.mean_over the flows under way */
static double mean_under_way(const struct lab *lab, double *values)
{
	const struct sm_flow *now = flows_of(lab, lab->slot);
	uint32_t chosen = 0;

	for (uint32_t i = 0; i < lab->flows; i++) {
		values[i] *= now[i].status == SM_FLOW_RUNNING;
		chosen += now[i].status == SM_FLOW_RUNNING;
	}
	return sum(values, lab->flows) / (chosen ? chosen : 1);
}

/* measures.queueing_delays_ns, its mean */
static double queueing_delay_ns(const struct lab *lab)
{
	const struct sm_flow *now = flows_of(lab, lab->slot);
	const double *ports = NULL, *switches = NULL;
	double *values = SCRATCH(lab, 0);

	for (uint32_t i = 0; i < lab->flows; i++) {
		if (now[i].srtt_us) {
			values[i] = most(now[i].srtt_us * 1000.0 - lab->base_rtt_ns[i], 0);
			continue;
		}
		if (!ports) {
			ports = port_delays_ns(lab);
			switches = switch_delays_ns(lab, ports);
		}
		values[i] = ports[lab->first_row[i]] + switches[i];
	}
	return mean_under_way(lab, values);
}

/* reward._equation over the first `rows` ports */
static double thesis(const struct lab *lab, uint32_t rows)
{
	const struct network *network = lab->network;
	const double *force = lab->in_force + (size_t)lab->slot * lab->force_stride;
	const uint64_t *cells = cells_of(lab, lab->slot);
	double *share = SCRATCH(lab, 0), mean, longest = 0;

	for (uint32_t host = 0; host < network->hosts; host++)
		share[host] = force[host] / network->line_bps[host];
	mean = sum(share, network->hosts) / network->hosts;
	for (uint32_t row = 0; row < rows; row++)
		longest = most(longest, (double)cells[row * SM_NR_COLUMNS + SM_BACKLOG_BYTES] /
						network->buffer_bytes[row]);
	return rows ? mean - 2 * mean * longest : mean;
}

/* reward._busy: the mean of what the switch ports that sent used of their lines, or of their delays. */
static double busy(const struct lab *lab, int delays)
{
	const struct network *network = lab->network;
	const double *port_delays = delays ? port_delays_ns(lab) : NULL;
	double share_s = (double)elapsed_ns(lab) / 8e9, *values = SCRATCH(lab, 0), used;
	size_t count = 0;

	for (uint32_t row = 0; row < network->switch_rows; row++) {
		used = change(lab, row * SM_NR_COLUMNS + SM_TX_BYTES) /
		       carried_bytes(lab, network->rate_bps[row], share_s);
		if (used > 0)
			values[count++] = delays ? port_delays[row] / (double)network->base_rtt_ns : used;
	}
	return count ? sum(values, count) / (double)count : 0;
}

static double drops(const struct lab *lab)
{
	const struct network *network = lab->network;
	double share_s = (double)elapsed_ns(lab) / 8e9, *values = SCRATCH(lab, 0), dropped;
	uint32_t rows = network->ports, first = network->switch_rows;

	for (uint32_t row = 0; row < rows; row++)
		values[row] = change(lab, row * SM_NR_COLUMNS + SM_DROPS);
	dropped = sum(values, rows);
	for (uint32_t row = first; row < rows; row++)
		values[row - first] = carried_bytes(lab, network->rate_bps[row], share_s);
	return dropped * lab->network->frame_bytes / sum(values, rows - first);
}

static double reward(const struct lab *lab, uint32_t kind)
{
	const struct network *network = lab->network;
	const double *force = lab->in_force + (size_t)lab->slot * lab->force_stride;
	double *share = SCRATCH(lab, 0);

	switch (kind) {
	case REWARD_GOODPUT:
		return goodput_bps(lab);
	case REWARD_QUEUEING_DELAY:
		return queueing_delay_ns(lab) / (double)network->base_rtt_ns;
	case REWARD_SWITCH_DELAY:
		return mean_under_way(lab, switch_delays_ns(lab, port_delays_ns(lab))) /
		       (double)network->base_rtt_ns;
	case REWARD_THESIS:
		return thesis(lab, network->switch_rows);
	case REWARD_THESIS_ALL:
		return thesis(lab, network->ports);
	case REWARD_ACTION:
		for (uint32_t host = 0; host < network->hosts; host++)
			share[host] = force[host] / network->line_bps[host];
		return sum(share, network->hosts) / network->hosts;
	case REWARD_PORT_UTILIZATION:
		return busy(lab, 0);
	case REWARD_PORT_DELAY:
		return busy(lab, 1);
	case REWARD_DROPS:
		return drops(lab);
	default:
		return 0;
	}
}

void steps_reward(struct lab *lab)
{
	const struct network *network = lab->network;
	double total = 0, value;

	for (uint32_t i = 0; i < network->rewards; i++) {
		value = lab->rewards[i];
		if (network->reward[i] == REWARD_GOODPUT)
			value = lab->fair_bps > 0 ? value / lab->fair_bps : 0;
		total += network->weight[i] * value;
	}
	*lab->reward = total;
}

void steps_measure(struct lab *lab)
{
	const struct network *network = lab->network;

	observe(lab);
	survey(lab);
	if (!lab->slot)
		return;
	for (uint32_t i = 0; i < network->rewards; i++)
		lab->rewards[i] = reward(lab, network->reward[i]);
	steps_reward(lab);
}
