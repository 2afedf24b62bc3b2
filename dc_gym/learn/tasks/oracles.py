# SPDX-License-Identifier: Apache-2.0
"""The oracles of the suite: they set the same values as an agent, and know the phases of the episode.

Each is a value of controller.policy, such as dc_gym.learn.tasks.oracles:ShortestFirst. Its numbers were found by a coarse
search on a few episodes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dc_gym.base.units import PPM
from dc_gym.run.agent.frame import PLACES, WAITING, Bools, Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import PolicyContext
from dc_gym.run.agent.scene import Scene

DRAIN_STEPS = 4
"""The steps in which a queue is to drain."""
FILL = 0.9
"""The share of a bandwidth-delay product that is in flight."""
ELEPHANTS_K, INCAST_K = {1: 45, 2: 55}, 1
"""The thresholds for one or two flows, and for more, in full frames."""


def due(frame: Frame, step_ns: int) -> Bools:
    """Returns the flows that start within the next step."""
    starting: Bools = (frame.flows["status"] == WAITING) & (frame.info.start_ns <= frame.t_ns + step_ns)
    return starting


def going(frame: Frame, step_ns: int) -> Bools:
    """Returns the flows under way, and those that start within the next step."""
    return frame.under_way | due(frame, step_ns)


def bottleneck(scene: Scene) -> int:
    """Returns the row of the middle link of a dumbbell: the last port of its first switch."""
    return max(row for row, node in enumerate(scene.nodes) if node == scene.nodes[0])


class AtBottleneck:
    """Shares what the link between the switches of a dumbbell carries now, less its queue, among the hosts that send."""

    def __init__(self, context: PolicyContext) -> None:
        self._scene, self._action = context.scene, context.action
        self._row = bottleneck(context.scene)

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns the action (see Policy)."""
        scene, info = self._scene, frame.info
        drain_bps = float(frame.cells[self._row, PLACES["backlog_bytes"]]) * 8e9 / (DRAIN_STEPS * scene.step_ns)
        hosts = info.host[going(frame, scene.step_ns)]
        senders = np.bincount(hosts[hosts >= 0], minlength=len(scene.hosts)) > 0
        share_bps = max(0.0, float(scene.capacity_bps(frame)[self._row]) - drain_bps) / max(1, int(np.count_nonzero(senders)))
        return self._action.from_values(np.where(senders, np.maximum(share_bps, scene.floor_bps), scene.floor_bps))


class FullPipe:
    """Gives the flows of a dumbbell windows that together hold what its middle link carries in a round trip without queues."""

    def __init__(self, context: PolicyContext) -> None:
        self._scene, self._action, self._rows = context.scene, context.action, context.scene.actuated[0]
        self._row = bottleneck(context.scene)

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns the action (see Policy)."""
        info = frame.info
        rate_bps = float(self._scene.capacity_bps(frame)[self._row])
        queued_ns = float(frame.cells[self._row, PLACES["backlog_bytes"]]) * 8e9 / rate_bps
        round_trip_ns = np.maximum(frame.flows["srtt_us"] * 1000.0 - queued_ns, info.base_rtt_ns)
        packets = FILL * rate_bps * round_trip_ns / 8e9 / self._scene.frame_bytes / len(info)
        return self._action.from_values(np.clip(packets, self._rows.low[:, 0], self._rows.high[:, 0]))


class ShortestFirst:
    """Gives its line to the flow with the least left to send, if no shorter one has its sender or receiver (SRPT)."""

    def __init__(self, context: PolicyContext) -> None:
        self._step_ns, self._action, self._rows = context.scene.step_ns, context.action, context.scene.actuated[0]

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns the action (see Policy)."""
        info, values = frame.info, self._rows.low[:, 0].copy()
        left_bytes = info.size_bytes - frame.flows["acked_bytes"].astype(np.int64)
        senders, receivers = set[int](), set[int]()
        for flow in sorted(np.flatnonzero(going(frame, self._step_ns)).tolist(), key=lambda flow: int(left_bytes[flow])):
            if info.src[flow] not in senders and info.dst[flow] not in receivers:
                senders.add(info.src[flow])
                receivers.add(info.dst[flow])
                values[flow] = self._rows.high[flow, 0]
        return self._action.from_values(values)


class ByCrowd:
    """Gives one or two flows a high threshold, and more a low one, from the step before they start."""

    def __init__(self, context: PolicyContext) -> None:
        self._scene, self._action = context.scene, context.action

    def act(self, observation: Vector, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns the action (see Policy)."""
        flows = np.count_nonzero(due(frame, self._scene.step_ns)) or np.count_nonzero(frame.under_way)
        k_bytes = ELEPHANTS_K.get(int(flows), INCAST_K) * self._scene.frame_bytes
        return self._action.from_values(np.array([k_bytes, k_bytes, PPM], np.float64))
