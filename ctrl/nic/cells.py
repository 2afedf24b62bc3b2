# SPDX-License-Identifier: Apache-2.0
"""Table VI of RL-CC for any policy: its action in nine situations, in floats and in integers, beside the paper's.

`case` is a situation as an algorithm's context and event, so that whatever runs rlcc-tree.h or rlcc-mlp.h can be asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dc_gym.ctrl.nic import response
from dc_gym.ctrl.nic.observation import Q16, Scaling, cells
from dc_gym.ctrl.nic.policy_file import Deployed, PolicyFile

STATES = response.STATES
BASE_RTT_NS, RATE_SHIFT, FINE = 1_000_000, 6, 11
"""A flow with a base RTT of 1 ms, a rate of 1/64, kept with 11 more bits than Q20."""
A_NEW, E_NEW, A_LAST, RATE, WORDS = 2, 3, 4, 5, 7
"""Words of the context, rlcc.h."""
RTT_EVENT = 6


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


def case(inputs: Sequence[float], scaling: Scaling) -> Case:
    """Inputs as the context before, and the round trip that makes an algorithm see e_new."""
    a_old, e_old, a_new, e_new = inputs
    state = [0] * WORDS
    state[A_NEW], state[E_NEW], state[A_LAST] = (round((a_old - 1) * Q16), round(e_old * Q16), round((a_new - 1) * Q16))
    rate = 1 << (20 - RATE_SHIFT)
    state[RATE] = rate << FINE
    measured = e_new / scaling.gain + scaling.target
    inflation = scaling.beta + measured * 2.0 ** (RATE_SHIFT / 2) if measured > 0 else 1.0
    now_ns = BASE_RTT_NS * 100
    event = (RTT_EVENT, 0, now_ns, now_ns, 1, 0, 0, now_ns - round(inflation * BASE_RTT_NS), 0, 0)
    return Case(tuple(word & 0xFFFFFFFF for word in state), event, (BASE_RTT_NS, 100_000, 1514, 2), rate)


def cases(file: PolicyFile) -> list[Case]:
    """The nine situations, in the order of `table`."""
    return [case(row, file.scaling) for row in np.reshape(cells(file.scaling.unit), (9, 4)).tolist()]


def action(state: Sequence[int]) -> float:
    """What was decided, from the context afterwards."""
    return 1.0 + float(np.uint32(state[A_LAST]).view(np.int32)) / Q16
