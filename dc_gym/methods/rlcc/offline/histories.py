# SPDX-License-Identifier: Apache-2.0
"""Turns a lab's decisions into training data for eq. 3: a policy's inputs, and the error `delta_lag` decisions on.

The first words of the context that comes with each decision hold what the flow saw (nic/rlcc.h). The memory of a policy that
has one is replayed in the NIC's integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError
from dc_gym.methods.rlcc.offline.data_path import Rows
from dc_gym.methods.rlcc.offline.gradient import Batch
from dc_gym.methods.rlcc.offline.recorded import one_per_flow
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.nic_policy import Integers, TablePolicy, Words
from dc_gym.results.tables import NIC_EVENTS
from dc_gym.run.plan.nics import LEAST_RATE, LINE_RATE, STEP_DTYPE

Mask = npt.NDArray[np.bool_]
RTT = NIC_EVENTS.index("rtt")
INPUT_OFFSETS = np.array([Q16, 0, Q16, 0])
"""Offsets of the inputs: the context stores actions less 1."""
ACTION = 4
"""Index of the action's word."""


def inputs(rows: Rows) -> Floats:
    """Returns inputs [rows, 4] in the order of decision.INPUTS."""
    return np.asarray(_inputs_q16(rows) / Q16)


def _inputs_q16(rows: Rows) -> Integers:
    return np.asarray(rows["state"][:, :4].view("<i4") + INPUT_OFFSETS)


def decisions(rows: Rows) -> Rows:
    """Returns the decisions that a policy made when a probe came back.

    Cuts for overdue probes (rlcc_overdue of rlcc.h) are left out.
    """
    rtt_rows: Rows = rows[rows["event"] == RTT]
    return rtt_rows


@dataclass(slots=True)
class Histories:
    """The histories of all flows in one lab's episode."""

    delta_lag: int
    table: Words
    """The table that the NICs decide by. It may change after each `add`, to one of the same kind."""
    _waiting: Rows = field(default_factory=lambda: np.zeros(0, STEP_DTYPE), init=False)
    """Each flow's latest decisions, whose consequences are not known yet."""
    _before: Integers = field(init=False)
    """The memory before each of them, Q16."""
    _after: Integers = field(init=False)
    """Each flow's current memory, by its number."""

    def __post_init__(self) -> None:
        self._before = self._after = np.zeros((0, TablePolicy(self.table).memory), np.int64)

    def add(self, rows: Rows) -> Batch:
        """Adds decisions in the order of their times, and returns the decisions whose consequences are known now.

        A decision does not count if its error would raise a flow that is at line rate, or cut one that is at the least rate:
        neither can change anything, so the gradient is zero. Otherwise flows that their own NIC limits, as in all-to-all traffic,
        would teach the policy to raise without end. An error that would cut a flow at line rate does count; otherwise random
        weights that always raise would never learn.

        For a policy without memory each decision that counts is a stretch of its own (ordered by flow, then by time). For a
        policy with memory all decisions of a flow since the last call form one stretch.
        """
        new = decisions(rows)
        both, before = np.concatenate([self._waiting, new]), np.concatenate([self._before, self._replayed(new)])
        order = np.argsort(both["flow"], kind="stable")
        both, before = both[order], before[order]
        flow = both["flow"]
        index = np.flatnonzero(flow[: -self.delta_lag] == flow[self.delta_lag :])
        errors = inputs(both[index + self.delta_lag])[:, 3]
        rate = both["rate"][index]
        counted = ~((rate >= LINE_RATE) & (errors < 0) | (rate <= LEAST_RATE) & (errors > 0))
        self._waiting, self._before = np.delete(both, index), np.delete(before, index, axis=0)
        if before.shape[1]:
            return _batch(both[index], before[index], errors, counted, flow[index])
        index = index[counted]
        return _batch(both[index], before[index], errors[counted], counted[counted], np.arange(len(index)))

    def _replayed(self, rows: Rows) -> Integers:
        """Returns [rows, memory]: the policy's memory before each decision, Q16."""
        flow, q16_inputs, memory = rows["flow"].astype(np.int64), _inputs_q16(rows), self._after.shape[1]
        before, actions = np.zeros((len(rows), memory), np.int64), np.zeros(len(rows), np.int64)
        if not memory:
            return before
        policy, born = TablePolicy(self.table), int(flow.max(initial=-1)) + 1 - len(self._after)
        self._after = np.concatenate([self._after, np.zeros((max(0, born), memory), np.int64)])
        for now in one_per_flow(flow):
            before[now] = self._after[flow[now]]
            actions[now], self._after[flow[now]] = policy.integers(q16_inputs[now], before[now])
        if (actions - Q16 != rows["state"][:, ACTION].view("<i4")).any():
            raise ProtocolError("a lab's NIC acted otherwise than its table replayed here; this is a bug")
        return before


def _batch(rows: Rows, before: Integers, errors: Floats, counted: Mask, whose: npt.NDArray[np.integer[Any]]) -> Batch:
    """Makes training data from rows that are ordered by owner, then by time."""
    _, first, lane = np.unique(whose, return_index=True, return_inverse=True)
    time = np.arange(len(rows)) - first[lane]
    shape = (int(time.max(initial=0)) + 1, len(first))
    batch = Batch(np.zeros((*shape, 4)), before[first] / Q16, np.zeros(shape), np.zeros(shape, bool))
    batch.inputs[time, lane], batch.errors[time, lane], batch.counted[time, lane] = inputs(rows), errors, counted
    return batch
