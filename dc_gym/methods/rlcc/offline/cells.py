# SPDX-License-Identifier: Apache-2.0
"""Table VI of RL-CC for any policy: its actions in nine situations, in floats and in integers, beside the paper's.

`situation` gives a situation as an algorithm's context and event, so that any program that runs rlcc-tree.h or rlcc-mlp.h can be
tested on it. For a policy with memory, the flow has been on target for long and then sees the two states, one after the other.

`trace_of_table` produces each situation with events alone: a flow's first probe sees the previous state, its second probe the
current one. The actions in between are then the policy's own (1 before the first) instead of the 1.1 in the paper's caption.
This hardly matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from dc_gym.ctrl.nic.events import RTT, NicEvent, NicFlow
from dc_gym.ctrl.nic.golden import NEW_FLOW, Q20, RunnerDecision, Step
from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.decision import Scaling, cells
from dc_gym.methods.rlcc.offline import response
from dc_gym.methods.rlcc.policy import network_of
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.nic_kind import NicKindReference
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy

STATES = response.STATES
BASE_RTT_NS, RATE_SHIFT, FINE = 1_000_000, 6, 11
"""A flow with a base RTT of 1 ms and a rate of 1/64 of the line. The rate is stored with 11 more bits than Q20."""
FLOW = NicFlow(BASE_RTT_NS, 100_000, 1514, 2)
A_NEW, E_NEW, A_LAST, RATE, WORDS = 2, 3, 4, 5, 7
"""Indices of words in the context (rlcc.h). The policy's memory follows after word WORDS."""


TABLE_BOUND = 0.005
"""Largest difference in Table VI's cells between the policy in integers and in floats."""
BOUNDS = {"tree": 0.005, "mlp": 0.005, "mlp8": 0.04, "lstm": 0.005}
"""Largest difference between an action in integers and in floats, on golden traces."""


@dataclass(frozen=True, slots=True)
class TableVICell:
    """One of the nine cells of Table VI: the action after two states."""

    before: str
    now: str
    paper: float
    artifact: float
    exact: float
    """The policy's action in floats."""
    integer: float
    """The table's action, as the NIC computes it."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A situation as an algorithm meets it."""

    state: tuple[int, ...]
    """Words of the context before the decision."""
    event: tuple[int, ...]
    """Fields of struct cc_event."""
    flow: tuple[int, ...]
    """Fields of struct cc_flow."""
    rate: int
    """The rate decided last, Q20."""


def table(file: NicPolicy) -> list[TableVICell]:
    """Returns the nine cells of a policy, row by row."""
    inputs = cells(file.scaling.unit)
    exact, integer = network_of(file)(inputs), TablePolicy(file.table())(inputs)
    return [
        TableVICell(before, now, response.PAPER[i][j], response.CELLS[i][j], float(exact[i, j]), float(integer[i, j]))
        for i, before in enumerate(STATES)
        for j, now in enumerate(STATES)
    ]


def situation(inputs: Sequence[float], scaling: Scaling, memory: Sequence[int] = ()) -> Situation:
    """Returns a situation whose context holds the inputs, and whose round trip makes the algorithm see e_new."""
    a_old, e_old, a_new, e_new = inputs
    state = [0] * WORDS + list(memory)
    state[A_NEW], state[E_NEW], state[A_LAST] = (round((a_old - 1) * Q16), round(e_old * Q16), round((a_new - 1) * Q16))
    rate = 1 << (20 - RATE_SHIFT)
    state[RATE] = rate << FINE
    event = astuple(round_trip(e_new, 2.0**-RATE_SHIFT, scaling, 0))
    return Situation(tuple(word & 0xFFFFFFFF for word in state), event, astuple(FLOW), rate)


def round_trip(error: float, rate: float, scaling: Scaling, flags: int) -> NicEvent:
    """Returns the probe answer that makes a flow of this rate see this error."""
    measured = error / scaling.gain + scaling.target
    inflation = scaling.beta + measured / math.sqrt(rate) if measured > 0 else 1.0
    now_ns = BASE_RTT_NS * 100
    return NicEvent(RTT, flags, now_ns, now_ns, 1, 0, 0, now_ns - round(inflation * BASE_RTT_NS), 0, 0)


def situations(file: NicPolicy) -> list[Situation]:
    """Returns the nine situations, in the order of `table`."""
    rows, deployed = np.reshape(cells(file.scaling.unit), (9, 4)), TablePolicy(file.table())
    words = np.rint(fluid.memory_after_older(deployed, rows) * Q16).astype(np.int64)
    return [situation(row, file.scaling, memory) for row, memory in zip(rows.tolist(), words.tolist(), strict=True)]


def action(state: Sequence[int]) -> float:
    """Returns the last decision's action, from the context after it."""
    return 1.0 + float(np.uint32(state[A_LAST]).view(np.int32)) / Q16


def trace_of_table(file: NicPolicy) -> list[Step]:
    """Returns two events for each of the nine situations, each time for a new flow."""
    unit, deployed = file.scaling.unit, TablePolicy(file.table())
    steps: list[Step] = []
    for before in (-unit, 0.0, unit):
        acted, _ = deployed.step(np.array([[1.0, 0.0, 1.0, before]]), np.zeros((1, deployed.memory)))
        rate = min(1.0, float(acted[0]))
        for now in (-unit, 0.0, unit):
            steps.append((round_trip(before, 1.0, file.scaling, NEW_FLOW), FLOW))
            steps.append((round_trip(now, math.floor(rate * Q20) / Q20, file.scaling, 0), FLOW))
    return steps


def inputs_of(state: Sequence[int]) -> list[float]:
    """Returns the inputs of a decision, from the context after it."""
    words = np.asarray(state[:4], np.uint32).view(np.int32) / Q16
    return [float(value) for value in words + np.array([1.0, 0.0, 1.0, 0.0])]


def float_actions(file: NicPolicy, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> Floats:
    """Returns the policy's actions in floats for the inputs of given decisions (the contexts before and after them)."""
    memory = np.array([row[WORDS:] for row in before], np.uint32).view(np.int32) / Q16
    return fluid.evaluate(file.policy, np.array([inputs_of(row) for row in after]), memory)[0]


def distance(file: NicPolicy, steps: Sequence[Step], decisions: Sequence[RunnerDecision]) -> tuple[int, float]:
    """Compares the decisions on any trace with the policy in floats, each for the inputs that it had.

    Returns the number of decisions and the largest difference.
    """
    before, after = [], []
    for number, ((event, _), decision) in enumerate(zip(steps, decisions, strict=True)):
        if event.type == RTT:
            new = not number or event.flags & NEW_FLOW
            before.append((0,) * len(decision.state) if new else decisions[number - 1].state)
            after.append(decision.state)
    return len(after), float(np.abs(float_actions(file, before, after) - np.array([action(row) for row in after])).max())


def distances(
    file: NicPolicy, traces: Iterable[tuple[Sequence[Step], Sequence[RunnerDecision]]]
) -> tuple[int, float, int | None]:
    """Returns the number of decisions of several traces, and the largest difference (distance)."""
    rows = [distance(file, steps, decisions) for steps, decisions in traces]
    return sum(row[0] for row in rows), max(row[1] for row in rows), None


def table_of_trace(file: NicPolicy, decisions: Sequence[RunnerDecision]) -> list[TableVICell]:
    """Returns the nine cells from an algorithm's decisions on `trace_of_table`. `exact` is for the inputs that these had."""
    before, after = [decision.state for decision in decisions[0::2]], [decision.state for decision in decisions[1::2]]
    return [
        TableVICell(cell.before, cell.now, cell.paper, cell.artifact, float(float_action), action(row))
        for cell, float_action, row in zip(table(file), float_actions(file, before, after), after, strict=True)
    ]


REFERENCES = {
    kind: NicKindReference(output_bound=bound, distances=distances, outputs="actions") for kind, bound in BOUNDS.items()
}
