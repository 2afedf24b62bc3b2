# SPDX-License-Identifier: Apache-2.0
"""Draws the lab beside a peer: a queue over time and its distribution, and slowdowns by flow size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dc_gym.figures import kit
from dc_gym.figures.axes import log_ticks
from dc_gym.sweep import runs

Trace = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Times in ns, and numbers of waiting packets."""
COLORS = dict(zip(("lab", "ns-3", "ns-3, an ACK a segment"), kit.FLOW_COLORS, strict=False))
NAME = "beside a peer"
START_NS, TEETH_NS = 2_000_000, 2_000_000


class HasSlowdowns(Protocol):
    """Slowdowns of flows, by the program that ran them."""

    @property
    def size_bytes(self) -> npt.NDArray[np.int64]: ...

    @property
    def by_runner(self) -> Mapping[str, npt.NDArray[np.float64]]: ...

    def of_bin(self, who: str, low: int, high: int) -> npt.NDArray[np.float64]: ...


def queue_figure(queues: Mapping[str, Trace], warmup_ns: int, path: Path) -> Path:
    """Draws the start, some teeth of the sawtooth after the warm-up, and the distribution from then on."""
    from matplotlib.ticker import MaxNLocator

    with kit.style():
        figure = kit.new_figure(11, 3.4)
        start, teeth, share = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 1))
        for who, (t_ns, packets) in queues.items():
            first = t_ns < START_NS
            start.plot(t_ns[first] / 1e6, packets[first], color=COLORS[who], label=who, linewidth=1)
            some = (t_ns >= warmup_ns) & (t_ns < warmup_ns + TEETH_NS)
            teeth.plot(t_ns[some] / 1e6, packets[some], color=COLORS[who], linewidth=1)
            settled = np.sort(packets[t_ns >= warmup_ns])
            share.plot(settled, np.linspace(0, 1, len(settled)), color=COLORS[who])
        start.set_title("Start", loc="left")
        teeth.set_title("After the warm-up", loc="left")
        share.set_title("Distribution after the warm-up", loc="left")
        start.set_ylim(bottom=0)
        for axes in (start, teeth):
            axes.set_xlabel("Time (ms)")
            axes.set_ylabel("Queue (packets)")
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        share.set_xlabel("Queue (packets)")
        share.set_ylabel("Share of samples below")
        start.legend()
        kit.save(figure, path, mark=runs.mark_of(NAME))
    return path


def slowdown_figure(found: HasSlowdowns, bins: Sequence[tuple[int, int]], path: Path) -> Path:
    """Draws each flow's slowdown against its size, and mean and 99th percentile by bin."""
    with kit.style():
        figure = kit.new_figure(11, 3.8)
        single, binned = figure.subplots(1, 2)
        for who, values in list(found.by_runner.items())[:2]:
            single.plot(found.size_bytes, values, ".", color=COLORS[who], markersize=4, alpha=0.8)
        width = 0.8 / len(found.by_runner)
        for number, (who, color) in enumerate((who, COLORS[who]) for who in found.by_runner):
            values_of = [found.of_bin(who, low, high) for low, high in bins]
            left = np.arange(len(bins)) - 0.4 + (number + 0.5) * width
            binned.bar(left, [np.nanmean(each) for each in values_of], 0.9 * width, color=color, label=who)
            binned.plot(
                left, [np.nanpercentile(each, 99) for each in values_of], "_", color=color, markersize=14, markeredgewidth=2
            )
        for axes in (single, binned):
            axes.set_yscale("log")
            axes.set_ylabel("Slowdown")
            axes.set_ylim(bottom=0.9)
            log_ticks(axes, "y")
        binned.set_ylim(bottom=1)  # bars start at 1, the ideal slowdown
        single.set_xscale("log")
        log_ticks(single, "x", family="bytes")
        single.set_xlabel("Size of the flow")
        single.set_title("Every flow", loc="left")
        binned.set_xticks(range(len(bins)), [_most(high) for _, high in bins])
        binned.set_xlabel("Size of the flow")
        binned.set_title("Mean (bar) and 99th percentile (line) by size", loc="left")
        binned.legend()
        kit.save(figure, path, mark=runs.mark_of(NAME))
    return path


def _most(size_bytes: int) -> str:
    """Returns the label of a bin's upper end."""
    if size_bytes > 10**9:
        return "more"
    return f"≤ {size_bytes // 1000} kB" if size_bytes < 10**6 else f"≤ {size_bytes // 10**6} MB"
