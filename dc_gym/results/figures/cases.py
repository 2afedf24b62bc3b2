# SPDX-License-Identifier: Apache-2.0
"""Draws cases by quantities, as in the demo: a row for each case, a column for each quantity, a colour for each controller."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from dc_gym.base.stats import band
from dc_gym.results.figures import kit, styles
from dc_gym.results.figures.axes import WIDE, log_from_zero

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
INTERVALS = 40  # long enough that a loss and its repair fall into one interval


class RunTrack(Protocol):
    """A run over time: the middles of its intervals in s, and `queue_bytes`, `k_bytes`, `goodput_bps`, `srtt_us` and `jain`."""

    @property
    def x(self) -> Floats: ...

    @property
    def values(self) -> Mapping[str, Floats]: ...

    @property
    def most(self) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class CaseRuns:
    """One row of the demo: a network, and the runs of each controller on it."""

    title: str
    runs: Mapping[str, Sequence[RunTrack]]
    """The runs by controller name, one for each seed; all have the same duration and number of intervals."""
    note: str = ""
    """A second line below the title, such as "10 Mbit/s, 2 pairs"."""


def demo_figure(cases: Sequence[CaseRuns], caption: str = "") -> Figure:
    """Returns the demo's figure. Rows are cases; columns are queue, goodput, srtt and fairness. A line is the mean over seeds, a
    band its 95 % interval."""
    with kit.style():
        figure = kit.new_figure(13.2, 0.9 + 2.5 * len(cases))
        grid = figure.subplots(len(cases), 5, squeeze=False, width_ratios=[0.09, 1, 1, 1, 1])
        for (label, *row), case in zip(grid, cases, strict=True):
            _case_label(label, case)
            _demo_row(row, case)
        for ax, title in zip(grid[0][1:], ("Bottleneck queue", "Goodput, all flows", "Smoothed RTT", "Fairness"), strict=True):
            ax.set_title(title, loc="left", pad=8)
        for ax in grid[-1][1:]:
            ax.set_xlabel("Time (s)")
        figure.align_ylabels(grid[:, 1:])
        _controller_legend(figure, cases)
        kit.caption(figure, caption)
    return figure


def _case_label(ax: Axes, case: CaseRuns) -> None:
    """Draws the name of a row, in a column of its own."""
    ax.set_axis_off()
    ax.text(0, 0.5, case.title, rotation=90, ha="center", va="center", fontsize=10, fontweight="bold", transform=ax.transAxes)
    ax.text(1.1, 0.5, case.note, rotation=90, ha="center", va="center", fontsize=8.5, color="#555555", transform=ax.transAxes)


def _demo_row(row: Sequence[Axes], case: CaseRuns) -> None:
    """Draws the four panels of a case."""
    every = [run for runs in case.runs.values() for run in runs]
    if not every:
        raise ValueError(f"case {case.title!r} has no runs")
    rate, rate_unit = kit.rate_unit(np.concatenate([run.values["goodput_bps"] for run in every]))
    delay, delay_unit = kit.time_unit(np.concatenate([run.values["srtt_us"] for run in every]))
    queue, queue_unit = 1e3, "kB"
    panels = (
        ("queue_bytes", queue, f"Queue ({queue_unit})", math.inf),
        ("goodput_bps", rate, f"Goodput ({rate_unit})", max(run.most["goodput_bps"] for run in every) / rate),
        ("srtt_us", delay, f"RTT ({delay_unit})", math.inf),
        ("jain", 1.0, "Jain's index", 1.0),
    )
    t_s = every[0].x
    for column, (ax, (name, scale, label, most)) in enumerate(zip(row, panels, strict=True)):
        lines = {
            controller: _bounded(*band(np.array([run.values[name] / scale for run in runs])), most)
            for controller, runs in case.runs.items()
        }
        _draw_lines(ax, t_s, lines)
        _set_axis(
            ax, column, [mean for mean, _, _ in lines.values()], [np.fmax(mean, top) for mean, _, top in lines.values()], label
        )
        ax.set_xlim(0, t_s[-1] + t_s[0])
    thresholds = {run.values["k_bytes"][0] for run in every if np.isfinite(run.values["k_bytes"][0])}
    if len(thresholds) == 1:
        kit.end_line(row[0], thresholds.pop() / queue, "K", kit.MARK)


Lines = Mapping[str, tuple[Floats, Floats, Floats]]
"""By controller: a mean, and the ends of its band."""


def _bounded(mean: Floats, half: Floats, most: float) -> tuple[Floats, Floats, Floats]:
    """Returns a mean and its band, cut at possible values; NaN where there is none."""
    return mean, np.maximum(mean - half, 0), np.minimum(mean + half, max(most, kit.peak(mean)))


def _draw_lines(ax: Axes, t_s: Floats, lines: Lines) -> None:
    for name, (_, low, high) in lines.items():
        kit.shade(ax, t_s, low, high, kit.color_of(name))
    for name, (mean, _, _) in lines.items():
        ax.plot(t_s, mean, color=kit.color_of(name))


def _set_axis(ax: Axes, column: int, means: Sequence[Floats], tops: Sequence[Floats], label: str) -> None:
    """Sets scale and limits of a panel. Queues and delays that lie far apart get a logarithmic axis."""
    middles = [float(np.nanmedian(mean)) for mean in means if np.isfinite(mean).any()]
    positive = [middle for middle in middles if middle > 0]
    spread = max(positive) / min(positive) if positive else 1
    ax.set_ylabel(label)
    if column == 3:
        kit.fairness_axis(ax, np.concatenate(means))
    elif column != 1 and spread > WIDE:
        log_from_zero(ax, "y", kit.peak(np.concatenate(tops)), kit.FRAME_KB if column == 0 else min(positive) / 3)
    else:
        kit.from_zero(ax, np.concatenate(tops))


def _controller_legend(figure: Figure, cases: Sequence[CaseRuns]) -> None:
    """Draws one legend above all panels."""
    names = list(dict.fromkeys(name for case in cases for name in case.runs))
    lines = [kit.sample(kit.color_of(name)) for name in names]
    labels = list(map(styles.label_of, names))
    figure.legend(
        lines,
        labels,
        loc="outside upper center",
        ncols=max(1, len(names)),
        fontsize=10,
        handlelength=1.6,
    )
