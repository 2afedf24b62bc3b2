# SPDX-License-Identifier: Apache-2.0
"""The dumbbell, the contestants and the rates over time that figures 6.1 and 6.2 of FDCC (K. Zhang, MSc thesis 2023) share.

Flows of n senders cross the middle link to one receiver. Each starts and stops at a time of the figure, and has no other end.
Links, buffer, pauses and the window of one BDP are those of tables 6.1 and 6.2 (n_to_one.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.units import FRAME_BYTES, format_time, parse_time_ns
from dc_gym.benchmarks.studies.fdcc.n_to_one import CONTESTANTS, LINE_BPS, LOSSLESS, MS, US, color_of
from dc_gym.study.collect import PAYLOAD_BYTES, Variant
from dc_gym.figures import kit
from dc_gym.metrics import Window, series
from dc_gym.records.results import Result
from dc_gym.study.evidence import Evidence, Floats, Track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BPS = LINE_BPS * PAYLOAD_BYTES / FRAME_BYTES
"""Payload that frames without telemetry can carry."""
FLOW_COLORS = ("#332288", "#CC6677", "#117733", "#999933")


def matrix(senders: int, times_ms: Sequence[tuple[float, float]]) -> str:
    """Returns the list of flows: one a sender, to the receiver behind the middle link. `times_ms`: start and stop of each."""
    rows = [f"h{host},h{senders + 1},5001,{start / 1e3:g},{stop / 1e3:g},0" for host, (start, stop) in enumerate(times_ms, 1)]
    return "\n".join(["source,destination,port,start,stop,size", *rows]) + "\n"


def keys(file: str, duration_ms: float, interval_us: int) -> dict[str, Any]:
    """Returns the keys of the workload and of time; samples are `interval_us` apart."""
    return {
        "workload.file": file,
        "time.duration": format_time(round(duration_ms * MS)),
        "monitor.interval": format_time(interval_us * US),
        "monitor.tcp_interval": format_time(interval_us * US),
    }


def rows(senders: int, own: dict[str, Any], full: dict[str, Any]) -> list[Variant]:
    """Returns a row for each contestant, with a window of one BDP. `full`: the keys that --full changes."""
    network = {
        **LOSSLESS,
        "topology.kind": "dumbbell",
        "topology.pairs": senders,
        "workload.kind": "matrix",
        "workload.jitter": "10us",
        "nic.inflight": "1bdp",
        "nic.trace": "off",
        "time.warmup": "0s",
    }
    return [Variant(who, {**network, **keys_, **own}, color_of(who), full=full) for who, keys_ in CONTESTANTS.items()]


def rates(result: Result, interval_us: int) -> tuple[Floats, Floats]:
    """Returns the middles of intervals in ms, and each flow's goodput in them: [flows, intervals], of MOST_BPS."""
    duration_ns = parse_time_ns(result.manifest["spec"]["time"]["duration"], "time.duration")
    drawn = series(result.stored, duration_ns, Window(0, duration_ns), duration_ns // (interval_us * US))
    return drawn.t_s * 1e3, np.nan_to_num(drawn.goodput_bps) / MOST_BPS


def track(result: Result, interval_us: int) -> Track:
    """Returns each flow's goodput over time in ms, by its number."""
    t_ms, shares = rates(result, interval_us)
    return Track(t_ms, {str(flow): share for flow, share in enumerate(shares)})


def figure(evidence: Evidence, title: str, names: Sequence[str]) -> Figure:
    """Draws the goodput of each flow and their sum, a panel for each row (seed 1)."""
    with kit.style():
        canvas = kit.new_figure(7.4, 1.6 * len(evidence.variants))
        panels = canvas.subplots(len(evidence.variants), 1, sharex=True, sharey=True)
        for ax, who in zip(panels, evidence.variants, strict=True):
            one = next(iter(evidence.variants[who].over_time.values()))
            flows = list(one.values.values())
            ax.plot(one.x, np.sum(flows, axis=0), color="#AAAAAA", linewidth=1.2, label="all")
            for share, color, label in zip(flows, FLOW_COLORS, names, strict=False):
                ax.plot(one.x, share, color=color, linewidth=0.9, label=label)
            ax.set_title(f"{who}: goodput, of what the line can carry (seed 1)", loc="left")
            ax.set_ylim(0, 1.1)
        panels[-1].set_xlabel("Time (ms)")
        handles, labels = panels[0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        kit.title(canvas, title)
    return canvas
