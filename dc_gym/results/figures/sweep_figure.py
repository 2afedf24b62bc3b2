# SPDX-License-Identifier: Apache-2.0
"""Draws many results over one key: one panel for each metric, one colour for each line, one point for each value of the key.

A further key makes small multiples: panels side by side with the same axes, each with a value of that key as its title.

A line joins points only if the key is a number that measures something; kinds, names and seeds are not joined. Panels of elements
of one list (flow_goodput_bps.0 and .1) share one scale. Small dots are single results; bars are 95 % intervals. Few results are
drawn as dots, without mean and bar.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dc_gym.base import readable
from dc_gym.base.readable import Scale, number, typeset
from dc_gym.results.figures import kit, styles, titles
from dc_gym.results.figures.axes import ErrorBar, bar_of, draw_bar, is_wide, set_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "Axis",
    "Curve",
    "CurvePoint",
    "Sheet",
    "caption_below",
    "colors_of",
    "draw",
    "draw_panels",
    "grid_of",
    "legend_above",
]

BY_DEFAULT = "controller.name"
NUMBERED = ("seed",)
"""Keys whose numbers are only names; their points are not joined."""
WIDTH, PANEL_HEIGHT, HEAD_HEIGHT, PANEL_WIDTH, MARGIN_INCHES = 7.0, 2.2, 1.0, 2.6, 0.9
SPREAD = 0.6
"""The share of a category's width over which its lines are spread side by side."""
BESIDE_POINTS = 6.0
"""The distance from a mean to the dots of its results, in points."""
AT_MOST_1 = ("jain", "maxmin_jain")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LETTER_INCHES, LINE_INCHES = 0.072, 0.15
"""The width of a letter in a tick label, and the space for a rotated label."""
LEGEND_LETTERS, TITLE_LETTERS, CAPTION_LETTERS = 80, 68, 118
"""The letters that fit in a row of the legend, where each entry's symbol takes four, of the title and of the caption."""
PANEL_LETTERS, LABEL_LETTERS = 34, 26
"""The letters that fit above one of several panels, and beside it."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The results at one value of the key."""

    x: float | str
    mean: float
    half_width: float | None
    """Half the width of the 95 % interval; None: too few results for one."""
    values: tuple[float, ...]
    """One value for each result."""

    @property
    def results(self) -> int:
        return len(self.values)

    @property
    def few(self) -> bool:
        """True if each of its results is drawn, and no mean."""
        return self.half_width is None and self.results > 1


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of one line, sorted by x."""

    name: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """The key on a figure's x axis."""

    key: str
    family: str
    """The unit family of its numbers (readable.FAMILIES); '' for plain numbers or texts."""
    names_lines: bool = False
    """True if each of its values is a line of its own."""

    @property
    def title(self) -> str:
        return titles.of_key(self.key)

    @property
    def measures(self) -> bool:
        """True if its numbers are amounts, so that values between two of them have a meaning."""
        return self.key not in NUMBERED

    @property
    def names_controllers(self) -> bool:
        return self.key == BY_DEFAULT

    def scale(self, values: Sequence[float | str]) -> Scale:
        """Returns the unit that suits these values."""
        return readable.scale_of(self.family, [value for value in values if isinstance(value, float)])

    def text(self, x: float | str) -> str:
        return x if isinstance(x, str) else readable.quantity(x, self.family)

    def label_of(self, text: str) -> str:
        """Returns the label of a value on the axis; a controller has its own label."""
        return styles.label_of(text) if self.names_controllers else text


@dataclass(frozen=True, slots=True)
class Sheet:
    """The contents of the figure."""

    title: str
    panels: Mapping[str, Sequence[Curve]]
    """The lines of each metric."""
    axis: Axis
    by_key: str
    caption: str


def draw(sheet: Sheet) -> Figure:
    """Draws one panel for each metric, one below the other."""
    return draw_panels({"": sheet})


def draw_panels(sheets: Mapping[str, Sheet]) -> Figure:
    """Draws the sheets side by side, with the same axes. `sheets`: by the titles of their panels; '' for a single one."""
    first = next(iter(sheets.values()))
    grid, columns = grid_of(len(sheets)), range(len(sheets))
    metrics = list(first.panels)
    with kit.style():
        figure = kit.new_figure(grid.width, HEAD_HEIGHT + PANEL_HEIGHT * grid.rows * len(metrics))
        axes = figure.subplots(grid.rows * len(metrics), grid.columns, squeeze=False, sharex=True)
        every = [lines for sheet in sheets.values() for lines in sheet.panels.values()]
        colors = colors_of(list(dict.fromkeys(line.name for lines in every for line in lines)))
        places = _Places.of(first.axis, every, list(colors), grid.axis_inches)
        for row, metric in enumerate(metrics):
            block = axes[row * grid.rows : (row + 1) * grid.rows].reshape(-1)
            for number, (title, sheet) in zip(columns, sheets.items(), strict=True):
                alike = _alike(sheets, metric)
                unit = _panel(block[number], sheet.panels[metric], alike, metric, places, colors)
                _label(block[number], title, titles.of_metric(metric), unit, number % grid.columns == 0)
            for ax in block[len(sheets) :]:
                ax.set_axis_off()
        for number in columns[-grid.columns :]:
            ax = axes[(len(metrics) - 1) * grid.rows :].reshape(-1)[number]
            ax.tick_params(labelbottom=True)
            places.label(ax)
        _head(figure, first, places.joined, colors)
        caption_below(figure, first.caption)
    return figure


@dataclass(frozen=True, slots=True)
class Grid:
    """The arrangement of panels side by side."""

    rows: int
    columns: int
    width: float
    """The figure's width in inches."""

    @property
    def axis_inches(self) -> float:
        """The width of one panel's axis."""
        return (self.width - MARGIN_INCHES) / self.columns - (MARGIN_INCHES / 4 if self.columns > 1 else 0)


def grid_of(panels: int) -> Grid:
    """Returns the arrangement of so many panels: at most four in a row, and few empty places."""
    columns = panels if panels <= 3 else min((4, 3), key=lambda count: (-panels % count, -count))
    columns = 2 if panels == 4 else columns
    return Grid(math.ceil(panels / columns), columns, max(WIDTH, MARGIN_INCHES + PANEL_WIDTH * columns))


def _alike(sheets: Mapping[str, Sheet], metric: str) -> list[CurvePoint]:
    """Returns the points of all panels that share a scale: the panels of one metric, or of one list of metrics."""
    name = metric.partition(".")[0]
    panels = [panel for sheet in sheets.values() for panel in sheet.panels.items()]
    return [point for other, lines in panels if other.partition(".")[0] == name for line in lines for point in line.points]


def _label(ax: Axes, title: str, metric: str, unit: str, is_first: bool) -> None:
    """Sets the title and the label of the y axis. Among panels of several values of a key, the title is the value."""
    if not title:
        ax.set_title(metric, loc="left")
        if unit:
            ax.set_ylabel(unit)
        return
    ax.set_title(textwrap.shorten(title, PANEL_LETTERS, placeholder=" ..."), loc="left")
    if is_first:
        ax.set_ylabel(textwrap.fill(f"{metric} ({unit})" if unit else metric, LABEL_LETTERS))
    else:
        ax.tick_params(labelleft=False)


@dataclass(frozen=True, slots=True)
class _Places:
    """The positions of the key's values on the x axis."""

    axis: Axis
    xs: Sequence[float | str]
    lines: Sequence[str]
    joined: bool
    scale: Scale
    inches: float
    """The width of the axis."""

    @classmethod
    def of(cls, axis: Axis, panels: Sequence[Sequence[Curve]], lines: Sequence[str], inches: float) -> _Places:
        """Returns the positions for panels. `lines`: the names of the lines, in order."""
        xs = dict.fromkeys(point.x for curves in panels for line in curves for point in line.points)
        numbers = sorted(x for x in xs if isinstance(x, float))
        known = [name for name in styles.names() if name in xs] if axis.names_controllers else []
        ordered: list[float | str] = [*numbers, *known, *(x for x in xs if isinstance(x, str) and x not in known)]
        joined = axis.measures and len(numbers) == len(xs)
        return cls(axis, ordered, lines, joined, axis.scale(ordered), inches)

    def at(self, x: float | str, line: str) -> float:
        """Returns the position of a value. A number lies at its value. Within a category each line has its own position, unless
        the lines are the categories."""
        if self.joined:
            assert isinstance(x, float)
            return self.scale.of(x)
        middle = float(self.xs.index(x))
        if self.axis.names_lines:
            return middle
        return middle + SPREAD * ((self.lines.index(line) + 0.5) / len(self.lines) - 0.5)

    def label(self, ax: Axes) -> None:
        """Labels every value that was tried. Labels that are close are rotated."""
        unit = typeset(self.scale.unit)
        ax.set_xlabel(f"{self.axis.title} ({unit})" if unit else self.axis.title)
        numbers = [x for x in self.xs if isinstance(x, float)]
        texts = [x if isinstance(x, str) else number(self.scale.of(x)) for x in self.xs]
        if not self.joined:
            ticks = [float(position) for position in range(len(self.xs))]
            ax.set_xlim(-0.6, len(self.xs) - 0.4)
            ax.set_xticks(ticks, [self.axis.label_of(text) for text in texts])
            _make_room(ax, [tick * self.inches / max(1, len(ticks)) for tick in ticks], texts)
            return
        ticks = [self.scale.of(x) for x in numbers]
        self._scale_numbers(ax, ticks)
        ax.set_xticks(ticks, texts)
        ax.minorticks_off()
        _make_room(ax, [_share_along(ax, tick) * self.inches for tick in ticks], texts)

    def _scale_numbers(self, ax: Axes, ticks: Sequence[float]) -> None:
        positive = [tick for tick in ticks if tick > 0]
        if is_wide(ticks):
            ax.set_xscale("log")
            room = (ticks[-1] / ticks[0]) ** 0.04
            ax.set_xlim(ticks[0] / room, ticks[-1] * room)
        elif is_wide(positive) and ticks[0] >= 0:
            ax.set_xscale("symlog", linthresh=positive[0], linscale=0.5)
            ax.set_xlim(-0.15 * positive[0], ticks[-1] * (ticks[-1] / positive[0]) ** 0.04)
        elif len(ticks) == 1:
            ax.set_xlim(ticks[0] - 1, ticks[0] + 1)
        else:
            room = 0.04 * (ticks[-1] - ticks[0])
            ax.set_xlim(ticks[0] - room, ticks[-1] + room)


def _share_along(ax: Axes, value: float) -> float:
    """Returns where a value lies along the axis, 0..1."""
    low, high, at = ax.xaxis.get_transform().transform([*ax.get_xlim(), value])
    return float((at - low) / (high - low))


def _make_room(ax: Axes, at: Sequence[float], texts: Sequence[str]) -> None:
    """Rotates labels that would touch. If rotated labels would still touch, some are left out. `at`: their places in inches."""
    gaps = [b - a for a, b in pairwise(at)]
    widths = [LETTER_INCHES * (len(a) + len(b)) / 2 + 0.08 for a, b in pairwise(texts)]
    if all(gap >= width for gap, width in zip(gaps, widths, strict=True)):
        return
    last = -math.inf
    for label, position in zip(ax.get_xticklabels(), at, strict=True):
        label.set(rotation=40, ha="right", rotation_mode="anchor")
        if position - last < LINE_INCHES:
            label.set_visible(False)
        else:
            last = position


def _panel(
    ax: Axes,
    lines: Sequence[Curve],
    points: Sequence[CurvePoint],
    metric: str,
    places: _Places,
    colors: Mapping[str, tuple[str, str, str]],
) -> str:
    """Draws the lines on a scale that suits `points`, and returns its unit."""
    from matplotlib.transforms import offset_copy

    family, most = readable.family_of(metric), _most(metric)
    scale = _scale(family, [point.mean for point in points])
    bars = [_bar(point.mean, point.half_width, scale, most) for point in points if not point.few]
    bars += [_bar(value, None, scale, most) for point in points if point.few for value in point.values]
    set_scale(ax, "y", bars, most / scale.factor)
    beside = offset_copy(ax.transData, ax.figure, x=BESIDE_POINTS, units="points")  # type: ignore[arg-type]
    for line in lines:
        color, _, marker = colors[line.name]
        at = [places.at(point.x, line.name) for point in line.points]
        means = [scale.of(point.mean) for point in line.points]
        marked = [row for row, point in enumerate(line.points) if not point.few]
        look: dict[str, Any] = {"marker": marker, "color": color, "markersize": 5, "zorder": 3}
        ax.plot(at, means, markevery=marked, linestyle="-" if places.joined else "", **look)
        for x, point in zip(at, line.points, strict=True):
            if point.few:
                ax.plot([x] * point.results, [*map(scale.of, point.values)], linestyle="", **look)
                continue
            draw_bar(ax, x, _bar(point.mean, point.half_width, scale, most), color)
            if len(point.values) > 1:
                scaled = [scale.of(value) for value in point.values]
                ax.plot([x] * len(scaled), scaled, ".", color=color, markersize=4, alpha=0.6, transform=beside)
    return typeset(scale.unit)


def _most(metric: str) -> float:
    """Returns the largest possible value of a metric."""
    return 1.0 if metric in AT_MOST_1 or metric == "utilization" else math.inf


def _bar(mean: float, half: float | None, scale: Scale, most: float) -> ErrorBar:
    return bar_of(scale.of(mean), None if half is None else half / scale.factor, most / scale.factor)


def _scale(family: str, means: Sequence[float]) -> Scale:
    if is_wide([abs(mean) for mean in means]):
        return readable.scale_of(family, means)
    return readable.axis_scale(family, max(map(abs, means)))


def colors_of(names: Sequence[str]) -> dict[str, tuple[str, str, str]]:
    """Returns colour, label and marker of each line. Controllers come first, with their own; the other lines get colours and
    markers that are still free."""
    known = {name: style for name in names if (style := styles.find(name))}
    names = [*(name for name in styles.names() if name in known), *(name for name in names if name not in known)]
    colors = _free(kit.FLOW_COLORS, [style.color for style in known.values()])
    markers = _free(MARKERS, [style.marker for style in known.values()])
    return {
        name: (known[name].color, known[name].label, known[name].marker) if name in known else (next(colors), name, next(markers))
        for name in names
    }


def _free(kinds: Sequence[str], taken: Sequence[str]) -> Iterator[str]:
    """Returns an endless iterator over the kinds that are not taken yet."""
    return itertools.cycle([kind for kind in kinds if kind not in taken] or kinds)


def _head(figure: Figure, sheet: Sheet, joined: bool, colors: Mapping[str, tuple[str, str, str]]) -> None:
    """Draws the title and, below it, the legend, unless there is only one line or the axis names the lines."""
    if len(colors) < 2 or sheet.axis.names_lines:
        kit.title(figure, _broken(sheet.title, figure, TITLE_LETTERS))
        return
    key = "" if sheet.by_key == BY_DEFAULT else f"{titles.of_key(sheet.by_key)}: "
    shape: dict[str, Any] = {"markersize": 5, "linestyle": "-" if joined else ""}
    handles = [kit.sample(color, marker=marker, **shape) for color, _, marker in colors.values()]
    legend_above(figure, handles, [f"{key}{titles.amount(label)}" for _, label, _ in colors.values()], sheet.title)


def legend_above(figure: Figure, handles: Sequence[Line2D], labels: Sequence[str], title: str) -> None:
    """Draws the title and, below it, the legend, above all panels."""
    columns = max(1, min(len(labels), _letters(figure, LEGEND_LETTERS) // (4 + max(map(len, labels)))))
    look = {"title_fontproperties": {"size": kit.TITLE_POINTS, "weight": "bold"}, "alignment": "left", "borderpad": 0.2}
    text = _broken(title, figure, TITLE_LETTERS)
    figure.legend(handles, labels, loc="outside upper left", ncols=columns, title=text, **look)


def caption_below(figure: Figure, text: str) -> None:
    """Writes the caption below all panels, in as many rows as it needs."""
    kit.caption(figure, _broken(text, figure, CAPTION_LETTERS))


def _broken(text: str, figure: Figure, letters: int) -> str:
    """Returns a text in rows. `letters`: how many fit in a row of a figure of the usual width."""
    return textwrap.fill(text, _letters(figure, letters))


def _letters(figure: Figure, letters: int) -> int:
    return round(letters * figure.get_figwidth() / WIDTH)
