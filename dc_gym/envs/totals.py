# SPDX-License-Identifier: Apache-2.0
"""What the info of a step holds, and of an episode's last step the totals: measured, whatever the reward.

TCP alone, an oracle and a trained policy are compared by these. Queues of hosts stand beside those of switches: an agent that
moves the one into the other shows it. docs/environment.md says what each name is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dc_gym.envs import measures
from dc_gym.envs.frame import PLACES, STOPPED, WAITING, Floats, Frame
from dc_gym.envs.scene import Scene
from dc_gym.metrics.fairness import jain
from dc_gym.traffic.sizes import SEGMENT_BYTES

DELAYS = ("queueing_delay_s", "switch_delay_s", "host_delay_s", "rtt_s")
"""Means over flows under way: an episode's are weighted by how many there were."""
QUEUES = ("switch_queue_bytes", "host_queue_bytes")
COUNTS = ("drops", "marks", "retransmits", "flows_ended")
SLOWDOWN_PERCENTILES = (50, 99)


def metrics(frame: Frame, scene: Scene) -> dict[str, float]:
    """Of one step."""
    backlog, utilization = frame.column("backlog_bytes"), frame.utilization(scene.rate_bps)
    switch, host = backlog[scene.switch_rows], backlog[scene.host_rows]
    counted = frame.changes.sum(axis=0)
    return {
        "goodput_bps": float(frame.goodput_bps().sum()),
        "sent_bps": float(utilization[scene.host_rows] @ scene.rate_bps[scene.host_rows]),
        "utilization": float(utilization[scene.switch_rows].max()),
        **_delays(frame, scene),
        "switch_queue_bytes_max": float(switch.max()),
        "switch_queue_bytes_mean": float(switch.sum()) / len(switch),
        "host_queue_bytes_max": float(host.max()),
        "host_queue_bytes_mean": float(host.sum()) / len(host),
        "drops": float(counted[PLACES["drops"]]),
        "marks": float(counted[PLACES["marks"]]),
        "retransmits": float(frame.flow_change("retransmits").sum()),
        "flows": float(np.count_nonzero(frame.under_way)),
        "flows_ended": float(np.count_nonzero(frame.ended)),
        "jain": measures.jain_of_goodput(frame),
        "wanted": float(scene.share(frame.wanted_bps).sum()) / len(scene.hosts),
        "enforced": float(scene.share(frame.enforced_bps).sum()) / len(scene.hosts),
    }


def _delays(frame: Frame, scene: Scene) -> dict[str, float]:
    """Means over the flows under way; 0 without any."""
    flows, rtt_us = frame.under_way, frame.flows["srtt_us"].astype(np.float64)
    at_host, in_switches = measures.queue_delays_ns(frame, scene)
    return {
        "queueing_delay_s": measures.mean_over(measures.queueing_delays_ns(frame, scene), flows) / 1e9,
        "switch_delay_s": measures.mean_over(in_switches, flows) / 1e9,
        "host_delay_s": measures.mean_over(at_host, flows) / 1e9,
        "rtt_s": measures.mean_over(rtt_us, flows & (rtt_us > 0)) / 1e6,
    }


@dataclass(slots=True)
class EpisodeTotals:
    """Adds up an episode, step by step."""

    scene: Scene
    reward: float = 0.0
    steps: int = 0
    _elapsed_ns: int = 0
    _delivered_bytes: float = 0.0
    _flow_steps: float = 0.0
    _weighted: dict[str, float] = field(default_factory=lambda: dict.fromkeys(DELAYS, 0.0))
    _sums: dict[str, float] = field(default_factory=dict)
    _largest: dict[str, float] = field(default_factory=dict)
    _delays_s: list[float] = field(default_factory=list)
    _completion_ns: list[Floats] = field(default_factory=list)
    _slowdowns: list[Floats] = field(default_factory=list)
    _last: Frame | None = None

    def add(self, frame: Frame, found: Mapping[str, float], reward: float) -> None:
        """A step: its frame, what `metrics` says of it, its reward."""
        self.reward += reward
        self.steps += 1
        self._elapsed_ns += frame.elapsed_ns
        self._delivered_bytes += found["goodput_bps"] * frame.elapsed_s / 8
        self._flow_steps += found["flows"]
        for name in DELAYS:
            self._weighted[name] += found[name] * found["flows"]
        for name, value in found.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        for name in (f"{queue}_max" for queue in QUEUES):
            self._largest[name] = max(self._largest.get(name, 0.0), found[name])
        if found["flows"]:
            self._delays_s.append(found["queueing_delay_s"])
        if found["flows_ended"]:
            self._completion_ns.append(measures.completion_ns(frame))
            self._slowdowns.append(measures.slowdowns(frame))
        self._last = frame

    def result(self) -> dict[str, float]:
        """Of the steps so far. What no flow could tell is left out: delays without flows, slowdowns without one that ended."""
        if self._last is None:
            return {"return": 0.0, "steps": 0.0}
        elapsed_s, frame = self._elapsed_ns / 1e9, self._last
        means = {name: total / self.steps for name, total in self._sums.items()}
        found = {
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
            "jain": _jain_of_lives(frame),
        }
        return found | self._delays() | self._completions()

    def _delays(self) -> dict[str, float]:
        if not self._flow_steps:
            return {}
        found = {name: total / self._flow_steps for name, total in self._weighted.items()}
        return found | {"queueing_delay_p99_s": float(np.percentile(self._delays_s, 99))}

    def _completions(self) -> dict[str, float]:
        found: dict[str, float] = {}
        if self._completion_ns:
            found["fct_mean_s"] = float(np.concatenate(self._completion_ns).mean()) / 1e9
        slowdowns = np.concatenate([*self._slowdowns, np.empty(0)])
        if len(slowdowns):
            found["slowdown_mean"] = float(slowdowns.mean())
            for percent, value in zip(SLOWDOWN_PERCENTILES, np.percentile(slowdowns, SLOWDOWN_PERCENTILES), strict=True):
                found[f"slowdown_p{percent}"] = float(value)
        return found


def _lost_bytes(frame: Frame) -> float:
    """Payload that was lost: UDP's that was handed to the kernel and has not arrived, and what TCP sent again."""
    flows, udp = frame.flows, frame.info.is_udp
    missing = flows["acked_bytes"][udp].astype(np.float64) - flows["received_bytes"][udp].astype(np.float64)
    return float(missing.sum()) + float(flows["retransmits"][~udp].sum()) * SEGMENT_BYTES


def _jain_of_lives(frame: Frame) -> float:
    """Jain's index of each flow's mean rate over its life so far; 0 if nothing was delivered."""
    flows, started = frame.flows, frame.flows["status"] != WAITING
    begun = started & (flows["status"] <= STOPPED)
    ends = np.where(flows["end_ns"] >= 0, flows["end_ns"], frame.t_ns)[begun]
    lives_ns = np.maximum(ends - flows["start_ns"][begun], 1)
    return jain(flows["received_bytes"][begun] / lives_ns) or 0.0
