# SPDX-License-Identifier: Apache-2.0
"""The flows, rivals and quantities that tables 6.1 and 6.2 of FDCC (K. Zhang, MSc thesis 2023) share: n flows to one receiver.

The thesis gives 20 MB a flow, Gaussian starts within 1 ms, 100 Gbit/s, PFC with its rule for thresholds, and a window of one BDP
for every rival. It does not give delays, the buffer, and its rivals' parameters ("their papers'"). Delay and buffer follow from
its numbers. With 4, 16 and 256 flows RL-CC's queue grows by 17 kB a flow, so that is the window of one BDP, and the round trip is
1.36 us: six links of 160 ns, and frames at each hop. The longest queues of 1024 flows are 7 MB, which ports hold under FDCC's
rule with 9 MB a switch. FDCC's network is not published: here it is the policy that comes with dc-gym.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.units import FRAME_BYTES, format_time
from dc_gym.study.collect import PAYLOAD_BYTES, Variant, wire_bytes
from dc_gym.figures import styles
from dc_gym.records.results import Result, number
from dc_gym.study import series
from dc_gym.study.evidence import Evidence, Measure
from dc_gym.study.series import VariantLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Change:
    """A named change of the keys of a contestant's row."""

    label: str
    """It stands in the row's name."""
    keys: Mapping[str, Any]


MB, US, MS = 10**6, 10**3, 10**6
LINE_BPS, DELAY_NS = 100 * 10**9, 160
SIZE_BYTES = 20 * MB
MOST_BYTES = 960 * MB
"""Ours: the flows of a run send that much together, unless --full; with fewer flows each has the thesis' 20 MB."""
PATIENCE, EXTRA_NS = 3, 4 * MS
"""A run lasts that many times as long as the line needs for all flows, and EXTRA_NS more."""
LOSSLESS: Mapping[str, Any] = {
    "topology.rate": "100Gbit/s",
    "topology.delay": f"{DELAY_NS}ns",
    "topology.shared_buffer": "9MB",
    "topology.reserve": "4kB",
    "topology.pfc": "classes",
    "topology.xoff": "fdcc",
}
SCALE = 10
SCALED: Mapping[str, Any] = {"topology.rate": "10Gbit/s", "topology.delay": f"{SCALE * DELAY_NS}ns"}
"""A tenth of the rate at ten times the delay: windows and queues have as many packets as at 100 Gbit/s."""
DUMBBELL: Mapping[str, Any] = {**LOSSLESS, "topology.kind": "dumbbell", "topology.pairs": 64}
FAT_TREE: Mapping[str, Any] = {**LOSSLESS, "topology.preset": "fdcc64"}
DCQCN, TIMELY, HPCC, RLCC, FDCC = "DCQCN", "TIMELY", "HPCC", "RL-CC", "FDCC"
RIVALS: Mapping[str, Mapping[str, Any]] = {
    DCQCN: {"controller.name": "dcqcn", "nic.preset": "paper", "topology.marking": "secn2"},
    TIMELY: {"controller.name": "timely", "nic.preset": "absolute", "topology.marking": "none"},
    HPCC: {"controller.name": "hpcc", "topology.marking": "none"},
    RLCC: {"controller.name": "rlcc-mlp", "topology.marking": "none"},
}
CONTESTANTS: Mapping[str, Mapping[str, Any]] = {**RIVALS, FDCC: {"controller.name": "fdcc", "topology.marking": "none"}}
TOGETHER = Change("starts within 1 us", {"workload.jitter": "1us"})
"""No flow has the line alone before others start: our hypothesis of why FDCC's first flows gain."""
SMALL = Change("packets of 320 bytes", {"nic.payload": "320B"})
"""Frames of 394 bytes, 436 with telemetry, so that a BDP has 31 to 34 of them instead of 11."""
GOODPUT = Measure("goodput", "goodput", digits=3)
OWN_GOODPUT = Measure("own_goodput", "goodput of what its own frames carry", digits=3)
"""Where telemetry does not count against a contestant."""
QUEUE = Measure("queue_bytes", "mean queue (kB)", 1e-3, 4)
TAIL = Measure("queue_p99_bytes", "99th percentile of the queue (kB)", 1e-3, 4)
SLOWDOWN = Measure("slowdown", "mean slowdown", digits=4)
SLOWDOWN_TAIL = Measure("slowdown_p99", "99th percentile of slowdown", digits=4)
UNFAIR = Measure("unfair", "unfair ratio", digits=3)
PAUSED = Measure("paused_share", "paused (% of a flow's life)", 100, 3)
PAUSES = Measure("pauses", "pauses told")
DROPPED = Measure("drops", "frames dropped")
RETRANSMITS = Measure("retransmits", "frames sent again")
UNFINISHED = Measure("unfinished", "flows unfinished")
NOTES = (
    "Goodput is payload over time, from the first start to the last end, over what full frames without telemetry can carry."
    " Slowdown is over the time of a lone flow with such frames. So the 42 bytes of telemetry count against HPCC and FDCC, but"
    " not in the goodput of what a contestant's own frames carry.",
    "The queue is that of the switch port with the largest mean, in sweeps from the first start to the last end.",
    "RL-CC is rlcc-mlp, dc-gym's own network of the published shape. FDCC is the policy that comes with dc-gym: the thesis'"
    " network is not published.",
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """n flows to one."""

    flows: int
    senders: int
    scale: int = 1
    """The line's rate is that part of 100 Gbit/s, and its delay as many times as long (SCALED)."""

    def size_bytes(self, full: bool) -> int:
        return SIZE_BYTES if full else min(SIZE_BYTES, MOST_BYTES // self.flows)

    def keys(self, full: bool) -> dict[str, Any]:
        """Returns the keys of the workload and of time."""
        together_ns = self.flows * standalone_ns(self.size_bytes(full), 0, self.scale)
        duration_ns = -(-(PATIENCE * together_ns + self.scale * EXTRA_NS) // MS) * MS
        return {
            "workload.kind": "many_to_one",
            "workload.senders": min(self.flows, self.senders),
            "workload.flows": self.flows,
            "workload.size": f"{self.size_bytes(full)}B",
            "workload.jitter": "1ms",
            "workload.jitter_distribution": "gaussian",
            "time.duration": format_time(duration_ns),
            "time.warmup": "0s",
            "monitor.interval": format_time(max(10 * US, duration_ns // 2000 // US * US)),
            "monitor.tcp_interval": format_time(duration_ns // 20),
        }


def name(who: str, flows: int, *changes: Change) -> str:
    return f"{', '.join([who, *(each.label for each in changes)])}, {flows} flows"


def labels(changes: Iterable[Change]) -> str:
    """Returns the labels of changes, as the variant of a claim on rows that have them."""
    return ", ".join(each.label for each in changes)


def changed_keys(changes: Iterable[Change]) -> dict[str, Any]:
    return {key: value for each in changes for key, value in each.keys.items()}


def row(
    who: str, traffic: Traffic, network: Mapping[str, Any], paper: Mapping[str, float], *changes: Change, title: str = ""
) -> Variant:
    """Returns the row of a contestant with the window that the thesis gives all of them. `title`: its name, if not `who`."""
    changed = changed_keys(changes)
    values = {**network, **CONTESTANTS[who], **traffic.keys(full=False), "nic.inflight": "1bdp", "nic.trace": "off", **changed}
    full = {**traffic.keys(full=True), **changed}
    return Variant(name(title or who, traffic.flows, *changes), values, color_of(who), paper=paper, full=full)


def color_of(who: str) -> str:
    """Returns the color of a contestant's controller."""
    known = styles.find(str(CONTESTANTS[who]["controller.name"]))
    return known.color if known else "#555555"


def standalone_ns(size_bytes: int, links: int, scale: int = 1) -> int:
    """Returns the time of a lone flow without telemetry over a path of `links` links, all of the same rate and delay."""
    on_the_way = wire_bytes(size_bytes) + max(links - 1, 0) * FRAME_BYTES
    return scale * (on_the_way * 8 * 10**9 // LINE_BPS + links * DELAY_NS)


def measure(result: Result, links: int, scale: int = 1) -> dict[str, float]:
    """Returns the tables' quantities. A flow that did not end leaves those of all flows undefined, a lossy fabric the pauses."""
    flows, summary = result.records("flows"), result.summary
    ended = flows[flows["end_ns"] >= 0]
    found = {
        PAUSES.name: number(summary.get("pauses")),
        PAUSED.name: number(summary.get("paused_share")),
        DROPPED.name: number(summary["drops"]),
        UNFINISHED.name: float(len(flows) - len(ended)),
    }
    if len(ended) < len(flows):
        return found
    found |= _of_all(ended, links, scale)
    found[RETRANSMITS.name] = float(flows["retransmits"].sum())
    return found | {OWN_GOODPUT.name: found[GOODPUT.name] / own_share(result)} | _queue(result, ended)


def own_share(result: Result) -> float:
    """Returns the payload's share of a full frame, over that in a frame of 1440 bytes of it without telemetry."""
    nic = result.manifest["nic"]
    payload_bytes = int(nic["settings"]["payload_bytes"])
    frame_bytes = payload_bytes + FRAME_BYTES - PAYLOAD_BYTES + nic.get("telemetry", {}).get("bytes", 0)
    return float((payload_bytes / frame_bytes) / (PAYLOAD_BYTES / FRAME_BYTES))


def _of_all(ended: np.ndarray, links: int, scale: int) -> dict[str, float]:
    """Returns the quantities of flows that all ended."""
    size_bytes, took_ns = int(ended["size_bytes"][0]), (ended["end_ns"] - ended["start_ns"]).astype(float)
    slowdown, rates = took_ns / standalone_ns(size_bytes, links, scale), size_bytes / took_ns
    carried = len(ended) * standalone_ns(size_bytes, 0, scale)
    return {
        GOODPUT.name: carried / float(ended["end_ns"].max() - ended["start_ns"].min()),
        SLOWDOWN.name: float(slowdown.mean()),
        SLOWDOWN_TAIL.name: float(np.percentile(slowdown, 99)),
        UNFAIR.name: float((rates.max() - rates.mean()) / rates.mean()),
    }


def _queue(result: Result, ended: np.ndarray) -> dict[str, float]:
    """Returns mean and 99th percentile of the queue of the switch port with the largest mean."""
    queues, ports = result.records("queues"), result.ports
    meanwhile = (queues["t_ns"] >= ended["start_ns"].min()) & (queues["t_ns"] <= ended["end_ns"].max())
    backlog = queues["backlog_bytes"][meanwhile].reshape(-1, len(ports))
    at_switches = backlog[:, [row for row, port in enumerate(ports) if port["side"] == "switch"]]
    longest = at_switches[:, at_switches.mean(axis=0).argmax()]
    return {QUEUE.name: float(longest.mean()), TAIL.name: float(np.percentile(longest, 99))}


def figure(evidence: Evidence, counts: Sequence[int], quantities: Sequence[Measure], title: str) -> Figure:
    """Draws a line for each contestant over the numbers of flows, in one plot per quantity."""
    lines = [
        VariantLine(who, evidence.variants[name(who, counts[0])].color, {float(flows): name(who, flows) for flows in counts})
        for who in CONTESTANTS
    ]
    return series.figure(evidence, lines, quantities, "flows", title)


def facts(network: str, counts: Sequence[int], full: bool) -> tuple[tuple[str, str], ...]:
    """Describes how a table was run."""
    sizes = ", ".join(f"{Traffic(flows, 1).size_bytes(full) / MB:g} MB with {flows} flows" for flows in counts)
    return (
        ("Network", f"{network}, 100 Gbit/s, {DELAY_NS} ns a link, 9 MB a switch; PFC with FDCC's rule"),
        ("Traffic", f"flows to one receiver, Gaussian starts within 1 ms; a flow has {sizes}; the thesis: 20 MB"),
        (
            "Contestants",
            "DCQCN (preset paper, secn2), TIMELY (absolute), HPCC, RL-CC (rlcc-mlp), FDCC, each with a window of one BDP",
        ),
    )
