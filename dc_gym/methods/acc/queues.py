# SPDX-License-Identifier: Apache-2.0
"""The queues of an ACC agent (Yan et al., SIGCOMM 2021): their samples, rewards and settings.

A queue belongs to a switch port, or to a class of a port. A sample has four features. The paper does not give the constants that
normalise them:

    queue      mean over the slot, from the time integral of the queue, by Template.queue_input
    rate       bytes sent, as a share of the line's capacity, at most 2
    marked     bytes that left with CE, whichever port marked them, as a share of the same, at most 2
    setting    number of the action in force, over that of the last action

The paper samples qlen at one moment. The reward counts the mean, and one moment says little about a slot of ten round trips.

Queues of a group have one setting (groups.py). Their sample has the mean of their queues, and the bytes that all of them sent as
a share of their lines' capacity. The group's reward is the mean over its queues. The group is idle if all its queues are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.methods.acc.groups import groups_of
from dc_gym.methods.acc.keys import BY_QUEUE, OFF, PAPER
from dc_gym.methods.acc.template import WORTHS, Template
from dc_gym.run.agent.frame import PLACES, Bools, Floats, Frame
from dc_gym.run.agent.scene import Scene

MARKING = "marking"
MOST_SHARE = 2.0
SAME_REWARD = 1e-3
"""Rewards that differ by less count as unchanged. This is ours: the share of the line alone differs by a frame from slot to
slot."""
SAME_SLOTS = 3
"""Slots of one reward after which a queue is idle (section 4.2)."""
Actions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """The queues in the time since the decision before. Arrays have one row a group, which is one queue unless queues share a
    setting."""

    states: Floats
    """[groups, inputs]: the last samples, the oldest first."""
    rewards: Floats
    """[groups]: w1 txRate / BW + w2 D(L). They mean nothing at step 0."""
    idle: Bools
    """[groups]: whether no inference is needed."""


class AccQueues:
    """The queues where one agent sets the marking. A frame of step 0 begins an episode."""

    def __init__(
        self,
        scene: Scene,
        template: Template,
        *,
        worth: str = "step",
        throughput_weight: float = 0.7,
        idle: str = PAPER,
        groups: str = BY_QUEUE,
    ) -> None:
        """`scene`: the agent's. `idle`: one of keys.IDLE. `groups`: one of keys.GROUPS."""
        if [rows.actuator.name for rows in scene.actuated] != [MARKING]:
            named = ", ".join(rows.actuator.name for rows in scene.actuated)
            raise AgentError(f'controller.policy: acc sets marking, and agent.actuators is {named}; give "marking"')
        (actuated,) = scene.actuated
        ports = np.array([scene.port_of(row) for row in actuated.rows.tolist()], np.intp)
        if scene.is_stock[ports].any():
            name = scene.ports[int(ports[scene.is_stock[ports]][0])]
            why = f"acc needs queues that count their mean and CE, and {name} has a stock one"
            raise AgentError(f'controller.policy: {why}; give topology.qdisc = "port"')
        if (asked_ns := template.interval_ns * scene.scale) != scene.step_ns:
            scaled = f" x topology.scale {scene.scale}" if scene.scale > 1 else ""
            decides = f"template {template.name} decides each {template.interval_ns / 1e3:g} us{scaled}"
            raise AgentError(f"agent.interval is {scene.step_ns / 1e3:g} us, and {decides}; give {asked_ns / 1e3:g}us")
        self.names = actuated.names
        self._rows, self._template, self._rule = actuated.rows, template, idle
        self._rate_bps, self._frame_bytes = scene.rate_bps[ports], scene.frame_bytes
        self._worth, self._weight = WORTHS[worth], throughput_weight
        settings = template.table[None].astype(np.float64)  # [1, actions, values]
        low, high = actuated.low[:, None], actuated.high[:, None]
        self._values = np.minimum(np.maximum(settings, low), high)
        self._group = groups_of(scene, ports.tolist(), groups)
        self._count = np.bincount(self._group)
        _, first = np.unique(self._group, return_index=True)
        self._first = np.array([template.nearest(*start) for start in actuated.start[first].tolist()], np.int64)
        self._samples: deque[Floats] = deque(maxlen=template.history)
        self._rewards: deque[Floats] = deque(maxlen=SAME_SLOTS)
        self.settings: Actions = self._first
        """[groups]: the actions in force."""

    def __len__(self) -> int:
        """Returns the number of groups."""
        return len(self._count)

    def values(self, actions: Actions) -> Floats:
        """Returns the values for the actions of each group, [values], within the bounds of each queue."""
        values: Floats = self._values[np.arange(len(self.names)), actions[self._group]].reshape(-1)
        return values

    def _sum(self, values: Floats) -> Floats:
        """Returns the sum over the queues of each group, [groups]."""
        sums: Floats = np.bincount(self._group, values, len(self)).astype(np.float64)
        return sums

    def observe(self, frame: Frame) -> Slot:
        """Returns the slot that ends with a frame. Before the first decision all queues have the action nearest to the spec's
        marking of the first queue in the group."""
        if frame.step == 0:
            self._samples.clear()
            self._rewards.clear()
            self.settings = self._first
        seconds = frame.elapsed_ns / 1e9
        carried = np.maximum(self._rate_bps * (seconds / 8), self._frame_bytes)
        cells = np.concatenate([frame.cells, frame.class_cells])[self._rows]
        before = np.concatenate([frame.before, frame.class_before])[self._rows]
        change = (cells - before).view(np.int64).astype(np.float64)
        mean = change[:, PLACES["queue_byte_ns"]] / max(1, frame.elapsed_ns)
        longest = cells[:, PLACES["longest_bytes"]].astype(np.float64)
        sent, marked = change[:, PLACES["tx_bytes"]], change[:, PLACES["ce_bytes"]]
        line = self._sum(carried)
        sample = np.stack(
            [
                self._template.queue_input(self._sum(mean) / self._count),
                np.minimum(self._sum(sent) / line, MOST_SHARE),
                np.minimum(self._sum(marked) / line, MOST_SHARE),
                self.settings / (len(self._template.actions) - 1),
            ],
            axis=1,
        )
        self._samples.extend([sample] * (1 if self._samples else self._template.history))
        rewards = self._sum(self._weight * (sent / carried) + (1.0 - self._weight) * self._worth(mean)) / self._count
        self._rewards.append(rewards)
        return Slot(np.concatenate(self._samples, axis=1), rewards, self._idle(longest))

    def _idle(self, longest_bytes: Floats) -> Bools:
        """Returns the queues that need no inference: queues that stayed below the lowest Kmin, where no action marks anything,
        and queues whose reward has not changed for three slots.

        The paper compares qlen with Kmin. Kmin in force would hold a queue with a high one there for ever: it is the template's
        lowest here.
        """
        if self._rule == OFF:
            return np.zeros(len(self), bool)
        longest = np.zeros(len(self))
        np.maximum.at(longest, self._group, longest_bytes)
        idle: Bools = longest < self._template.lowest_bytes
        if self._rule == PAPER and len(self._rewards) == SAME_SLOTS:
            rewards = np.stack(self._rewards)
            idle |= rewards.max(axis=0) - rewards.min(axis=0) < SAME_REWARD
        return idle
