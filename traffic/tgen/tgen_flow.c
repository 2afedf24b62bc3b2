/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_flow.h"

#include "tgen_orders.h"
#include "tgen_publish.h"

/* --- the beginning ----------------------------------------------------------------------------------- */

struct net_sender flow_sender(const struct run *run, uint32_t number, int ahead)
{
	const struct flow_spec *spec = &run->table->flow[number];

	return (struct net_sender){ .from = { spec->src_addr, spec->src_port },
				    .to = { spec->dst_addr, spec->dst_port },
				    .cc = spec->transport == FLOW_TCP ? spec->cc : NULL,
				    .limits = &run->hosts.limits[spec->src_ns],
				    .ahead = ahead,
				    .acks = spec->acks ? (int)number + 1 : 0,
				    .dscp = spec->dscp };
}

int flow_open(struct run *run, uint32_t number, uint32_t events, const char **step)
{
	struct flow *flow = &run->flows.flow[number];
	const struct net_sender sender = flow_sender(run, number, flow->ahead);
	struct net_plan plan;
	int rc;

	hosts_plan_enter(&run->hosts, &run->calls, flow->spec->src_ns);
	net_plan_sender(&run->calls, &plan, &sender);
	clock_plan(&run->clock, &run->calls);
	net_plan_connect(&run->calls, &plan);
	net_plan_watch(&run->calls, &plan, -1, run->watches.epoll, watch_event(events, WATCH_SENDER, number));
	rc = run_calls(run, step);
	flow->sender = *plan.opened < 0 ? -1 : (int)*plan.opened;
	return rc;
}

static void set_under_way(struct run *run, uint32_t number, bool is)
{
	const struct flow_spec *spec = run->flows.flow[number].spec;
	uint64_t bit = UINT64_C(1) << (number % 64);

	tgen_matrix_count(&run->matrix, run->table->rows + spec->path_start, spec->path_len, is ? 1 : -1);
	run->flows.under_way[number / 64] ^= bit;
	run->memory.flows += is ? 1u : -1u;
}

void flow_begin(struct run *run, uint32_t number)
{
	set_under_way(run, number, true);
}

/* --- the end ----------------------------------------------------------------------------------------- */

static int open_gate(struct run *run, uint32_t gate, int64_t at)
{
	int64_t over = run->config->t0_ns + run->config->duration_ns;
	int rc = 0;

	for (uint32_t i = run->flows.gates.start[gate]; !rc && i < run->flows.gates.start[gate + 1]; i++) {
		uint32_t number = run->flows.gates.flows[i];
		struct flow *flow = &run->flows.flow[number];

		flow->due_ns = at + flow->spec->start_ns;
		if (flow->due_ns < over)
			rc = timers_add(&run->timers, (struct timer){ flow->due_ns, TIMER_START, number });
	}
	return rc;
}

int flow_end(struct run *run, uint32_t number, enum tgen_status status, int64_t at)
{
	struct flow *flow = &run->flows.flow[number];
	int rc = 0;

	set_under_way(run, number, false);
	orders_drop(run, number);
	flow->phase = PHASE_ENDED;
	flow->status = status;
	flow->end_ns = status == TGEN_FAILED ? -1 : at;
	if (flow->spec->transport == FLOW_UDP) {
		receivers_leave(&run->receivers, flow->spec);
		flow_close_end(&flow->sender);
	}
	publish_state(run, number);
	for (uint32_t i = 0; !rc && i < flow->spec->opens_len; i++) {
		uint32_t gate = run->table->opens[flow->spec->opens_start + i];

		if (--run->flows.gates.left[gate] == 0)
			rc = open_gate(run, gate, at);
	}
	return rc ? run_fault(run, rc, "flow %u: open a gate", number) : 0;
}

int flow_fail(struct run *run, uint32_t number, int error, const char *failed)
{
	struct flow *flow = &run->flows.flow[number];

	flow_close_end(&flow->sender);
	flow_close_end(&flow->receiver);
	flow_set_draining(&run->flows, number, false);
	if (flow->phase == PHASE_ENDED)
		return 0;
	flow->error = -error;
	flow->failed = failed;
	return flow_end(run, number, TGEN_FAILED, clock_read(&run->clock));
}
