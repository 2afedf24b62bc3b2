# SPDX-License-Identifier: Apache-2.0
"""Draws quantities over a number such as the flows: a line per series, 95 % intervals, and the paper's values (hollow)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from dc_gym.base.readable import number, sentence
from dc_gym.results.figures import kit
from dc_gym.results.figures.axes import draw_bar, log_ticks, plain_ticks
from dc_gym.study.drawing import bar
from dc_gym.study.evidence import Evidence, Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, PANEL_HEIGHT, LEGEND_HEIGHT = 3.7, 3.3, 0.9
LETTERS_AN_INCH, HANDLE_LETTERS = 14, 7
"""The number of a legend's letters on an inch, and the room of a handle with the space beside it."""
DECADES = 30
"""A quantity that varies by more than this factor gets a logarithmic axis, which is linear below `LEAST` to include 0."""
LEAST = 1e-2
MARGIN, BEYOND = 0.06, 2.5
"""Margin above the largest value. An interval that ends beyond this many times the largest value does not stretch the axis."""


@dataclass(frozen=True, slots=True)
class VariantLine:
    label: str
    color: str
    points: Mapping[float, str]
    """Contestants by their position on the x axis."""
    marker: str = "o"
    line: str = "-"


Curve = Callable[["Axes"], None]
Drawing = Callable[[Evidence], "Figure"]
X = TypeVar("X", int, float)


def figure(
    evidence: Evidence,
    series: Sequence[VariantLine],
    columns: Sequence[Measure],
    xlabel: str,
    title: str,
    base: float | None = 2,
    curves: Mapping[str, Curve] | None = None,
) -> Figure:
    """Draws one panel per quantity.

    `base`: base of the logarithmic x axis; None makes it linear. `curves` draw more into a panel, by quantity.
    """
    names = [name for line in series for name in line.points.values()]
    columns = [column for column in columns if any(_is_shown(evidence, name, column) for name in names)] or columns[:1]
    with kit.style({"axes.grid.axis": "both"}):
        canvas = kit.new_figure(WIDTH * len(columns) + 0.6, PANEL_HEIGHT + LEGEND_HEIGHT)
        axes = canvas.subplots(1, len(columns), squeeze=False)[0]
        for ax, column in zip(axes, columns, strict=True):
            _axis(ax, [x for line in series for x, name in line.points.items() if _is_shown(evidence, name, column)], base)
            _scale(ax, evidence, series, column)
            for line in series:
                _line(ax, evidence, line, column)
            if curves and column.name in curves:
                curves[column.name](ax)
            ax.set_xlabel(sentence(xlabel))
            ax.set_title(sentence(column.title), loc="left")
        handles, labels = axes[0].get_legend_handles_labels()
        if any(column.name in variant.paper for variant in evidence.variants.values() for column in columns):
            handles.append(axes[0].plot([], [], "D", markerfacecolor="none", color=kit.INK, linestyle=":", markersize=5)[0])
            labels.append("the paper")
        room = int(canvas.get_figwidth() * LETTERS_AN_INCH) // (HANDLE_LETTERS + max(map(len, labels), default=0))
        canvas.legend(handles, labels, loc="outside lower center", ncols=max(1, min(5, len(labels), room)))
        kit.title(canvas, title)
    return canvas


def over(
    colors: Mapping[str, str],
    numbers: Sequence[X],
    name: Callable[[str, X], str],
    columns: Sequence[Measure],
    xlabel: str,
    title: str,
    base: float | None = 2,
    factor: float = 1.0,
) -> Drawing:
    """Returns the drawing of a line for each contestant over the numbers. `name` returns the variant's name of both."""
    lines = [
        VariantLine(contestant, color, {factor * x_value: name(contestant, x_value) for x_value in numbers})
        for contestant, color in colors.items()
    ]
    return partial(figure, series=lines, columns=columns, xlabel=xlabel, title=title, base=base)


def _is_shown(evidence: Evidence, name: str, column: Measure) -> bool:
    """Returns whether the quantity was measured or is in the paper."""
    variant = evidence.variants.get(name)
    return variant is not None and (variant.estimate(column.name) is not None or column.name in variant.paper)


def _line(ax: Axes, evidence: Evidence, series: VariantLine, column: Measure) -> None:
    known = {x: evidence.variants[name] for x, name in series.points.items() if name in evidence.variants}
    estimates = {x: estimate for x, variant in known.items() if (estimate := variant.estimate(column.name)) is not None}
    if estimates:
        means = [value.mean * column.factor for value in estimates.values()]
        look = {"color": series.color, "marker": series.marker, "linestyle": series.line, "markersize": 5}
        ax.plot(list(estimates), means, label=series.label, **look)  # type: ignore[arg-type]
        for x, value in estimates.items():
            draw_bar(ax, x, bar(value, column), series.color)
    printed = {x: variant.paper[column.name] * column.factor for x, variant in known.items() if column.name in variant.paper}
    if printed:
        ax.plot(
            list(printed), list(printed.values()), "D:", color=series.color, markerfacecolor="none", markersize=6, linewidth=0.9
        )


def _axis(ax: Axes, values: Sequence[float], base: float | None) -> None:
    if base is not None:
        ax.set_xscale("log", base=base)
    ticks = sorted(set(values))
    ax.set_xticks(ticks, [number(value) for value in ticks], rotation=45 if len(ticks) > 6 else 0)
    ax.minorticks_off()


def _scale(ax: Axes, evidence: Evidence, series: Sequence[VariantLine], column: Measure) -> None:
    variants = [evidence.variants[name] for line in series for name in line.points.values() if name in evidence.variants]
    bars = [bar(estimated, column) for variant in variants if (estimated := variant.estimate(column.name)) is not None]
    printed = [variant.paper[column.name] * column.factor for variant in variants if column.name in variant.paper]
    values = [*(error_bar.mean for error_bar in bars), *printed]
    positive = [value for value in values if value > 0]
    if not positive:
        ax.set_ylim(0, 1)
        return
    top = max(values) * (1 + MARGIN)
    if max(positive) > DECADES * min(values, default=0) and max(positive) > DECADES * min(positive):
        linear_below = max(LEAST, min(positive) / 2)
        ax.set_yscale("symlog", linthresh=linear_below, linscale=0.4)
        ax.set_ylim(0, top * 1.5)
        log_ticks(ax, "y", linear_below)
        return
    highs = [bar.high for bar in bars if bar.high <= BEYOND * max(values)]
    ax.set_ylim(0, max([top, *(high * (1 + MARGIN) for high in highs)]))
    plain_ticks(ax, "y")
