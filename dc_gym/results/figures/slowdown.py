# SPDX-License-Identifier: Apache-2.0
"""`dcgym plot DIR --x flow_size`: draws FCT slowdown by flow size, median and 99th percentile, a colour for each controller.

The flows of all seeds are taken together and sorted by size, in HPCC's 20 bins of equally many flows (metrics/fct.py). A further
key makes panels. The report draws its figure with the same functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym import spec as specs
from dc_gym.base import readable
from dc_gym.base.errors import UsageError
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.terminal import say
from dc_gym.results.figures import curves, kit, spec_keys, sweep_figure, titles
from dc_gym.results.figures.axes import log_ticks
from dc_gym.results.figures.facets import split
from dc_gym.results.figures.sweep_figure import BY_DEFAULT
from dc_gym.results.metrics import Sized, Window
from dc_gym.results.metrics.fct import counted
from dc_gym.results.results import Result
from dc_gym.spec import RecordedSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FLOW_SIZE", "PERCENTILES", "SizeLine", "draw_lines", "main", "pooled", "sized_of"]

FLOW_SIZE = curves.FLOW_SIZE
BINS = "hpcc"
PERCENTILES: Mapping[str, tuple[str, Any]] = {"p99": ("p99", "solid"), "p50": ("median", (0, (2, 2)))}
"""The percentiles that are drawn, each with its label and its line style."""
MOST_SIZES, SIZE_INCHES = 10, 0.56
"""The sizes that fit below an axis as wide as a page, and the width of one."""
PANEL_HEIGHT, HEAD_HEIGHT = 2.6, 1.0


@dataclass(frozen=True, slots=True)
class SizeLine:
    """The flows of one line in bins of sizes."""

    label: str
    color: str
    bins: Sequence[Mapping[str, Any]]
    unfinished: int

    @classmethod
    def of(cls, label: str, color: str, sized: Sized) -> SizeLine:
        bins = sized.bins(BINS) if np.isfinite(sized.slowdown).any() else []
        return cls(label, color, bins, int((~sized.finished).sum()))

    def values(self, percentile: str) -> list[float]:
        """Returns the slowdown of each bin; NaN where no flow finished."""
        return [math.nan if entry[f"slowdown_{percentile}"] is None else entry[f"slowdown_{percentile}"] for entry in self.bins]


def main(folder: Path, by_key: str, out: Path | None, force: bool = False, where: Sequence[str] = ()) -> int:
    """Draws the figure, prints its points as a table, and prints where the figure is."""
    figure_path = out or folder / curves.name_of(FLOW_SIZE, ["slowdown"], by_key, where)
    kit.check_name(figure_path)
    mark = mark_of("plot", [folder], figure_path)
    require_place(figure_path, is_marked(mark), force=force)
    results, left_out = curves.fit_results(folder, where)
    facets = split(results, (by_key,))
    panels = _panels(facets.parts, by_key)
    if not any(line.bins for lines in panels.values() for line in lines):
        raise UsageError(f"{folder}: no flow has a slowdown; it needs flows with a size (docs/results.md#ideal-completion-time)")
    for title, lines in panels.items():
        say(f"FCT slowdown by flow size, a line for each {by_key}{f'; {title}' if title else ''}")
        say(readable.columns([row for line in lines for row in _rows(line)], "  "))
    title = curves.title_of(results, "flow size", *([titles.of_key(facets.key)] if facets.key else []))
    unfinished = sum(line.unfinished for lines in panels.values() for line in lines)
    keys = {"colour": by_key, "panels": facets.key, "where": ", ".join(where)}
    notes = [*(f"{name}: {key}" for name, key in keys.items() if key), "20 bins of equally many flows (HPCC), all seeds together"]
    notes += [f"{unfinished:,} unfinished flows are not in the lines"] if unfinished else []
    figure = _draw(title, panels, "; ".join([*notes, left_out] if left_out else notes))
    say(kit.save(figure, figure_path, mark=mark))
    return 0


def sized_of(result: Result, spec: RecordedSpec) -> Sized:
    """Returns the flows that count, with the slowdown that the run computed."""
    flows, table = result.records("flows"), result.derived("flow_metrics")
    starts = Window(spec.time.warmup_ns, spec.metrics.cutoff_ns or spec.time.duration_ns)
    plain = Sized.of(flows, starts)
    if table is None or "slowdown" not in table.column_names:
        return plain
    return replace(plain, slowdown=np.asarray(table.column("slowdown"), np.float64)[counted(flows, starts)])


def pooled(parts: Sequence[Sized]) -> Sized:
    """Returns the flows of several runs together."""
    columns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("group", "size_bytes", "fct_s", "slowdown"))
    return Sized(*columns)


def draw_lines(ax: Axes, lines: Sequence[SizeLine], most_sizes: int = MOST_SIZES) -> None:
    """Draws median and 99th percentile of each line over its bins. The ticks are the sizes of the first line."""
    for line in lines:
        for percentile, (_, dashes) in PERCENTILES.items():
            look: dict[str, Any] = {"linestyle": dashes, "linewidth": 1.8 if dashes == "solid" else 1.3}
            ax.plot(range(len(line.bins)), line.values(percentile), color=line.color, marker="o", markersize=3, **look)
    ax.axhline(1, color=kit.FAINT, linewidth=0.8, zorder=1)
    ax.set_yscale("log")
    if sizes := [size_bin["to_bytes"] for size_bin in lines[0].bins] if lines else []:
        step = max(1, math.ceil(len(sizes) / most_sizes))
        ticks = range(len(sizes))[step - 1 :: step]
        ax.set_xticks(ticks, [readable.quantity(sizes[tick], "bytes", 3) for tick in ticks])


def _panels(parts: Mapping[str, Sequence[Result]], by_key: str) -> dict[str, list[SizeLine]]:
    """Returns the lines of each panel, by its title. Lines without a slowdown are left out."""
    sized: dict[str, dict[str, list[Sized]]] = {}
    for title, part in parts.items():
        for result, name in zip(part, spec_keys.names(part, by_key), strict=True):
            spec = specs.recorded(result.manifest.get("spec", {}), str(result.path / "manifest.json"))
            sized.setdefault(title, {}).setdefault(name, []).append(sized_of(result, spec))
    names = sorted({name for lines in sized.values() for name in lines}, key=spec_keys.in_order)
    styles = sweep_figure.colors_of(names)
    prefix = "" if by_key == BY_DEFAULT else f"{titles.of_key(by_key)}: "
    return {
        title: [
            line
            for name, (color, label, _) in styles.items()
            if name in lines and (line := SizeLine.of(f"{prefix}{titles.amount(label)}", color, pooled(lines[name]))).bins
        ]
        for title, lines in sized.items()
    }


def _rows(line: SizeLine) -> list[list[str]]:
    medians, tails = line.values("p50"), line.values("p99")
    return [
        [
            line.label,
            f"up to {readable.quantity(size_bin['to_bytes'], 'bytes', 3)}",
            *(f"{name} {readable.number(value, 3)}" for name, value in (("median", median), ("p99", tail))),
            f"(n = {size_bin['flows']})",
        ]
        for size_bin, median, tail in zip(line.bins, medians, tails, strict=True)
    ]


def _draw(title: str, panels: Mapping[str, Sequence[SizeLine]], caption: str) -> Any:
    """Draws the panels side by side, with the same scale of slowdown."""
    grid = sweep_figure.grid_of(len(panels))
    with kit.style():
        figure = kit.new_figure(grid.width, HEAD_HEIGHT + PANEL_HEIGHT * grid.rows * (1 if len(panels) > 1 else 1.4))
        axes = figure.subplots(grid.rows, grid.columns, squeeze=False, sharey=True).reshape(-1)
        for number, (ax, (name, lines)) in enumerate(zip(axes, panels.items(), strict=False)):
            draw_lines(ax, lines, int(grid.axis_inches / SIZE_INCHES))
            ax.set_title(name, loc="left")
            if number % grid.columns == 0:
                ax.set_ylabel("FCT slowdown")
            if number >= len(panels) - grid.columns:
                ax.set_xlabel("Flow size: the largest of each bin")
        log_ticks(axes[0], "y")
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        colors = {line.label: line.color for lines in panels.values() for line in lines}
        handles = [kit.sample(color) for color in colors.values()]
        handles += [kit.sample(kit.INK, linewidth=1.5, linestyle=dashes) for _, dashes in PERCENTILES.values()]
        labels = [*colors, *(label for label, _ in PERCENTILES.values())]
        sweep_figure.legend_above(figure, handles, labels, title)
        sweep_figure.caption_below(figure, caption)
    return figure
