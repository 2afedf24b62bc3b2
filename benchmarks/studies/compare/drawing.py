# SPDX-License-Identifier: Apache-2.0
"""Figures of the comparison: dots are means over seeds, bars are 95 % intervals, and each controller has its own color."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dc_gym.base.stats import Estimate
from dc_gym.benchmarks.studies.compare.measured import DELAY, FAIRNESS, GOODPUT, LOSS, P99_DELAY, Compared, Competitor
from dc_gym.figures import kit
from dc_gym.figures.axes import ErrorBar, bar_of, draw_bar, set_scale
from dc_gym.pages.numbers import Metric, scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 10.4
SPREAD = 0.62
"""The part of a scenario's width over which its controllers are spread."""


def overview(compared: Sequence[Compared]) -> Figure:
    """Draws one panel per quantity, with one column per scenario."""
    shown = [metric for metric in (GOODPUT, DELAY, P99_DELAY, LOSS) if any(metric in each.metrics for each in compared)]
    with kit.style():
        figure = kit.new_figure(WIDTH, 1.1 + 1.75 * len(shown) + 0.5)
        axes = figure.subplots(max(1, len(shown)), 1, sharex=True, squeeze=False)[:, 0]
        for ax, metric in zip(axes, shown, strict=False):
            _columns(ax, metric, compared)
        axes[-1].set_xticks(range(len(compared)), [_name(each) for each in compared], fontsize=8)
        _legend(figure, compared)
    return figure


def scenario(each: Compared) -> Figure:
    """Draws one panel per quantity, with one row per controller."""
    metrics = each.metrics
    with kit.style({"axes.grid.axis": "x"}):
        figure = kit.new_figure(WIDTH, 0.75 + 0.3 * len(each.entries))
        axes = figure.subplots(1, max(1, len(metrics)), sharey=True, squeeze=False)[0]
        for ax, metric in zip(axes, metrics, strict=False):
            _rows(ax, metric, each.entries)
        axes[0].set_yticks(range(len(each.entries)), [entry.label for entry in each.entries])
        axes[0].invert_yaxis()
    return figure


def _name(each: Compared) -> str:
    return f"{each.scenario.network.name}\n{each.scenario.traffic.name}"


def _columns(ax: Axes, metric: Metric, compared: Sequence[Compared]) -> None:
    found = [(column, entry, entry.estimate(metric.name)) for column, each in enumerate(compared) for entry in each.entries]
    factor, unit = scale_of(metric.unit, [known.mean for _, _, known in found if known])
    ranks = _ranks(compared)
    set_scale(ax, "y", [_bar(known, factor, metric) for _, _, known in found if known], _most(metric) / factor)
    for column, entry, known in found:
        if known is not None:
            x = column + SPREAD * ((ranks[entry.name] + 0.5) / len(ranks) - 0.5)
            draw_bar(ax, x, _bar(known, factor, metric), entry.color)
            ax.plot(x, known.mean / factor, entry.marker, color=entry.color, markersize=5, zorder=3)
    ax.set_title(f"{metric.label} ({unit})" if unit else metric.label, loc="left")


def _rows(ax: Axes, metric: Metric, entries: Sequence[Competitor]) -> None:
    found = [entry.estimate(metric.name) for entry in entries]
    factor, unit = scale_of(metric.unit, [known.mean for known in found if known])
    set_scale(ax, "x", [_bar(known, factor, metric) for known in found if known], _most(metric) / factor)
    for row, (entry, known) in enumerate(zip(entries, found, strict=True)):
        if known is not None:
            draw_bar(ax, row, _bar(known, factor, metric), entry.color, "x")
            ax.plot(known.mean / factor, row, entry.marker, color=entry.color, markersize=5, zorder=3)
    ax.set_title(f"{metric.label}\n({unit})" if unit else metric.label, fontsize=8.5, loc="left")
    ax.tick_params(labelsize=8)
    ax.xaxis.set_tick_params(rotation=30)


def _bar(known: Estimate, factor: float, metric: Metric) -> ErrorBar:
    return bar_of(known.mean / factor, None if known.drawn_half is None else known.drawn_half / factor, _most(metric) / factor)


def _most(metric: Metric) -> float:
    """Returns the largest value that a metric can have."""
    return 1.0 if metric == FAIRNESS else math.inf


def _ranks(compared: Sequence[Compared]) -> dict[str, int]:
    names = dict.fromkeys(entry.name for each in compared for entry in each.entries)
    return {name: rank for rank, name in enumerate(names)}


def _legend(figure: Figure, compared: Sequence[Compared]) -> None:
    entries = {entry.name: entry for each in compared for entry in each.entries}.values()
    handles = [kit.sample(e.color, marker=e.marker, linestyle="", markersize=6, label=e.label) for e in entries]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(8, max(1, len(handles))))
