# SPDX-License-Identifier: Apache-2.0
"""Draws runs of FDCC's studies over time, and the dumbbell and rates that its figures 6.1 and 6.2 share.

Flows of n senders cross the middle link to one receiver. Each starts and stops at a time of the figure, and has no other end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.units import FRAME_BYTES, format_time, parse_time_ns
from dc_gym.benchmarks.studies.fdcc import common
from dc_gym.benchmarks.studies.fdcc.common import CONTESTANTS, LINE_BPS, MS, US
from dc_gym.figures import kit
from dc_gym.metrics import Window, series
from dc_gym.records.results import Result
from dc_gym.study.collect import PAYLOAD_BYTES
from dc_gym.study.evidence import Evidence, Floats, Track, VariantEvidence
from dc_gym.study.model import Variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BPS = LINE_BPS * PAYLOAD_BYTES / FRAME_BYTES
"""Payload that frames without telemetry can carry."""
POINTS = 100
"""Number of points of a track."""
FLOW_COLORS = ("#332288", "#CC6677", "#117733", "#999933")
NETWORK = {
    **common.LOSSLESS,
    "topology.kind": "dumbbell",
    "workload.kind": "matrix",
    "workload.jitter": "10us",
    "time.warmup": "0s",
}
Line = tuple[str, str, Floats, Floats]
"""Its label (empty: not in the legend), color, x and y."""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    lines: Sequence[Line]
    unit: str = ""
    top: float | None = None
    """Upper end of its axis; None: as the lines need it."""


def matrix(rows: Iterable[tuple[str, str, int, float, float]]) -> str:
    """Returns a list of flows. `rows`: source, destination, port, start and stop in ms."""
    lines = [f"{source},{to},{port},{start / 1e3:g},{stop / 1e3:g},0" for source, to, port, start, stop in rows]
    return "\n".join(["source,destination,port,start,stop,size", *lines]) + "\n"


def flows(times_ms: Sequence[tuple[float, float]]) -> str:
    """Returns the list of flows: one a sender, to the receiver behind the middle link. `times_ms`: start and stop of each."""
    to = f"h{len(times_ms) + 1}"
    return matrix((f"h{host}", to, 5001, *times) for host, times in enumerate(times_ms, 1))


def keys(file: str, duration_ms: float, interval_us: int) -> dict[str, Any]:
    """Returns the keys of the workload and of time; samples are `interval_us` apart."""
    return {
        "workload.file": file,
        "time.duration": format_time(round(duration_ms * MS)),
        "monitor.interval": format_time(interval_us * US),
        "monitor.tcp_interval": format_time(interval_us * US),
    }


def variants(senders: int, own: dict[str, Any], full: dict[str, Any]) -> list[Variant]:
    """Returns a variant for each contestant. `full`: the keys that --length full changes."""
    network = {**NETWORK, "topology.pairs": senders}
    return [common.variant(who, who, {**network, **own}, full, tracks=1) for who in CONTESTANTS]


def rates(result: Result, intervals: int, most_bps: float = MOST_BPS) -> tuple[Floats, Floats]:
    """Returns the middles of intervals in ms, and each flow's goodput in them: [flows, intervals], of `most_bps`."""
    duration_ns = parse_time_ns(result.manifest["spec"]["time"]["duration"], "time.duration")
    drawn = series(result.stored, duration_ns, Window(0, duration_ns), intervals)
    return drawn.t_s * 1e3, np.nan_to_num(drawn.goodput_bps) / most_bps


def intervals(result: Result, interval_us: int) -> int:
    """Returns how many intervals a run has."""
    return parse_time_ns(result.manifest["spec"]["time"]["duration"], "time.duration") // (interval_us * US)


def track(result: Result, most_bps: float = MOST_BPS) -> Track:
    """Returns each flow's goodput over time in ms, by its number."""
    t_ms, shares = rates(result, POINTS, most_bps)
    return Track(t_ms, {str(flow): share.round(4) for flow, share in enumerate(shares)})


def figure(evidence: Evidence, title: str, names: Sequence[str]) -> Figure:
    """Draws the goodput of each flow and their sum, a panel for each variant (seed 1)."""

    def panel(each: VariantEvidence) -> Panel:
        one = next(iter(each.over_time.values()))
        lines = [("all", "#AAAAAA", one.x, np.sum(list(one.values.values()), axis=0))]
        lines += [(who, FLOW_COLORS[flow], one.x, one.values[str(flow)]) for flow, who in enumerate(names)]
        return Panel(f"{each.name}: goodput, of what the line can carry (seed 1)", lines, top=1.1)

    return draw(title, "Time (ms)", [panel(each) for each in evidence.variants.values()])


def draw(title: str, xlabel: str, panels: Sequence[Panel], marks: Sequence[float] = ()) -> Figure:
    """Draws panels of lines below each other, with one legend. `marks`: where vertical lines are drawn."""
    with kit.style():
        canvas = kit.new_figure(7.4, 1.0 + 1.6 * len(panels) if len(panels) > 2 else 5.0)
        axes = canvas.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        labels: dict[str, Any] = {}
        for ax, panel in zip(axes, panels, strict=True):
            for label, color, x, y in panel.lines:
                (line,) = ax.plot(x, y, color=color, linewidth=1.0)
                labels.setdefault(label, line)
            for mark in marks:
                ax.axvline(mark, color="#BBBBBB", linewidth=0.8)
            ax.set_title(panel.title, loc="left")
            ax.set_ylabel(panel.unit)
            ax.set_ylim(0, panel.top)
        axes[-1].set_xlabel(xlabel)
        labels.pop("", None)
        if labels:
            canvas.legend(labels.values(), labels, loc="outside lower center", ncols=len(labels))
        kit.title(canvas, title)
    return canvas
