# SPDX-License-Identifier: Apache-2.0
"""From the decisions that a lab hands out to what eq. 3 needs: what a policy saw, and what came of it `later` decisions on.

A flow's decisions are its own: what it saw is in the first words of the context that comes with each (ctrl/nic/rlcc.h). What a
policy that remembers knew besides is replayed in the NIC's integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError
from dc_gym.grounds.nics import LEAST_RATE, LINE_RATE, STEP_DTYPE
from dc_gym.methods.rlcc.data_path import Rows
from dc_gym.methods.rlcc.gradient import Stretches
from dc_gym.methods.rlcc.recorded import turns
from dc_gym.nets.decision import Q16, Floats
from dc_gym.nets.policy_file import Deployed, Integers, Words
from dc_gym.records.digest import NIC_EVENTS

Mask = npt.NDArray[np.bool_]
RTT = NIC_EVENTS.index("rtt")
KEPT = np.array([Q16, 0, Q16, 0])
"""Actions are kept less 1."""
ACTION = 4
"""The action's word."""


def inputs(rows: Rows) -> Floats:
    """[rows, 4] in the order of observation.INPUTS."""
    return np.asarray(_inputs_q16(rows) / Q16)


def _inputs_q16(rows: Rows) -> Integers:
    return np.asarray(rows["state"][:, :4].view("<i4") + KEPT)


def decisions(rows: Rows) -> Rows:
    """Those of a policy when a probe came back; cuts while one is overdue (rlcc_overdue of rlcc.h) are left out."""
    found: Rows = rows[rows["event"] == RTT]
    return found


@dataclass(frozen=True, slots=True)
class Lessons(Stretches):
    """Of flows of which some have decided more often than others."""

    counted: Mask
    """[time, flows]: those that teach. What does not count has led to what does, or fills a place."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Of several labs."""
        time = max(len(part.errors) for part in parts)
        inputs, errors, counted = (
            np.concatenate([_filled(getattr(part, name), time) for part in parts], axis=1)
            for name in ("inputs", "errors", "counted")
        )
        return cls(inputs, np.concatenate([part.memory for part in parts]), errors, counted)


def _filled(values: npt.NDArray[Any], time: int) -> npt.NDArray[Any]:
    """With zeros up to a length."""
    filled = np.zeros((time, *values.shape[1:]), values.dtype)
    filled[: len(values)] = values
    return filled


@dataclass(slots=True)
class Histories:
    """Of the flows of one lab's episode."""

    later: int
    table: Words
    """What NICs decide by: it may change after each `add`, to one of the same kind."""
    _waiting: Rows = field(default_factory=lambda: np.zeros(0, STEP_DTYPE), init=False)
    """Each flow's latest decisions, whose consequences are not known yet."""
    _before: Integers = field(init=False)
    """The memory before each of them, Q16."""
    _after: Integers = field(init=False)
    """Each flow's memory now, by its number."""

    def __post_init__(self) -> None:
        self._before = self._after = np.zeros((0, Deployed(self.table).memory), np.int64)

    def add(self, rows: Rows) -> Lessons:
        """More decisions in the order of their times: those whose consequences are known by now.

        What would have a flow at the line's rate raise, or one at the least rate cut, does not count: it would change nothing, so
        its gradient is zero. Flows that their own NIC holds back, as in all to all, would else teach a policy for ever to raise.
        What would have a flow at the line's rate cut counts, or random weights that raise whatever they see would never learn.

        To a policy that remembers nothing each decision that counts is a stretch of its own (ordered by flow, then by time); of
        one that does all decisions of a flow since the last time are one stretch.
        """
        new = decisions(rows)
        both, before = np.concatenate([self._waiting, new]), np.concatenate([self._before, self._replayed(new)])
        order = np.argsort(both["flow"], kind="stable")
        both, before = both[order], before[order]
        flow = both["flow"]
        place = np.flatnonzero(flow[: -self.later] == flow[self.later :])
        errors = inputs(both[place + self.later])[:, 3]
        rate = both["rate"][place]
        counted = ~((rate >= LINE_RATE) & (errors < 0) | (rate <= LEAST_RATE) & (errors > 0))
        self._waiting, self._before = np.delete(both, place), np.delete(before, place, axis=0)
        if before.shape[1]:
            return _lessons(both[place], before[place], errors, counted, flow[place])
        place = place[counted]
        return _lessons(both[place], before[place], errors[counted], counted[counted], np.arange(len(place)))

    def _replayed(self, rows: Rows) -> Integers:
        """[rows, memory]: what the policy remembered before each decision, Q16."""
        flow, seen, memory = rows["flow"].astype(np.int64), _inputs_q16(rows), self._after.shape[1]
        before, actions = np.zeros((len(rows), memory), np.int64), np.zeros(len(rows), np.int64)
        if not memory:
            return before
        policy, born = Deployed(self.table), int(flow.max(initial=-1)) + 1 - len(self._after)
        self._after = np.concatenate([self._after, np.zeros((max(0, born), memory), np.int64)])
        for now in turns(flow):
            before[now] = self._after[flow[now]]
            actions[now], self._after[flow[now]] = policy.integers(seen[now], before[now])
        if (actions - Q16 != rows["state"][:, ACTION].view("<i4")).any():
            raise ProtocolError("a lab's NIC acted otherwise than its table replayed here; this is a bug")
        return before


def _lessons(rows: Rows, before: Integers, errors: Floats, counted: Mask, whose: npt.NDArray[np.integer[Any]]) -> Lessons:
    """Of rows that are ordered by whose they are, then by time."""
    _, first, lane = np.unique(whose, return_index=True, return_inverse=True)
    time = np.arange(len(rows)) - first[lane]
    shape = (int(time.max(initial=0)) + 1, len(first))
    made = Lessons(np.zeros((*shape, 4)), before[first] / Q16, np.zeros(shape), np.zeros(shape, bool))
    made.inputs[time, lane], made.errors[time, lane], made.counted[time, lane] = inputs(rows), errors, counted
    return made
