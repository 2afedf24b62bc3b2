# SPDX-License-Identifier: Apache-2.0
"""An oracle that maximises equation 4.3 of Iroko's thesis where all flows want the whole line.

The reward is A (1 - 2Q). Without a queue it is A, the mean commanded share, whichever host has the share. So it is largest if as
many flows as share no link have the line, and all others nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import FAIR_SHARE, PolicyContext


def most_disjoint(paths: Sequence[frozenset[int]]) -> list[int]:
    """Returns the largest set of paths that have no link in common, as their numbers; of several sets the first."""
    best: list[int] = []

    def extend(chosen: list[int], free: list[int]) -> None:
        nonlocal best
        if len(chosen) > len(best):
            best = chosen
        for index, number in enumerate(free):
            if len(chosen) + len(free) - index <= len(best):
                return
            extend([*chosen, number], [other for other in free[index + 1 :] if not paths[other] & paths[number]])

    extend([], list(range(len(paths))))
    return best


class DisjointFlows:
    """A policy for hosts with one flow each: the senders of the largest set of flows that share no link send, all others stop."""

    def __init__(self, context: PolicyContext) -> None:
        self._scene, self._action = context.scene, context.action
        self._known: tuple[bytes, npt.NDArray[np.floating]] | None = None

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        key = frame.under_way.tobytes()
        if self._known is None or self._known[0] != key:
            self._known = key, self._rates(frame)
        return self._known[1]

    def _rates(self, frame: Frame) -> npt.NDArray[np.floating]:
        info, flows = frame.info, np.flatnonzero(frame.under_way)
        sent = most_disjoint([frozenset(info.rows[flow].tolist()) for flow in flows])
        senders, rates = info.host[flows[sent]], self._scene.line_bps.copy()
        rates[info.host[flows]] = 0.0
        rates[senders] = FAIR_SHARE * self._scene.line_bps[senders]
        return self._action.from_values(rates)
