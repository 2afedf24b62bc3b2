# SPDX-License-Identifier: Apache-2.0
"""The scenario that RL-CC's figure 11 draws: a flow finds its path under-utilized, then on target, then congested.

Four flows share a link; at LEAVE two of them stop, from RETURN on two new ones begin, at line rate as all flows do. What the
first flow sees and does meanwhile is told decision by decision: in the fluid model with the lag of a round trip, or on the lab's
data path. More new flows at once would fill the buffer, and hide what the policy does. Times are in base round trips.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dc_gym.grounds import nics
from dc_gym.methods.rlcc import recorded
from dc_gym.methods.rlcc.bottleneck import BASE_NS, BUFFER_RTTS, Case
from dc_gym.nets import fluid
from dc_gym.nets.decision import Q16, Floats
from dc_gym.nets.policy_file import Deployed, PolicyFile
from dc_gym.records.results import Result
from dc_gym.sweep import runs

STAY, GUESTS = 2, 2
APART = 50
"""From one start to the next."""
LEAVE, RETURN, END = 1000, 1300, 1700
SHOWN = 950
"""From here on: before it, flows settle."""
PARTS = 8
CONGESTED = 0.5
"""Errors beyond so many targets, up or down, are congestion or an under-utilized path."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What one flow saw and did; a row each decision."""

    where: str
    """"fluid model" or "lab"."""
    times: Floats
    inflation: Floats
    errors: Floats
    """In scaled targets."""
    actions: Floats
    rates: Floats
    """Afterwards, in parts of the line."""

    def state(self) -> list[str]:
        """Of each decision: u, t or c, as Table VI has them."""
        return ["u" if error < -CONGESTED else "c" if error > CONGESTED else "t" for error in self.errors]


def lives() -> list[tuple[int, int]]:
    """(start, stop) of each flow."""
    first = [(number * APART, END if number < STAY else LEAVE) for number in range(STAY + GUESTS)]
    return first + [(RETURN + number * APART, END) for number in range(GUESTS)]


def flows_at(times: Floats) -> Floats:
    """How many there are."""
    return np.asarray(sum(((times >= start) & (times < stop)).astype(np.float64) for start, stop in lives()))


def in_fluid(file: PolicyFile) -> Trace:
    """In the model, by the integer table."""
    planned, policy = np.ceil(np.array(lives()) * PARTS), Deployed(file.table())
    model = fluid.Fluid(fluid.Bottleneck(len(planned), PARTS, buffer=BUFFER_RTTS), file.scaling)
    model.end(np.arange(len(planned)))
    rows, seen = [], 1.0
    for step in range(END * PARTS):
        model.begin(np.flatnonzero(planned[:, 0] == step))
        model.end(np.flatnonzero(planned[:, 1] == step))
        queue = model.queue
        if 0 in model.step(policy):
            rows.append((step / PARTS, seen, model.inputs[0, 3], model.actions[0], model.rate[0]))
            seen = 1.0 + queue
    times, inflation, errors, actions, rates = np.array(rows).T
    return Trace("fluid model", times, inflation, errors / file.scaling.unit, actions, rates)


def in_lab(path: Path, file: PolicyFile, folder: Path) -> Trace:
    """On the lab's data path; `path`: where the policy is."""
    seconds = [(start * BASE_NS / 1e9, stop * BASE_NS / 1e9) for start, stop in lives()]
    end_ms = -(-END * BASE_NS // 10**6)
    case = Case(f"rlcc-{file.kind}", len(seconds), end_ms - 1, 1, path.resolve(), lives_s=tuple(seconds))
    cell = case.cell(folder, "scenario")
    return of_run(runs.run_all([cell])[cell.name])


def of_run(result: Result) -> Trace:
    """Flow 0 of a run on the bottleneck."""
    told, _ = recorded.told(result)
    made, file = recorded.decisions(result.path), recorded.policy_of(result)
    times = told.t_ns / BASE_NS
    mine = told.flow == 0
    errors = made.inputs[mine, 3] / file.scaling.unit
    rates = made.rates[mine] / nics.LINE_RATE
    return Trace("lab", times[mine], told.rtt_ns[mine] / BASE_NS, errors, made.actions_q16[mine] / Q16, rates)


def answer(policy: fluid.Policy, errors: list[float], unit: float) -> Floats:
    """Actions on errors (in targets) that do not depend on them; the flow has been at the first one for long."""
    seen, acted = np.array([[1.0, errors[0] * unit, 1.0, errors[0] * unit]]), [1.0]
    memory = fluid.used_to(policy, seen)
    for error in errors:
        seen = np.array([[seen[0, 2], seen[0, 3], acted[-1], error * unit]])
        decided, memory = fluid.ask(policy, seen, memory)
        acted.append(float(decided[0]))
    return np.array(acted[1:])
