# SPDX-License-Identifier: Apache-2.0
"""The scenario of RL-CC's figure 11: a flow finds its path under-utilized, then on target, then congested.

Four flows share a link. At LEAVE_AT two of them stop; from RETURN_AT on two new ones begin, at line rate as all flows do. The
trace of the first flow has a row for each decision. It comes from the fluid model with a feedback delay of one round trip, or
from the lab's data path. More new flows at once would fill the buffer and hide the policy's behaviour. Times are in base round
trips.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.offline import recorded
from dc_gym.methods.rlcc.offline.bottleneck import BASE_NS, BUFFER_RTTS, BottleneckRun
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.results.results import Result
from dc_gym.run.plan import nics
from dc_gym.run.sweep import runs

STAYING_FLOWS, LEAVING_FLOWS = 2, 2
START_GAP = 50
"""Time from one flow's start to the next."""
LEAVE_AT, RETURN_AT, END_AT = 1000, 1300, 1700
SHOWN_FROM = 950
"""Plots begin here; before this time flows settle."""
STEPS_PER_RTT = 8
CONGESTED = 0.5
"""An error beyond this many targets counts as congested (above 0) or under-utilized (below 0)."""


@dataclass(frozen=True, slots=True)
class FlowTrace:
    """The observations and actions of one flow; one row per decision."""

    where: str
    """"fluid model" or "lab"."""
    times: Floats
    inflation: Floats
    errors: Floats
    """Errors in scaled targets."""
    actions: Floats
    rates: Floats
    """Rates after the decisions, as fractions of the line."""

    def state(self) -> list[str]:
        """Returns the state at each decision: u, t or c, as in Table VI."""
        return ["u" if error < -CONGESTED else "c" if error > CONGESTED else "t" for error in self.errors]


def flow_times() -> list[tuple[int, int]]:
    """Returns (start, stop) of each flow."""
    first = [
        (number * START_GAP, END_AT if number < STAYING_FLOWS else LEAVE_AT) for number in range(STAYING_FLOWS + LEAVING_FLOWS)
    ]
    return first + [(RETURN_AT + number * START_GAP, END_AT) for number in range(LEAVING_FLOWS)]


def flows_at(times: Floats) -> Floats:
    """Returns the number of active flows at each time."""
    return np.asarray(sum(((times >= start) & (times < stop)).astype(np.float64) for start, stop in flow_times()))


def in_fluid(file: NicPolicy) -> FlowTrace:
    """Runs the scenario in the fluid model, with the integer table."""
    planned, policy = np.ceil(np.array(flow_times()) * STEPS_PER_RTT), TablePolicy(file.table())
    model = fluid.Fluid(fluid.Bottleneck(len(planned), STEPS_PER_RTT, buffer_bdp=BUFFER_RTTS), file.scaling)
    model.stop_flows(np.arange(len(planned)))
    rows, rtt = [], 1.0
    for step in range(END_AT * STEPS_PER_RTT):
        model.start_flows(np.flatnonzero(planned[:, 0] == step))
        model.stop_flows(np.flatnonzero(planned[:, 1] == step))
        queue = model.queue
        if 0 in model.step(policy):
            rows.append((step / STEPS_PER_RTT, rtt, model.inputs[0, 3], model.actions[0], model.rate[0]))
            rtt = 1.0 + queue
    times, inflation, errors, actions, rates = np.array(rows).T
    return FlowTrace("fluid model", times, inflation, errors / file.scaling.unit, actions, rates)


def in_lab(path: Path, file: NicPolicy, folder: Path) -> FlowTrace:
    """Runs the scenario on the lab's data path. `path`: the policy's file."""
    seconds = [(start * BASE_NS / 1e9, stop * BASE_NS / 1e9) for start, stop in flow_times()]
    end_ms = -(-END_AT * BASE_NS // 10**6)
    case = BottleneckRun(f"rlcc-{file.kind}", len(seconds), end_ms - 1, 1, path.resolve(), flow_times_s=tuple(seconds))
    cell = case.cell(folder, "scenario")
    return of_run(runs.run_all([cell])[cell.name])


def of_run(result: Result) -> FlowTrace:
    """Returns the trace of flow 0 in a run on the bottleneck."""
    trips, _ = recorded.round_trips(result)
    decisions, file = recorded.decisions(result.path), recorded.policy_of(result)
    times = trips.t_ns / BASE_NS
    rows = trips.flow == 0
    errors = decisions.inputs[rows, 3] / file.scaling.unit
    rates = decisions.rates[rows] / nics.LINE_RATE
    return FlowTrace("lab", times[rows], trips.rtt_ns[rows] / BASE_NS, errors, decisions.actions_q16[rows] / Q16, rates)


def open_loop_actions(policy: fluid.Policy, errors: list[float], unit: float) -> Floats:
    """Returns the actions for a given sequence of errors (in targets), in open loop.

    The flow has seen the first error for long.
    """
    inputs, acted = np.array([[1.0, errors[0] * unit, 1.0, errors[0] * unit]]), [1.0]
    memory = fluid.settled_memory(policy, inputs)
    for error in errors:
        inputs = np.array([[inputs[0, 2], inputs[0, 3], acted[-1], error * unit]])
        decided, memory = fluid.evaluate(policy, inputs, memory)
        acted.append(float(decided[0]))
    return np.array(acted[1:])
