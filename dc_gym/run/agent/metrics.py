# SPDX-License-Identifier: Apache-2.0
"""The metrics in a step's info. They are measured, and do not depend on the reward. docs/environment.md defines each name.

A step has few numbers, and numpy takes as long for one frame as for a hundred. Steps are therefore collected in blocks, and a
block is computed when it is full. A step whose info is read earlier is computed alone; the result is the same to the last bit.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dc_gym.run.agent import measures
from dc_gym.run.agent.frame import PLACES, Floats, Frame, stacked
from dc_gym.run.agent.scene import Scene

BLOCK_STEPS = 128


def metrics(frame: Frame, scene: Scene) -> dict[str, float]:
    """Returns the metrics of one step."""
    return {name: float(values[0]) for name, values in columns(stacked([frame]), scene).items()}


def columns(frames: Frame, scene: Scene) -> dict[str, Floats]:
    """Returns the metrics of stacked frames, each as [frames]. Sums run along the last axis, so that a frame's sums do not depend
    on its neighbours."""
    backlog = frames.column("backlog_bytes")
    switch, host = backlog[:, scene.switch_rows].copy(), backlog[:, scene.host_rows].copy()
    utilization = frames.utilization(scene.rate_bps)
    sent_bps = utilization[:, scene.host_rows] * scene.rate_bps[scene.host_rows]
    counted = frames.changes.sum(1)
    return {
        "goodput_bps": frames.goodput_bps().sum(-1),
        "sent_bps": sent_bps.sum(-1),
        "utilization": utilization[:, scene.switch_rows].max(-1),
        **_delays(frames, scene),
        "switch_queue_bytes_max": switch.max(-1),
        "switch_queue_bytes_mean": switch.sum(-1) / switch.shape[-1],
        "host_queue_bytes_max": host.max(-1),
        "host_queue_bytes_mean": host.sum(-1) / host.shape[-1],
        "drops": counted[:, PLACES["drops"]],
        "marks": counted[:, PLACES["marks"]],
        "retransmits": frames.flow_change("retransmits").sum(-1),
        "flows": np.count_nonzero(frames.under_way, -1).astype(np.float64),
        "rtt_flows": np.count_nonzero(frames.under_way & (frames.flows["srtt_us"] > 0), -1).astype(np.float64),
        "flows_ended": np.count_nonzero(frames.ended, -1).astype(np.float64),
        "jain": measures.jain_of_goodput(frames),
        "wanted": scene.share(frames.wanted_bps).sum(-1) / len(scene.hosts),
        "enforced": scene.share(frames.enforced_bps).sum(-1) / len(scene.hosts),
    }


def _delays(frames: Frame, scene: Scene) -> dict[str, Floats]:
    """Returns the means over the flows under way; 0 if there are none."""
    flows, rtt_us = frames.under_way, frames.flows["srtt_us"].astype(np.float64)
    at_host, in_switches = measures.queue_delays_ns(frames, scene)
    return {
        "queueing_delay_s": measures.mean_over(measures.queueing_delays_ns(frames, scene), flows) / 1e9,
        "switch_delay_s": measures.mean_over(in_switches, flows) / 1e9,
        "host_delay_s": measures.mean_over(at_host, flows) / 1e9,
        "rtt_s": measures.mean_over(rtt_us, flows & (rtt_us > 0)) / 1e6,
    }


BLANK: dict[str, None] = dict.fromkeys(
    (
        *("goodput_bps", "sent_bps", "utilization", "queueing_delay_s", "switch_delay_s", "host_delay_s", "rtt_s"),
        *("switch_queue_bytes_max", "switch_queue_bytes_mean", "host_queue_bytes_max", "host_queue_bytes_mean"),
        *("drops", "marks", "retransmits", "flows", "rtt_flows", "flows_ended", "jain", "wanted", "enforced"),
    )
)
"""The names of the metrics, in order."""


class Frames(Protocol):
    """The frames of a block, in order."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Frame: ...

    def stacked(self) -> Frame:
        """Returns all of them as one stack."""


class FrameList(list[Frame]):
    """Frames that were added one after the other."""

    def stacked(self) -> Frame:
        return stacked(self)


class Block:
    """A block of steps that took equally long. Once the metrics are computed, the frames are dropped and the metrics stay."""

    def __init__(self, scene: Scene, frames: Frames | None = None) -> None:
        """`frames`: where somebody else records the steps; None: `add` adds them."""
        self.scene = scene
        self.frames: Frames = FrameList() if frames is None else frames
        self.columns: dict[str, Floats] | None = None

    def add(self, frame: Frame) -> int:
        """Adds a step and returns its index in the block."""
        assert isinstance(self.frames, FrameList), "these steps are recorded elsewhere"
        self.frames.append(frame)
        return len(self.frames) - 1

    def takes(self, frame: Frame) -> bool:
        """Returns whether the block has room and `frame` took as long as its other steps."""
        return not len(self.frames) or (len(self.frames) < BLOCK_STEPS and self.frames[0].elapsed_ns == frame.elapsed_ns)

    def work_out(self) -> dict[str, Floats]:
        """Computes the metrics of all steps and returns each as [steps]. No step can be added afterwards."""
        if self.columns is None:
            self.columns = columns(self.frames.stacked(), self.scene)
            self.frames = FrameList()
        return self.columns

    def of(self, index: int) -> dict[str, Any]:
        """Returns the metrics of one step, as `metrics` does."""
        if self.columns is None:
            return metrics(self.frames[index], self.scene)
        return {name: float(values[index]) for name, values in self.columns.items()}
