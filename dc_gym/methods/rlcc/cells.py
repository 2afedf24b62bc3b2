# SPDX-License-Identifier: Apache-2.0
"""Table VI of RL-CC for any policy: its action in nine situations, in floats and in integers, beside the paper's.

`case` is a situation as an algorithm's context and event, so that whatever runs rlcc-tree.h or rlcc-mlp.h can be asked for it.
A policy that remembers is asked as a flow that was on target for long and sees both, one after the other.
`lives` brings each about by events alone: a flow's first probe sees the previous state, its second the current one. Actions in
between are the policy's own then (1 before the first), not the 1.1 of the paper's caption; they hardly matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from dc_gym.ctrl.nic.events import RTT, Event, Flow
from dc_gym.ctrl.nic.golden import NEW_FLOW, Q20, Decided, Step
from dc_gym.nets import fluid, response
from dc_gym.nets.decision import Q16, Floats, Scaling, cells
from dc_gym.nets.policy_file import Deployed, PolicyFile

STATES = response.STATES
BASE_RTT_NS, RATE_SHIFT, FINE = 1_000_000, 6, 11
"""A flow with a base RTT of 1 ms, a rate of 1/64, kept with 11 more bits than Q20."""
FLOW = Flow(BASE_RTT_NS, 100_000, 1514, 2)
A_NEW, E_NEW, A_LAST, RATE, WORDS = 2, 3, 4, 5, 7
"""Words of the context, rlcc.h; behind them is what a policy remembers."""


TABLE_BOUND = 0.005
"""Of Table VI's cells in integers from the same policy in floats."""
BOUNDS = {"tree": 0.005, "mlp": 0.005, "mlp8": 0.04, "lstm": 0.005}
"""Of an action in integers from the same policy in floats, on golden traces (docs/rlcc-policy.md has other situations)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One of the nine."""

    before: str
    now: str
    paper: float
    artifact: float
    exact: float
    """The policy's action in floats."""
    integer: float
    """The table's, as the NIC computes it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A situation as an algorithm meets it."""

    state: tuple[int, ...]
    """Words of the context before."""
    event: tuple[int, ...]
    """Fields of struct cc_event."""
    flow: tuple[int, ...]
    """Fields of struct cc_flow."""
    rate: int
    """Q20, decided last."""


def table(file: PolicyFile) -> list[Cell]:
    """The nine cells of a policy, row by row."""
    inputs = cells(file.scaling.unit)
    exact, integer = file.policy(inputs), Deployed(file.table())(inputs)
    return [
        Cell(before, now, response.PAPER[i][j], response.CELLS[i][j], float(exact[i, j]), float(integer[i, j]))
        for i, before in enumerate(STATES)
        for j, now in enumerate(STATES)
    ]


def case(inputs: Sequence[float], scaling: Scaling, memory: Sequence[int] = ()) -> Case:
    """Inputs as the context before, and the round trip that makes an algorithm see e_new."""
    a_old, e_old, a_new, e_new = inputs
    state = [0] * WORDS + list(memory)
    state[A_NEW], state[E_NEW], state[A_LAST] = (round((a_old - 1) * Q16), round(e_old * Q16), round((a_new - 1) * Q16))
    rate = 1 << (20 - RATE_SHIFT)
    state[RATE] = rate << FINE
    event = astuple(round_trip(e_new, 2.0**-RATE_SHIFT, scaling, 0))
    return Case(tuple(word & 0xFFFFFFFF for word in state), event, astuple(FLOW), rate)


def round_trip(error: float, rate: float, scaling: Scaling, flags: int) -> Event:
    """The answer to a probe that makes a flow of this rate see this error."""
    measured = error / scaling.gain + scaling.target
    inflation = scaling.beta + measured / math.sqrt(rate) if measured > 0 else 1.0
    now_ns = BASE_RTT_NS * 100
    return Event(RTT, flags, now_ns, now_ns, 1, 0, 0, now_ns - round(inflation * BASE_RTT_NS), 0, 0)


def cases(file: PolicyFile) -> list[Case]:
    """The nine situations, in the order of `table`."""
    rows, deployed = np.reshape(cells(file.scaling.unit), (9, 4)), Deployed(file.table())
    words = np.rint(fluid.older_seen(deployed, rows) * Q16).astype(np.int64)
    return [case(row, file.scaling, kept) for row, kept in zip(rows.tolist(), words.tolist(), strict=True)]


def action(state: Sequence[int]) -> float:
    """What was decided, from the context afterwards."""
    return 1.0 + float(np.uint32(state[A_LAST]).view(np.int32)) / Q16


def lives(file: PolicyFile) -> list[Step]:
    """Two events for each of the nine, of a new flow each time."""
    unit, deployed = file.scaling.unit, Deployed(file.table())
    steps: list[Step] = []
    for before in (-unit, 0.0, unit):
        acted, _ = deployed.step(np.array([[1.0, 0.0, 1.0, before]]), np.zeros((1, deployed.memory)))
        rate = min(1.0, float(acted[0]))
        for now in (-unit, 0.0, unit):
            steps.append((round_trip(before, 1.0, file.scaling, NEW_FLOW), FLOW))
            steps.append((round_trip(now, math.floor(rate * Q20) / Q20, file.scaling, 0), FLOW))
    return steps


def inputs_of(state: Sequence[int]) -> list[float]:
    """What a policy saw, from the context after its decision."""
    words = np.asarray(state[:4], np.uint32).view(np.int32) / Q16
    return [float(value) for value in words + np.array([1.0, 0.0, 1.0, 0.0])]


def exact(file: PolicyFile, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> Floats:
    """The policy's actions in floats, for what decisions saw: contexts before and after them."""
    memory = np.array([row[WORDS:] for row in before], np.uint32).view(np.int32) / Q16
    return fluid.ask(file.policy, np.array([inputs_of(row) for row in after]), memory)[0]


def distance(file: PolicyFile, steps: Sequence[Step], made: Sequence[Decided]) -> tuple[int, float]:
    """Of decisions on any trace, each for what it saw: how many, and the largest difference to the policy in floats."""
    before, after = [], []
    for number, ((event, _), each) in enumerate(zip(steps, made, strict=True)):
        if event.type == RTT:
            new = not number or event.flags & NEW_FLOW
            before.append((0,) * len(each.state) if new else made[number - 1].state)
            after.append(each.state)
    return len(after), float(np.abs(exact(file, before, after) - np.array([action(row) for row in after])).max())


def lived(file: PolicyFile, made: Sequence[Decided]) -> list[Cell]:
    """The nine cells from what an algorithm decided on `lives`; `exact` is the policy in floats for what it saw."""
    before, after = [each.state for each in made[0::2]], [each.state for each in made[1::2]]
    return [
        Cell(cell.before, cell.now, cell.paper, cell.artifact, float(said), action(row))
        for cell, said, row in zip(table(file), exact(file, before, after), after, strict=True)
    ]
