# SPDX-License-Identifier: Apache-2.0
"""n flows to one receiver, and the quantities that tables 6.1 and 6.2 of FDCC (K. Zhang, MSc thesis 2023) give for them.

The thesis gives 20 MB a flow and Gaussian starts within 1 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dc_gym.base.units import FRAME_BYTES, format_time
from dc_gym.benchmarks.studies.fdcc import common
from dc_gym.benchmarks.studies.fdcc.common import LINE_BPS, MB, MS, PAUSED, PAUSES, SIZE_BYTES, US, Change
from dc_gym.results.results import Result
from dc_gym.study import Claim, Criterion, Measure, Variant, series
from dc_gym.study.collect import wire_bytes
from dc_gym.study.series import Drawing

Changes = Mapping[str, tuple[Change, ...]]  # by contestant
MOST_BYTES = 960 * MB
"""Ours: the flows of a run send that much together, unless --length full; with fewer flows each has the thesis' 20 MB."""
PATIENCE, EXTRA_NS = 3, 4 * MS  # a run lasts that many times as long as the line needs for all flows, and EXTRA_NS more
SCALE = 10
SCALED: Mapping[str, Any] = {"topology.rate": "10Gbit/s", "topology.delay": f"{SCALE * common.DELAY_NS}ns"}
"""A tenth of the rate at ten times the delay: windows and queues have as many packets as at 100 Gbit/s."""
TOGETHER = Change("starts within 1 us", {"workload.jitter": "1us"})  # no flow has the line alone before others start
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
RETRANSMITS = Measure("retransmits", "frames sent again")
PRINTED = (QUEUE, TAIL, SLOWDOWN, SLOWDOWN_TAIL, UNFAIR, GOODPUT)  # the columns of the thesis' table 6.2, in its order
MEASURES = (*PRINTED, OWN_GOODPUT, PAUSED, PAUSES, RETRANSMITS, common.DROPPED, common.UNFINISHED)
TRAFFIC = f"to one receiver, Gaussian starts within 1 ms; 20 MB a flow, in all at most {MOST_BYTES // MB} MB unless --length full"
NOTES = (
    "Goodput is payload over time, from the first start to the last end, over what full frames without telemetry can carry."
    " Slowdown is over the time of a lone flow with such frames. So the 42 bytes of telemetry count against HPCC and FDCC, but"
    " not in the goodput of what a contestant's own frames carry.",
    "The queue is that of the switch port with the largest mean, in sweeps from the first start to the last end.",
    common.POLICIES,
)


def keys(flows: int, senders: int, scale: int, full: bool) -> dict[str, Any]:
    """Returns the keys of the workload and of time. The line's rate is 1/scale of 100 Gbit/s, its delay scale times as long."""
    size_bytes = SIZE_BYTES if full else min(SIZE_BYTES, MOST_BYTES // flows)
    together_ns = flows * standalone_ns(size_bytes, 0, scale)
    duration_ns = -(-(PATIENCE * together_ns + scale * EXTRA_NS) // MS) * MS
    return {
        "workload.kind": "many_to_one",
        "workload.senders": min(flows, senders),
        "workload.flows": flows,
        "workload.size": f"{size_bytes}B",
        "workload.jitter": "1ms",
        "workload.jitter_distribution": "gaussian",
        "time.duration": format_time(duration_ns),
        "time.warmup": "0s",
        "monitor.interval": format_time(max(10 * US, duration_ns // 2000 // US * US)),
        "monitor.tcp_interval": format_time(duration_ns // 20),
    }


def name(contestant: str, flows: int, *changes: Change, network: str = "") -> str:
    """Returns a variant's name. `network`: the network's name, where a study has several."""
    return common.named(*filter(None, [network]), contestant, changes=changes, after=f"{flows} flows")


def figure(points: Mapping[str, Sequence[int]], measures: Sequence[Measure], title: str) -> Drawing:
    """Returns the drawing of the contestants over the numbers of flows, which `points` has by the network's name."""
    lines = common.lines(points, lambda network, contestant, flows: name(contestant, flows, network=network))
    return partial(series.figure, series=lines, columns=measures, xlabel="flows", title=title)


def variant(
    contestant: str, flows: int, senders: int, network: Mapping[str, Any], *changes: Change, network_name: str = "", **more: Any
) -> Variant:
    """Returns the variant of a contestant. `more`: other fields of Variant; the scale is that which `measure` is given."""
    scale = more.get("given", {}).get("scale", 1)
    default_keys, full = (keys(flows, senders, scale, full) for full in (False, True))
    return common.variant(
        name(contestant, flows, *changes, network=network_name), contestant, {**network, **default_keys}, full, changes, **more
    )


def compared(
    source: str,
    text: str,
    criterion: Callable[[str, str, Measure], Criterion],
    contestant: str,
    others: Iterable[str],
    measures: Sequence[Measure],
    counts: Sequence[int],
    changes: Changes | None = None,
    setup: str = "",
    network: str = "",
) -> Claim:
    """Returns the claim that a criterion holds between a contestant and each of the others, with each number of flows."""

    def called(contender: str, flows: int) -> str:
        return name(contender, flows, *(changes or {}).get(contender, ()), network=network)

    pairs = [(called(contestant, flows), called(other, flows)) for flows in counts for other in others]
    return Claim(text, source, tuple(criterion(*pair, measure) for pair in pairs for measure in measures), setup)


def standalone_ns(size_bytes: int, links: int, scale: int = 1) -> int:
    """Returns the time of a lone flow without telemetry over a path of `links` links, all of the same rate and delay."""
    on_the_way = wire_bytes(size_bytes) + max(links - 1, 0) * FRAME_BYTES
    return scale * (on_the_way * 8 * 10**9 // LINE_BPS + links * common.DELAY_NS)


def measure(result: Result, links: int, scale: int = 1) -> dict[str, float]:
    """Returns the tables' quantities. Those over all flows are missing if a flow did not end, and pauses in a lossy fabric."""
    flows = result.records("flows")
    ended = flows[flows["end_ns"] >= 0]
    values = common.told(result, PAUSES, PAUSED, common.DROPPED) | {common.UNFINISHED.name: float(len(flows) - len(ended))}
    if len(ended) < len(flows):
        return values
    values |= _of_all(ended, links, scale)
    values[RETRANSMITS.name] = float(flows["retransmits"].sum())
    return values | {OWN_GOODPUT.name: values[GOODPUT.name] / common.own_share(result)} | _queue(result, ended)


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
