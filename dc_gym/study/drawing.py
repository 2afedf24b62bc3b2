# SPDX-License-Identifier: Apache-2.0
"""Draws the figure of a set of runs: panels of measured quantities with their units.

The left column shows the training, with contestants that do not learn as level lines. The right column shows the final policies
over time. Bands are 95 % intervals over seeds. Contestants that learn have a thin line for each seed instead, since two trainings
may end in different places, which an interval does not show.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.readable import number, sentence
from dc_gym.base.stats import Estimate, band
from dc_gym.results.figures import kit
from dc_gym.results.figures.axes import ErrorBar, bar_of, draw_bar, log_from_zero, log_ticks, set_scale
from dc_gym.study.evidence import Evidence, Floats, Measure, Track, VariantEvidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, PANEL_HEIGHT, LEGEND_HEIGHT = 10.4, 1.75, 0.8
LETTERS = 72
"""Characters of the title per column of panels."""
LABEL_LETTERS = 130
"""Characters of the labels below a row of panels."""
POINTS = 60
"""Number of points of a learning curve; each is a mean over equally many steps."""
DECADES = 15
"""Queues and delays that vary by more than this factor get a logarithmic axis."""
SETTLED = 98
"""The percentile of the data that a linear axis shows. Goodput has a spike whenever a hole in a sequence is filled."""
ROOM = 1.5
FRAME_BYTES = 1514
REWARDS = (-1.0, 1.0)
"""The smallest and the largest reward of the thesis."""


def figure(evidence: Evidence, panels: Sequence[Measure], title: str) -> Figure:
    """Draws one row per quantity."""
    variants = list(evidence.variants.values())
    learners = [variant for variant in variants if any(len(track.x) for track in variant.learning.values())]
    columns = 2 if learners else 1
    tracks = [track for variant in variants for track in variant.over_time.values()]
    measured = {name for track in tracks for name, values in track.values.items() if np.isfinite(values).any()}
    panels = [panel for panel in panels if panel.name in measured] or panels[:1]
    with kit.style():
        canvas = kit.new_figure(WIDTH if learners else 0.7 * WIDTH, LEGEND_HEIGHT + PANEL_HEIGHT * len(panels))
        axes = canvas.subplots(len(panels), columns, squeeze=False, sharex="col", sharey="row")
        for row, panel in enumerate(panels):
            if learners:
                _learning(axes[row][0], variants, panel)
            _over_time(axes[row][-1], variants, panel)
            _scale(axes[row], panel)
            axes[row][0].set_ylabel(sentence(panel.title).replace(" (", "\n("))
        if learners:
            axes[0][0].set_title("While it learns (exploration included)", loc="left")
            axes[-1][0].set_xlabel("Steps of the training")
            axes[-1][0].xaxis.set_major_formatter("{x:,.0f}")
        axes[0][-1].set_title("The policy as it is in the end" if learners else "Over time", loc="left")
        axes[-1][-1].set_xlabel("Time (s)")
        kit.legend_below(canvas, axes[0][-1], 4 if learners else 3)
        kit.title(canvas, textwrap.fill(title, LETTERS * columns))
    return canvas


def dots(evidence: Evidence, column: Measure, title: str) -> Figure:
    """Draws one quantity, with one row per contestant: the mean, its interval, and a small dot for each seed."""
    return dot_panels(evidence, (column,), title)


def dot_panels(evidence: Evidence, columns: Sequence[Measure], title: str) -> Figure:
    """Draws quantities side by side like `dots`, with the same contestants: the contestants that have the first quantity."""
    variants = [variant for variant in evidence.variants.values() if variant.numbers.get(columns[0].name)]
    with kit.style({"axes.grid.axis": "both"}):
        canvas = kit.new_figure((0.75 if len(columns) == 1 else 1.2) * WIDTH, 1.0 + 0.36 * len(variants))
        axes = canvas.subplots(1, len(columns), squeeze=False, sharey=True)[0]
        for ax, column in zip(axes, columns, strict=True):
            for row, mean in _means(ax, variants, column, 7).items():
                values = np.array(list(variants[row].numbers[column.name].values())) * column.factor
                ax.plot(values, np.full(len(values), row), ".", color=kit.INK, markersize=5, zorder=4)
                ax.annotate(number(mean), (mean, row), (0, 6), textcoords="offset points", ha="center", fontsize=8)
            ax.set_xlabel(textwrap.fill(sentence(column.title), LABEL_LETTERS // len(columns)))
        axes[0].set_yticks(range(len(variants)), [variant.label for variant in variants])
        kit.title(canvas, title)
    return canvas


def grid(evidence: Evidence, rows: Mapping[str, Mapping[str, str]], columns: Sequence[Measure], title: str) -> Figure:
    """Draws a panel for each case and measure, with a dot and an interval for each variant.

    `rows`: variants by label, by the title of the case.
    """
    cases = {
        case: {label: evidence.variants[name] for label, name in named.items() if name in evidence.variants}
        for case, named in rows.items()
    }
    known = {case: variants for case, variants in cases.items() if variants}
    with kit.style({"axes.grid.axis": "both"}):
        canvas = kit.new_figure(1.2 * WIDTH, 0.7 + sum(0.5 + 0.2 * len(case_variants) for case_variants in known.values()))
        heights = [0.5 + 0.2 * len(case_variants) for case_variants in known.values()]
        axes = canvas.subplots(len(known), len(columns), squeeze=False, gridspec_kw={"height_ratios": heights})
        for (case, variants), panels in zip(known.items(), axes, strict=True):
            for ax, column in zip(panels, columns, strict=True):
                _means(ax, list(variants.values()), column, 5)
                ax.set_yticks(range(len(variants)), list(variants) if ax is panels[0] else [""] * len(variants), fontsize=8)
                ax.tick_params(axis="x", labelsize=8)
                ax.set_title(
                    sentence(column.title) if ax is not panels[0] else f"{sentence(case)}: {column.title}", loc="left", fontsize=8
                )
        kit.title(canvas, title)
    return canvas


def _means(ax: Axes, variants: Sequence[VariantEvidence], column: Measure, size: int) -> Mapping[int, float]:
    """Draws a row per variant: its mean and interval. Returns the means by row."""
    bars = {row: bar(value, column) for row, variant in enumerate(variants) if (value := variant.estimate(column.name))}
    set_scale(ax, "x", list(bars.values()))
    for row, drawn in bars.items():
        draw_bar(ax, row, drawn, variants[row].color, "x")
        ax.plot(drawn.mean, row, "o", color=variants[row].color, markersize=size, zorder=3)
    ax.set_ylim(len(variants) - 0.5, -0.5)
    return {row: drawn.mean for row, drawn in bars.items()}


def bar(value: Estimate, column: Measure) -> ErrorBar:
    """Returns the mean and the interval of a quantity (of few values: their range), in the unit of its column."""
    return bar_of(value.mean * column.factor, None if value.drawn_half is None else value.drawn_half * column.factor)


def _learning(ax: Axes, variants: Sequence[VariantEvidence], panel: Measure) -> None:
    for variant in variants:
        if variant.learning:
            x, rows = _together(variant.learning, panel.name)
            _draw(ax, x, rows * panel.factor, variant, panel)
        elif (value := variant.estimate(panel.name)) is not None:
            ax.axhline(value.mean * panel.factor, color=variant.color, linewidth=1.0, linestyle=(0, (4, 2)))


def _over_time(ax: Axes, variants: Sequence[VariantEvidence], panel: Measure) -> None:
    for variant in variants:
        tracks = [track for track in variant.over_time.values() if panel.name in track.values]
        if tracks:
            rows = np.stack([track.values[panel.name] for track in tracks])
            most = max(track.most.get(panel.name, np.inf) for track in tracks) * panel.factor
            _draw(ax, tracks[0].x, rows * panel.factor, variant, panel, most)


def _together(learning: Mapping[int, Track], name: str) -> tuple[Floats, Floats]:
    """Returns steps, and each seed's curve at these steps as means over stretches of equal length."""
    last = min((float(track.x[-1]) for track in learning.values() if len(track.x)), default=0.0)
    edges = np.linspace(0, last, POINTS + 1)
    rows = np.stack([_binned(track.x, track.values[name], edges) for track in learning.values()])
    known = np.isfinite(rows).any(axis=0)
    return ((edges[:-1] + edges[1:]) / 2)[known], rows[:, known]


def _binned(x: Floats, y: Floats, edges: Floats) -> Floats:
    inside = (x > edges[0]) & (x <= edges[-1]) & np.isfinite(y)
    bins, count = np.digitize(x[inside], edges, right=True) - 1, len(edges) - 1
    with np.errstate(invalid="ignore"):
        means: Floats = np.bincount(bins, y[inside], count) / np.bincount(bins, minlength=count)
    return means


def _draw(ax: Axes, x: Floats, rows: Floats, variant: VariantEvidence, panel: Measure, most: float = np.inf) -> None:
    """Draws the mean over the rows (one row per seed), and their spread where it is known."""
    mean, half = band(rows)
    ax.plot(x, mean, color=variant.color, label=variant.label, linewidth=1.8 if variant.learning else 1.1)
    if variant.learning and len(rows) > 1:
        for row in rows:
            known = np.isfinite(row)
            ax.plot(x[known], row[known], color=variant.color, linewidth=0.8, alpha=0.8)
    elif np.isfinite(half).any():
        least, most = REWARDS if panel.name == "reward" else (0.0, most)
        kit.shade(ax, x, np.maximum(mean - half, least), np.minimum(mean + half, most), variant.color)


def _scale(row: Sequence[Axes], panel: Measure) -> None:
    """Scales the shared axis of a row. It follows the means; the bands would stretch it."""
    lines = [np.asarray(line.get_ydata(), float) for ax in row for line in ax.get_lines()]
    values, ax = np.concatenate(lines or [np.zeros(1)]), row[0]
    values = values[np.isfinite(values)]
    if panel.name == "reward":
        ax.set_ylim(-1.05, 1.05)
    elif not len(values) or values.max() <= 0:
        return
    elif panel.name.endswith("_bytes"):
        largest, frame = float(values.max()), FRAME_BYTES * panel.factor
        if largest > DECADES * frame:
            log_from_zero(ax, "y", largest, frame)
        else:
            ax.set_ylim(0, largest * ROOM)
    elif panel.name.endswith("_s") and values.max() > DECADES * values.min() > 0:
        ax.set_yscale("log")
        ax.set_ylim(values.min() / ROOM, values.max() * ROOM)
        log_ticks(ax, "y")
    else:
        ax.set_ylim(0, np.percentile(values, SETTLED) * 1.25)
