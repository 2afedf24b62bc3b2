# SPDX-License-Identifier: Apache-2.0
"""Figures of the comparison: dots are means over seeds, bars their 95 % intervals; each controller has its own colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dc_gym.bench.compare.measured import DELAY, GOODPUT, LOSS, P99_DELAY, Compared, Entry
from dc_gym.figures import plots
from dc_gym.report.numbers import Metric, scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 10.4
SPREAD = 0.62
"""Of a case's width, over which its controllers stand side by side."""
WIDE = 15
"""Means that differ by more than this factor get a logarithmic axis."""


def overview(compared: Sequence[Compared]) -> Figure:
    """A panel a quantity, a column a case."""
    shown = [metric for metric in (GOODPUT, DELAY, P99_DELAY, LOSS) if any(metric in each.metrics for each in compared)]
    with plots.style():
        figure = plots.new_figure(WIDTH, 1.1 + 1.75 * len(shown) + 0.5)
        axes = figure.subplots(max(1, len(shown)), 1, sharex=True, squeeze=False)[:, 0]
        for ax, metric in zip(axes, shown, strict=False):
            _columns(ax, metric, compared)
        axes[-1].set_xticks(range(len(compared)), [_name(each) for each in compared], fontsize=8)
        _legend(figure, compared)
    return figure


def case(each: Compared) -> Figure:
    """A panel a quantity, a row a controller."""
    metrics = each.metrics
    with plots.style({"axes.grid.axis": "x"}):
        figure = plots.new_figure(WIDTH, 0.75 + 0.3 * len(each.entries))
        axes = figure.subplots(1, max(1, len(metrics)), sharey=True, squeeze=False)[0]
        for ax, metric in zip(axes, metrics, strict=False):
            _rows(ax, metric, each.entries)
        axes[0].set_yticks(range(len(each.entries)), [entry.label for entry in each.entries])
        axes[0].invert_yaxis()
    return figure


def _name(each: Compared) -> str:
    return f"{each.case.network.name}\n{each.case.traffic.name}"


def _columns(ax: Axes, metric: Metric, compared: Sequence[Compared]) -> None:
    found = [(column, entry, entry.estimate(metric.name)) for column, each in enumerate(compared) for entry in each.entries]
    factor, unit = scale_of(metric.unit, [known.mean for _, _, known in found if known])
    ranks = _ranks(compared)
    for column, entry, known in found:
        if known is not None:
            x = column + SPREAD * ((ranks[entry.name] + 0.5) / len(ranks) - 0.5)
            bar = None if known.half is None else known.half / factor
            ax.errorbar(x, known.mean / factor, bar, fmt=entry.marker, color=entry.color, markersize=5, elinewidth=1.2)
    ax.set_title(f"{metric.label} ({unit})" if unit else metric.label, loc="left")
    _scale(ax, "y", [known.mean / factor for _, _, known in found if known])


def _rows(ax: Axes, metric: Metric, entries: Sequence[Entry]) -> None:
    found = [entry.estimate(metric.name) for entry in entries]
    factor, unit = scale_of(metric.unit, [known.mean for known in found if known])
    for row, (entry, known) in enumerate(zip(entries, found, strict=True)):
        if known is not None:
            bar = None if known.half is None else known.half / factor
            ax.errorbar(known.mean / factor, row, xerr=bar, fmt=entry.marker, color=entry.color, markersize=5, elinewidth=1.2)
    ax.set_title(f"{metric.label}\n({unit})" if unit else metric.label, fontsize=8.5, loc="left")
    ax.tick_params(labelsize=8)
    _scale(ax, "x", [known.mean / factor for known in found if known])


def _scale(ax: Axes, axis: str, values: Sequence[float]) -> None:
    """From 0, or logarithmic where the values lie far apart and none is 0."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    if values and len(positive) == len(values) and max(positive) > WIDE * min(positive):
        getattr(ax, f"set_{axis}scale")("log")
    elif values and min(values) >= 0:
        getattr(ax, f"set_{axis}lim")(0, max(values) * 1.15 or 1)


def _ranks(compared: Sequence[Compared]) -> dict[str, int]:
    names = dict.fromkeys(entry.name for each in compared for entry in each.entries)
    return {name: rank for rank, name in enumerate(names)}


def _legend(figure: Figure, compared: Sequence[Compared]) -> None:
    from matplotlib.lines import Line2D

    entries = {entry.name: entry for each in compared for entry in each.entries}.values()
    handles = [Line2D([], [], color=e.color, marker=e.marker, linestyle="", markersize=6, label=e.label) for e in entries]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(8, max(1, len(handles))))
