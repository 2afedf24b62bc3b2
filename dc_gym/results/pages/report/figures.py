# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of a report: queues over time and as distributions, rates, slowdown by size, and links.

Lines are means over seeds, bands their 95 % intervals. Text sizes suit a column of this width on a screen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from dc_gym.base import readable
from dc_gym.base.readable import Scale
from dc_gym.base.stats import FEWEST, band
from dc_gym.results.figures import events, kit
from dc_gym.results.figures.axes import WIDE, log_from_zero, log_ticks, plain_ticks
from dc_gym.results.figures.kit import FRAME_KB, INK, MARK
from dc_gym.results.figures.markings import MOST_PORTS, all_ports
from dc_gym.results.figures.slowdown import PERCENTILES, SizeLine, draw_lines
from dc_gym.results.figures.topology import draw_topology
from dc_gym.results.metrics import MOST_LINES, Series
from dc_gym.results.pages.report.measured import QUANTILES, RunData
from dc_gym.results.pages.report.runs import Group, Scenario
from dc_gym.results.pages.report.tables import together

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
WIDTH, WIDE_WIDTH = 5.4, 10.4
LEGEND_LETTERS = 62  # letters that fit in a row of a legend
STYLE = {"font.size": 10, "axes.titlesize": 10.5, "axes.labelsize": 10, "xtick.labelsize": 9.5, "ytick.labelsize": 9.5}
MANY = 8  # more flows than this are drawn as thin lines, with their mean


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """One figure, with its title and caption."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]
    wide: bool = False
    """True if the figure takes the whole width of the page."""


def all_figures(scenario: Scenario, measured: Mapping[str, RunData]) -> list[ReportFigure]:
    """Returns the figures for which the scenario has data."""
    groups = [group for group in scenario.groups if group.runs]
    if not groups:
        return []
    slowdown = _slowdown(groups, measured)
    sampled = any(measured[run.number].series.queue_port for group in groups for run in group.runs)
    queues = [_queue_over_time(groups, measured), _queue_distribution(groups, measured)] if sampled else []
    carried = any(measured[run.number].series.flows for group in groups for run in group.runs)
    rates = [_rates(groups, measured)] if carried else []
    return [*_topology(groups, measured), *queues, *_markings(groups, measured), *([slowdown] if slowdown else []), *rates]


def _topology(groups: Sequence[Group], measured: Mapping[str, RunData]) -> list[ReportFigure]:
    """Returns the figure of the network with the utilization of each link, from the first controller's first run.

    Returns none if the network is not known.
    """
    group, run = groups[0], measured[groups[0].runs[0].number]
    graph = run.graph
    if graph is None:
        return []
    utilization = {port: share for port, share in run.utilization.items() if math.isfinite(share)}

    def draw() -> Figure:
        figure = kit.new_figure(WIDE_WIDTH, 5.2 if len(graph.switches) > 2 else 3.6)
        ax = figure.subplots()
        colors = draw_topology(graph, ax, utilization)
        assert colors is not None, "there is a utilization"
        bar = figure.colorbar(colors, ax=ax, fraction=0.025, pad=0.01, format=lambda share, _: f"{share:.0%}")
        bar.set_label("Utilization")
        bar.outline.set_visible(False)
        if bar.solids is not None:
            bar.solids.set(rasterized=False, edgecolor="face")  # no raster image within the vector drawing
        return figure

    caption = (
        f"The network, and how busy its links were after the warm-up: {group.label}, seed {group.runs[0].seed}."
        " Each half of a link is the direction that leaves the node beside it."
    )
    return [ReportFigure("topology", "Topology and link utilization", caption, draw, wide=True)]


def _queue_over_time(groups: Sequence[Group], measured: Mapping[str, RunData]) -> ReportFigure:
    ports = dict.fromkeys(measured[run.number].series.queue_port or "?" for group in groups for run in group.runs)
    thresholds = {measured[run.number].series.k_bytes for group in groups for run in group.runs} - {None}

    def draw() -> Figure:
        figure = _figure(0.56)
        ax = figure.subplots()
        time = _time_scale(groups, measured)
        _bands(ax, groups, measured, time)
        _time_axis(ax, measured[groups[0].runs[0].number], time)
        every = [measured[run.number].queue_bytes / 1e3 for group in groups for run in group.runs]
        k_kb = [k_bytes / 1e3 * 1.05 for k_bytes in thresholds if k_bytes is not None]
        ax.set_ylabel("Queue (kB)")
        _kilobytes(ax, "y", [_mean(queue_kb) for queue_kb in every], max(*k_kb, *(kit.peak(queue_kb) for queue_kb in every), 0.0))
        if len(thresholds) == 1:
            k_bytes = thresholds.copy().pop()
            kit.end_line(ax, (k_bytes or 0) / 1e3, "K", MARK)
        _legend(figure, groups)
        return figure

    where = f"port {', '.join(ports)}" if len(ports) <= 3 else "the switch port with the longest mean queue in each run"
    mark = "; K is where marking begins" if len(thresholds) == 1 else ""
    return ReportFigure(
        "queue",
        "Queue over time",
        f"Backlog of {where}, means over short intervals{_over_seeds(groups)}{mark}.{_grey(measured[groups[0].runs[0].number])}",
        draw,
    )


def _markings(groups: Sequence[Group], measured: Mapping[str, RunData]) -> Iterator[ReportFigure]:
    """Yields a figure for each controller with agents that set markings, from its first run."""
    time = _time_scale(groups, measured)
    for number, group in enumerate(groups, 1):
        markings = measured[group.runs[0].number].markings
        if markings is None:
            continue
        count = len(markings.most_changed(MOST_PORTS).names)
        few = f" The {count} ports of {len(markings.names)} where it changed most often." if count < len(markings.names) else ""
        yield ReportFigure(
            f"marking-{number}",
            f"Marking in force: {group.label}",
            f"Kmin of each switch port, as agents set it and the kernel has it; seed {group.runs[0].seed}.{few}",
            partial(all_ports, markings, time, WIDE_WIDTH),
            wide=True,
        )


def _queue_distribution(groups: Sequence[Group], measured: Mapping[str, RunData]) -> ReportFigure:
    def draw() -> Figure:
        figure = _figure(0.56)
        left, right = figure.subplots(1, 2, sharey=True)
        limits: dict[Axes, list[float]] = {left: [], right: []}
        for ax, name, title in (
            (left, "switch_quantiles", "Longest switch queue"),
            (right, "host_quantiles", "Longest host queue"),
        ):
            for group in groups:
                values = np.array([getattr(measured[run.number], name) for run in group.runs])
                mean, _ = band(values)
                if np.isfinite(mean).any():
                    ax.step(mean / 1e3, QUANTILES, where="pre", color=group.color)
                    limits[ax] += [float(mean.mean()) / 1e3, float(mean.max()) / 1e3]
            ax.set_title(title, loc="left")
            ax.set_xlabel("Backlog (kB)")
            _kilobytes(ax, "x", limits[ax][::2], max(limits[ax], default=0))
        left.set_ylabel("Share of the time")
        left.set_ylim(0, 1.02)
        _legend(figure, groups)
        return figure

    means = _over_seeds(groups, "quantiles are means")
    caption = f"Backlog after the warm-up, at the switch port and at the host port with the longest mean queue{means}."
    return ReportFigure("queue-cdf", "Distribution of queues", caption, draw)


def _rates(groups: Sequence[Group], measured: Mapping[str, RunData]) -> ReportFigure:
    first_runs = [(group, measured[group.runs[0].number]) for group in groups]

    def draw() -> Figure:
        columns = min(4, len(first_runs)) if len(first_runs) != 6 else 3
        rows = math.ceil(len(first_runs) / columns)
        figure = kit.new_figure(WIDE_WIDTH, 0.3 + 2.5 * rows)
        axes = np.array(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)).reshape(-1)
        peak = max(kit.peak(_lines(run.series)) for _, run in first_runs)
        scale, time = readable.axis_scale("bps", peak), _time_scale(groups, measured)
        for ax, (group, run) in zip(axes, first_runs, strict=False):
            _rate_lines(ax, run.series, scale.factor, group.color, time)
            ax.set_title(group.label, loc="left", color=group.color)
            kit.warm_up(ax, time.of(run.spec.time.warmup_ns / 1e9))
            events.draw(ax, run.events, time, labelled=ax is axes[0])
            ax.set_xlim(0, time.of(run.spec.time.duration_ns / 1e9))
        for ax in axes[len(first_runs) :]:
            ax.set_axis_off()
        for ax in axes[max(0, len(first_runs) - columns) : len(first_runs)]:
            ax.set_xlabel(f"Time ({readable.typeset(time.unit)})")
            ax.tick_params(labelbottom=True)
        for ax in axes[::columns]:
            ax.set_ylabel(f"Goodput ({scale.unit})")
        axes[0].set_ylim(0, scale.of(peak) * 1.1 if peak > 0 else 1)
        plain_ticks(axes[0], "y")
        return figure

    flows = first_runs[0][1].series.flows
    several = "Thin: each flow; thick: the mean of those under way" if flows <= MOST_LINES else f"All {flows:,} flows together"
    subject = "One line a flow" if flows <= MANY else several
    caption = (
        f"{subject}; seed {groups[0].runs[0].seed} of each controller. Payload, as links can have carried it: what an application"
        f" reads at once, when a lost packet is replaced, had come before.{_grey(first_runs[0][1])}"
    )
    return ReportFigure("rates", "Goodput over time", caption, draw, wide=True)


def _slowdown(groups: Sequence[Group], measured: Mapping[str, RunData]) -> ReportFigure | None:
    lines = [SizeLine.of(group.label, group.color, together(group, measured)) for group in groups]
    unfinished = sum(line.unfinished for line in lines)
    drawn = [(group, line) for group, line in zip(groups, lines, strict=True) if line.bins]
    if not drawn:
        return None

    def draw() -> Figure:
        figure = kit.new_figure(WIDE_WIDTH, 4.2)
        ax = figure.subplots()
        draw_lines(ax, [line for _, line in drawn])
        log_ticks(ax, "y")
        ax.set_xlabel("Flow size: the largest of each bin, bins of equally many flows")
        ax.set_ylabel("FCT slowdown")
        _legend(figure, [group for group, _ in drawn], tuple(PERCENTILES.values()))
        return figure

    caption = (
        "Completion time over that of the same flow alone on the idle network, by size: 20 bins of equally many flows (HPCC)"
    )
    caption += ", all seeds together." if any(len(group.runs) > 1 for group in groups) else "."
    caption += (
        f" {unfinished:,} {'flows' if unfinished > 1 else 'flow'} had not finished: not in the lines, but in the table below."
        if unfinished
        else " Every counted flow finished."
    )
    return ReportFigure("slowdown", "FCT slowdown by flow size", caption, draw, wide=True)


def _figure(ratio: float) -> Figure:
    return kit.new_figure(WIDTH, WIDTH * ratio)


def _bands(ax: Axes, groups: Sequence[Group], measured: Mapping[str, RunData], time: Scale) -> None:
    """Draws the queue of each controller: the mean over its runs and, with two runs or more, the interval of the mean."""
    for group in groups:
        runs = [measured[run.number] for run in group.runs]
        mean, half = band(np.array([run.queue_bytes / 1e3 for run in runs]))
        at = runs[0].queue_s / time.factor
        kit.shade(ax, at, np.maximum(mean - half, 0), mean + half, group.color)
        ax.plot(at, mean, color=group.color, linewidth=1.4)


def _time_scale(groups: Sequence[Group], measured: Mapping[str, RunData]) -> Scale:
    return readable.axis_scale("s", measured[groups[0].runs[0].number].spec.time.duration_ns / 1e9)


def _time_axis(ax: Axes, run: RunData, time: Scale) -> None:
    kit.warm_up(ax, time.of(run.spec.time.warmup_ns / 1e9))
    events.draw(ax, run.events, time)
    ax.set_xlim(0, time.of(run.spec.time.duration_ns / 1e9))
    ax.set_xlabel(f"Time ({readable.typeset(time.unit)})")


def _grey(run: RunData) -> str:
    """Explains the grey area, if there is one."""
    return " Grey: warm-up." if run.spec.time.warmup_ns else ""


def _kilobytes(ax: Axes, axis: Literal["x", "y"], means: Sequence[float], top: float) -> None:
    """Sets an axis in kB from 0. If the means lie far apart, it is logarithmic above one frame."""
    positive = [mean for mean in means if mean > 0]
    limit = ax.set_xlim if axis == "x" else ax.set_ylim
    if not positive or max(positive) / min(positive) <= WIDE:
        limit(0, top * 1.08 if top > 0 else 1)
        return
    log_from_zero(ax, axis, top, FRAME_KB)


def _lines(run: Series) -> Floats:
    return run.goodput_bps if len(run.goodput_bps) else run.total_bps[None, :]


def _rate_lines(ax: Axes, run: Series, factor: float, color: str, time: Scale) -> None:
    lines, at = _lines(run) / factor, run.t_s / time.factor
    many = len(lines) > MANY
    for line in lines:
        ax.plot(at, line, color=color, linewidth=0.6 if many else 1.1, alpha=0.45 if many else 0.75)
    if many:
        ax.plot(at, band(np.where(lines > 0, lines, np.nan))[0], color=INK, linewidth=1.6)


def _legend(figure: Figure, groups: Sequence[Group], styles: Sequence[tuple[str, object]] = ()) -> None:
    lines = [kit.sample(group.color) for group in groups]
    lines += [kit.sample(INK, linewidth=1.5, linestyle=dashes) for _, dashes in styles]
    names = [group.label for group in groups] + [name for name, _ in styles]
    columns = max(1, min(4, len(lines), LEGEND_LETTERS // max(map(len, names))))
    figure.legend(lines, names, loc="outside upper left", ncols=columns, handlelength=1.6)


def _over_seeds(groups: Sequence[Group], subject: str = "lines are means") -> str:
    most = max(len(group.runs) for group in groups)
    interval = "their 95 % intervals" if most >= FEWEST else "from one run to the other"
    bands = f", bands {interval}" if subject.startswith("lines") else ""
    return f"; {subject} over up to {most} seeds{bands}" if most > 1 else ""


def _mean(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else 0.0
