# SPDX-License-Identifier: Apache-2.0
"""The totals in the info of an episode's last step. They are measured, and do not depend on the reward.

TCP alone, oracles and trained policies are compared by these totals. Queues of hosts are listed beside switches' queues, so that
an agent that only moves queues from switches to hosts is visible as such. docs/environment.md defines each name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dc_gym.base.units import TCP_HEADERS_BYTES
from dc_gym.results.metrics.fairness import fairness_of
from dc_gym.run.agent import measures
from dc_gym.run.agent.frame import STOPPED, WAITING, Floats, Frame
from dc_gym.run.agent.metrics import BLANK, Block, metrics
from dc_gym.run.agent.scene import Scene

__all__ = ["EpisodeTotals", "metrics"]

DELAYS = {"queueing_delay_s": "flows", "switch_delay_s": "flows", "host_delay_s": "flows", "rtt_s": "rtt_flows"}
"""Means over the flows under way (or over such flows with an RTT sample), with the metric that counts these flows. An
episode's mean is weighted by this count."""
QUEUES = ("switch_queue_bytes", "host_queue_bytes")
COUNTS = ("drops", "marks", "retransmits", "flows_ended")
SLOWDOWN_PERCENTILES = (50, 99)


@dataclass(slots=True)
class EpisodeTotals:
    """Adds up the totals of an episode. Values are summed in the order of the steps, whenever the totals are read."""

    scene: Scene
    reward: float = 0.0
    steps: int = 0
    _elapsed_ns: int = 0
    _delivered_bytes: float = 0.0
    _weighted: dict[str, float] = field(default_factory=lambda: dict.fromkeys(DELAYS, 0.0))
    _sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BLANK, 0.0))
    _largest: dict[str, float] = field(default_factory=lambda: {f"{queue}_max": 0.0 for queue in QUEUES})
    _delays_s: list[Floats] = field(default_factory=list)
    _completion_ns: list[Floats] = field(default_factory=list)
    _slowdowns: list[Floats] = field(default_factory=list)
    _last: Frame | None = None
    _block: Block = field(init=False)

    def __post_init__(self) -> None:
        self._block = Block(self.scene)

    def add(self, frame: Frame, reward: float) -> Callable[[], dict[str, Any]]:
        """Adds a step's frame and reward. The returned function returns the result of `metrics` for this step."""
        if not self._block.takes(frame):
            self._add_up()
        self.reward += reward
        self.steps += 1
        self._elapsed_ns += frame.elapsed_ns
        self._last = frame
        return partial(self._block.of, self._block.add(frame))

    def finish(self, reward: float, steps: int, last: Frame, first_ns: int) -> dict[str, float]:
        """Returns the totals of an episode whose steps were recorded elsewhere. `first_ns`: the time of its first frame."""
        self.reward, self.steps, self._last, self._elapsed_ns = reward, steps, last, last.t_ns - first_ns
        return self.result()

    def _add_up(self) -> None:
        """Adds the steps of the current block to the totals and starts a new block."""
        block, self._block = self._block, Block(self.scene)
        self.add_up(block)

    def add_up(self, block: Block) -> None:
        """Adds the steps of a block, which follow the steps added before."""
        frames = block.frames
        if not len(frames):
            return
        columns = block.work_out()
        flows = columns["flows"]
        self._delivered_bytes = _sum(self._delivered_bytes, columns["goodput_bps"] * frames[0].elapsed_s / 8)
        for name, counted in DELAYS.items():
            self._weighted[name] = _sum(self._weighted[name], columns[name] * columns[counted])
        for name, values in columns.items():
            self._sums[name] = _sum(self._sums[name], values)
        for name in self._largest:
            self._largest[name] = max(self._largest[name], float(columns[name].max()))
        self._delays_s.append(columns["queueing_delay_s"][flows > 0])
        for step in np.flatnonzero(columns["flows_ended"]).tolist():
            self._completion_ns.append(measures.completion_ns(frames[step]))
            self._slowdowns.append(measures.slowdowns(frames[step]))

    def result(self) -> dict[str, float]:
        """Returns the totals of the steps so far. Entries without data are left out: delays without flows, Jain's index
        below two, slowdowns without completed flows."""
        if self._last is None:
            return {"return": 0.0, "steps": 0.0}
        self._add_up()
        elapsed_s, frame = self._elapsed_ns / 1e9, self._last
        means = {name: total / self.steps for name, total in self._sums.items()}
        totals = {
            "return": self.reward,
            "steps": float(self.steps),
            "elapsed_s": elapsed_s,
            "goodput_bps": self._delivered_bytes * 8 / elapsed_s if elapsed_s else 0.0,
            "lost_goodput_bps": _lost_bytes(frame) * 8 / elapsed_s if elapsed_s else 0.0,
            **{name: means[name] for name in ("sent_bps", "utilization", "wanted", "enforced")},
            **{f"{queue}_mean": means[f"{queue}_mean"] for queue in QUEUES},
            **{f"{queue}_longest": means[f"{queue}_max"] for queue in QUEUES},
            **self._largest,
            **{name: self._sums[name] for name in COUNTS},
        }
        return totals | _fairness_of_lives(frame) | self._delays() | self._completions()

    def _delays(self) -> dict[str, float]:
        means_s = {name: self._weighted[name] / self._sums[counted] for name, counted in DELAYS.items() if self._sums[counted]}
        delays_s = np.concatenate(self._delays_s)
        return means_s | ({"queueing_delay_p99_s": float(np.percentile(delays_s, 99))} if len(delays_s) else {})

    def _completions(self) -> dict[str, float]:
        completions: dict[str, float] = {}
        if self._completion_ns:
            completions["fct_mean_s"] = float(np.concatenate(self._completion_ns).mean()) / 1e9
        slowdowns = np.concatenate([*self._slowdowns, np.empty(0)])
        if len(slowdowns):
            completions["slowdown_mean"] = float(slowdowns.mean())
            for percent, value in zip(SLOWDOWN_PERCENTILES, np.percentile(slowdowns, SLOWDOWN_PERCENTILES), strict=True):
                completions[f"slowdown_p{percent}"] = float(value)
        return completions


def _lost_bytes(frame: Frame) -> float:
    """Returns the lost payload in bytes: UDP payload that was handed to the kernel and has not arrived, and TCP
    retransmissions."""
    flows, udp = frame.flows, frame.info.is_udp
    missing = flows["acked_bytes"][udp].astype(np.float64) - flows["received_bytes"][udp].astype(np.float64)
    return float(missing.sum()) + float(flows["retransmits"][~udp].sum()) * (frame.info.mtu_bytes - TCP_HEADERS_BYTES)


def _fairness_of_lives(frame: Frame) -> dict[str, float]:
    """Returns Jain's index of each flow's mean rate over its life so far, and how many flows these are. Below two flows, or if
    nothing was delivered, the index is left out."""
    flows, started = frame.flows, frame.flows["status"] != WAITING
    begun = started & (flows["status"] <= STOPPED)
    ends = np.where(flows["end_ns"] >= 0, flows["end_ns"], frame.t_ns)[begun]
    lives_ns = np.maximum(ends - flows["start_ns"][begun], 1)
    fairness = fairness_of(flows["received_bytes"][begun] / lives_ns)
    return {name: float(value) for name, value in fairness.items() if value is not None}


def _sum(start: float, values: Floats) -> float:
    """Returns the sum, added one value after the other, as if each had been added in its step."""
    return float(np.cumsum(np.append(start, values))[-1])
