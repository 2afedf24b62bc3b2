# SPDX-License-Identifier: Apache-2.0
"""Flows' goodput over time, which figures 3.3, 6.1 and 6.2 of FDCC draw, and the dumbbell of the latter two.

Flows of n senders cross the middle link to one receiver. Each starts and stops at a time of the figure, and has no other end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.units import FRAME_BYTES, format_time, parse_time_ns
from dc_gym.benchmarks.studies.fdcc import common
from dc_gym.benchmarks.studies.fdcc.common import CONTESTANTS, LINE_BPS, MS, US
from dc_gym.results.figures import kit
from dc_gym.results.metrics import Window, series
from dc_gym.results.results import Result
from dc_gym.study import Evidence, Floats, Track, Variant, collect
from dc_gym.study.collect import PAYLOAD_BYTES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BPS = LINE_BPS * PAYLOAD_BYTES / FRAME_BYTES  # payload that frames without telemetry can carry
POINTS = 100  # number of points of a track
FLOW_COLORS = ("#332288", "#CC6677", "#117733", "#999933")
NETWORK = {
    **common.LOSSLESS,
    "topology.kind": "dumbbell",
    "workload.kind": "matrix",
    "workload.jitter": "10us",
    "time.warmup": "0s",
}


def matrix(rows: Iterable[tuple[str, str, int, float, float]]) -> str:
    """Returns a list of flows. `rows`: source, destination, port, start and stop in ms."""
    return collect.flow_list(f"{source},{to},{port},{start / 1e3:g},{stop / 1e3:g},0" for source, to, port, start, stop in rows)


def flows(times_ms: Sequence[tuple[float, float]]) -> str:
    """Returns the list of flows: one a sender, to the receiver behind the middle link. `times_ms`: start and stop of each."""
    to = f"h{len(times_ms) + 1}"
    return matrix((f"h{host}", to, 5001, *times) for host, times in enumerate(times_ms, 1))


def keys(file: str, duration_ms: float, interval_us: int) -> dict[str, Any]:
    """Returns the keys of the workload and of time; samples are `interval_us` apart."""
    interval, duration = format_time(interval_us * US), format_time(round(duration_ms * MS))
    return {"workload.file": file, "time.duration": duration, "monitor.interval": interval, "monitor.tcp_interval": interval}


def variants(senders: int, more_keys: dict[str, Any], full: dict[str, Any]) -> list[Variant]:
    """Returns a variant for each contestant. `full`: the keys that --length full changes."""
    network = {**NETWORK, "topology.pairs": senders}
    return [common.variant(contestant, contestant, {**network, **more_keys}, full, tracks=1) for contestant in CONTESTANTS]


def rates(result: Result, interval_us: int | None = None, most_bps: float = MOST_BPS) -> tuple[Floats, Floats]:
    """Returns the middles of intervals in ms, and each flow's goodput in them: [flows, intervals], of `most_bps`.

    `interval_us`: length of an interval; None: POINTS intervals.
    """
    duration_ns = parse_time_ns(result.manifest["spec"]["time"]["duration"], "time.duration")
    intervals = POINTS if interval_us is None else duration_ns // (interval_us * US)
    drawn = series(result.stored, duration_ns, Window(0, duration_ns), intervals)
    return drawn.t_s * 1e3, np.nan_to_num(drawn.goodput_bps) / most_bps


def track(result: Result, most_bps: float = MOST_BPS) -> Track:
    """Returns each flow's goodput over time in ms, by its number."""
    t_ms, shares = rates(result, most_bps=most_bps)
    return Track(t_ms, {str(flow): share.round(4) for flow, share in enumerate(shares)})


def figure(evidence: Evidence, title: str, names: Sequence[str] = (), of: str = "what the line can carry") -> Figure:
    """Draws each flow's goodput, a panel for each variant (seed 1). With `names` of flows, it draws their sum, too."""
    with kit.style():
        canvas = kit.new_figure(7.4, 1.6 * len(evidence.variants))
        panels = canvas.subplots(len(evidence.variants), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for ax, variant in zip(panels, evidence.variants.values(), strict=True):
            one = next(iter(variant.over_time.values()))
            flows = list(one.values.values())
            if names:
                ax.plot(one.x, np.sum(flows, axis=0), color="#AAAAAA", linewidth=1.2, label="all")
            for flow, share in enumerate(flows):
                look = {"color": FLOW_COLORS[flow], "label": names[flow]} if names else {"color": variant.color}
                ax.plot(one.x, share, linewidth=0.9, **look)
            ax.set_title(f"{variant.name}: goodput, of {of} (seed 1)", loc="left")
            ax.set_ylim(0, 1.1)
        panels[-1].set_xlabel("Time (ms)")
        if names:
            kit.legend_below(canvas, panels[0], len(names) + 1)
        kit.title(canvas, title)
    return canvas
