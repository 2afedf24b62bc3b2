# SPDX-License-Identifier: Apache-2.0
"""Draws one run over time, from its result alone. Units on the axes follow the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dc_gym import spec
from dc_gym.base import readable
from dc_gym.base.errors import TestbedError
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.readable import Scale
from dc_gym.base.stats import band
from dc_gym.results.figures import events, kit, styles
from dc_gym.results.figures.events import EventMark
from dc_gym.results.figures.markings import Markings, draw_port
from dc_gym.results.metrics import MOST_LINES, Series, Window, series
from dc_gym.results.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
INTERVALS = 200
PALE = "#9DB8CC"
"""The colour of a flow among many."""


@dataclass(frozen=True, slots=True)
class ProgramTimes:
    """A program of workload.exec, with its times."""

    name: str
    start_s: float | None
    end_s: float | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> ProgramTimes:
        """Returns the program of a row in the manifest."""
        at = [None if row.get(name) is None else float(row[name]) / 1e9 for name in ("start_ns", "end_ns")]
        return cls(f"{row.get('host', '?')}: {Path(str((row.get('command') or '?')[0])).name}", *at)


def load_series(result: Result, intervals: int = INTERVALS) -> Series:
    """Returns the series of a result on disk, with goodput as links can have carried it.

    If the run was sampled more rarely, there are fewer intervals, so that none is empty.
    """
    run_spec = _spec_of(result)
    sampled_ns = max(run_spec.monitor.interval_ns, run_spec.monitor.tcp_interval_ns)
    most = max(1, run_spec.time.duration_ns // sampled_ns)
    return series(result.stored, run_spec.time.duration_ns, Window.of(run_spec), min(intervals, most), as_arrived=True)


def windows_of(result: Result) -> dict[int, tuple[Floats, Floats]]:
    """Returns the congestion windows of the flows whose ACKs were recorded: times in s and packets, where a window changed.

    The keys are the flows' rows in their table.
    """
    parts: dict[int, list[tuple[Floats, Floats]]] = {}
    numbers = result.records("flows")["flow"]
    for piece in result.stored.pieces("acks", "t_ns", "flow", "cwnd_packets"):
        rows = np.searchsorted(numbers, piece["flow"])
        for row in np.unique(rows[rows < MOST_LINES]).tolist():
            t_ns, packets = piece["t_ns"][rows == row], piece["cwnd_packets"][rows == row].astype(np.float64)
            changed = np.diff(packets, prepend=-1) != 0
            changed[-1] = True
            parts.setdefault(row, []).append((t_ns[changed] / 1e9, packets[changed]))
    joined = {row: [np.concatenate(column) for column in zip(*lines, strict=True)] for row, lines in parts.items()}
    return {row: (t_s, packets) for row, (t_s, packets) in joined.items()}


def plot_to(result: Result, path: Path, force: bool = False) -> Path:
    """Draws one run into a file that the user names. An existing file is replaced only if it is this result's plot, or with
    `force`."""
    kit.check_name(path)
    mark = mark_of("plot", [result.path], path)
    require_place(path, is_marked(mark), force=force)
    return plot_result(result, path, mark)


def plot_result(result: Result, path: Path | None = None, mark: str = "") -> Path:
    """Draws one run. The figure is plot.png in the run's folder unless `path` says otherwise."""
    return kit.save(draw(result), result.path / "plot.png" if path is None else path, mark=mark)


def draw(result: Result) -> Figure:
    """Returns the figure of a run over time."""
    run_spec = _spec_of(result)
    flows = result.records("flows")
    names = result.names
    labels = [f"{names.node[flow['src']]} to {names.node[flow['dst']]}" for flow in flows[:MOST_LINES]]
    programs = [ProgramTimes.of(program) for program in result.manifest.get("exec", ())]
    marks = events.marks_of(result.manifest)
    warm_up = "; grey: warm-up" if run_spec.time.warmup_ns else ""
    caption = f"digest {result.digest[:16]}{warm_up}"
    styles.remember(result.manifest)
    acting = styles.label_of_section(result.controller)
    title = f"{run_spec.name}: {acting}, seed {run_spec.seed}"
    warmup_s, markings = run_spec.time.warmup_ns / 1e9, Markings.of(result)
    return run_figure(load_series(result), title, labels, warmup_s, caption, programs, marks, markings, windows_of(result))


def run_figure(
    run: Series,
    title: str,
    flow_labels: Sequence[str],
    warmup_s: float = 0,
    caption: str = "",
    programs: Sequence[ProgramTimes] = (),
    marks: Sequence[EventMark] = (),
    markings: Markings | None = None,
    windows: Mapping[int, tuple[Floats, Floats]] | None = None,
) -> Figure:
    """Returns a figure of one run over time, in panels one above the other. The warm-up is shaded, and events are lines.

    The queue is always shown; goodput, RTT and fairness where there are flows. Over RDMA there is also the rate that the NIC
    allows each flow, and the RTT is shown only if the algorithm has it measured. If there are programs or no flows, the busiest
    link is shown; with programs, the times at which they ran. Flows of several classes are coloured by class. Where an agent set
    the marking of the queue that is shown, its thresholds are below the queue. `windows` are shown as `windows_of` returns them.
    """
    scale = readable.axis_scale("s", run.end_s)
    panels: list[Callable[[Axes, Series], object]] = [_run_queue]
    if markings is not None and run.queue_port and (port_markings := markings.at(run.queue_port)) is not None:
        panels.append(_marking_panel(port_markings, scale))
    if programs or not run.flows:
        panels += [_busiest_panel] if run.busy_port else []
    goodput = len(panels)
    if run.flows:
        panels += [*([_class_panel] if run.classes else []), _goodput_panel, *([_allowed_panel] if run.over_rdma else [])]
        panels += [_window_panel(windows, scale)] if windows else []
        panels += [_rtt_panel] if np.isfinite(run.mean_srtt_us).any() else []
        panels += [_run_fairness] if np.isfinite(run.jain).any() else []
    run = replace(run, t_s=run.t_s / scale.factor)
    rows = [1.0] * len(panels) + ([0.25 + 0.12 * len(programs)] if programs else [])
    with kit.style():
        figure = kit.new_figure(8.2, 0.4 + 1.85 * sum(rows))
        grid = figure.subplots(len(rows), 1, sharex=True, squeeze=False, height_ratios=rows)[:, 0]
        for ax, panel in zip(grid, panels, strict=False):
            panel(ax, run)
            kit.warm_up(ax, scale.of(warmup_s))
            events.draw(ax, marks, scale, labelled=ax is grid[0])
        if programs:
            _program_panel(grid[-1], programs, scale)
        grid[-1].set_xlabel(f"Time ({readable.typeset(scale.unit)})")
        figure.align_ylabels(grid[: len(panels)])
        grid[-1].set_xlim(0, run.end_s)
        kit.title(figure, title)
        if run.classes:
            _class_legend(grid[goodput], run)
        elif run.flows:
            _flow_legend(grid[goodput], flow_labels if len(run.goodput_bps) else [])
        kit.caption(figure, caption)
    return figure


def _spec_of(result: Result) -> spec.RecordedSpec:
    manifest_spec = result.manifest.get("spec")
    if not isinstance(manifest_spec, Mapping):
        raise TestbedError(f"{result.path}: its manifest has no spec, so the figure has no title and no duration")
    return spec.recorded(manifest_spec, str(result.path / "manifest.json"))


def _run_queue(ax: Axes, run: Series) -> None:
    k_bytes = run.k_bytes or 0
    scale = readable.axis_scale("bytes", max(kit.peak(run.queue_bytes), k_bytes))
    ax.plot(run.t_s, run.queue_bytes / scale.factor, color=kit.INK, linewidth=1.2)
    ax.set_ylabel(f"Queue ({scale.unit})")
    threshold = "" if run.k_bytes is None else f", marking from K = {run.k_bytes:,} B"
    ax.set_title(f"Queue of {run.queue_port}{threshold}" if run.queue_port else "Queue", loc="left")
    kit.from_zero(ax, run.queue_bytes / scale.factor, k_bytes / scale.factor)
    if run.k_bytes is not None:
        kit.end_line(ax, run.k_bytes / scale.factor, "K", kit.MARK)


def _marking_panel(markings: Markings, time: Scale) -> Callable[[Axes, Series], object]:
    return lambda ax, run: draw_port(ax, markings, run.queue_port or "", time)


def _busiest_panel(ax: Axes, run: Series) -> None:
    """Draws the rate of the busiest port. The title gives its line rate."""
    scale, unit = kit.rate_unit(run.busy_bps)
    ax.plot(run.t_s, run.busy_bps / scale, color=kit.FLOW_COLORS[0], linewidth=1.3)
    ax.set_ylabel(f"Sent ({unit})")
    line = readable.quantity(run.busy_line_bps, "bps")
    ax.set_title(f"Frames that {run.busy_port} sent, the busiest port, on a link of {line}", loc="left")
    kit.from_zero(ax, run.busy_bps / scale)


def _program_panel(ax: Axes, programs: Sequence[ProgramTimes], scale: Scale) -> None:
    """Draws when each program ran. A program that ended at once is a thin line."""
    for row, program in enumerate(programs):
        start, end = (None if at_s is None else scale.of(at_s) for at_s in (program.start_s, program.end_s))
        if start is not None:
            stop = ax.get_xlim()[1] if end is None else end
            color = kit.FLOW_COLORS[row % len(kit.FLOW_COLORS)]
            ax.barh(row, max(stop - start, 0), left=start, height=0.6, color=color, edgecolor=color, linewidth=1.2, alpha=0.8)
    ax.set_yticks(range(len(programs)), [program.name for program in programs], fontsize=8)
    ax.set_ylim(len(programs) - 0.4, -0.6)
    ax.grid(visible=False)
    ax.set_title("Programs", loc="left")


def _class_panel(ax: Axes, run: Series) -> None:
    """Draws the goodput of all flows of each class."""
    scale, unit = kit.rate_unit(run.class_bps)
    for number, line in enumerate(run.class_bps):
        ax.plot(run.t_s, line / scale, color=_class_color(number), linewidth=1.5)
    ax.set_ylabel(f"Goodput ({unit})")
    ax.set_title("Goodput by class", loc="left")
    kit.from_zero(ax, run.class_bps / scale)


def _class_color(number: int) -> str:
    return kit.FLOW_COLORS[number % len(kit.FLOW_COLORS)]


def _colors_by_class(run: Series) -> list[str]:
    """Returns the colour of each flow; nothing if all flows are of one class."""
    colors = [""] * (run.flows if run.classes else 0)
    for number, flow_class in enumerate(run.classes):
        for flow in np.flatnonzero(flow_class.mask).tolist():
            colors[flow] = _class_color(number)
    return colors


def _class_legend(ax: Axes, run: Series) -> None:
    lines = [kit.sample(_class_color(number), linewidth=2) for number in range(len(run.classes))]
    labels = [flow_class.label for flow_class in run.classes]
    columns = min(4, len(labels))
    ax.legend(lines, labels, loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, borderaxespad=0.1, handlelength=1.4)


def _goodput_panel(ax: Axes, run: Series) -> None:
    if _too_many(run):
        _run_all(ax, run, run.total_bps, *kit.rate_unit(run.total_bps), "Goodput of all {} flows")
    else:
        _run_flows(ax, run, run.goodput_bps, *kit.rate_unit(run.goodput_bps), "Goodput")


def _allowed_panel(ax: Axes, run: Series) -> None:
    if _too_many(run):
        _run_all(
            ax, run, run.mean_rate_bps, *kit.rate_unit(run.mean_rate_bps), "Rate that NICs allow, mean over the flows under way"
        )
    else:
        _run_flows(ax, run, run.rate_bps, *kit.rate_unit(run.rate_bps), "Rate", "Rate that its NIC allows each flow")


def _rtt_panel(ax: Axes, run: Series) -> None:
    name = "Last probe's RTT" if run.over_rdma and not _has_tcp(run) else "Smoothed RTT"
    if _too_many(run):
        _run_all(ax, run, run.mean_srtt_us, *kit.time_unit(run.mean_srtt_us), f"{name}, mean over the flows under way")
    else:
        _run_flows(ax, run, run.srtt_us, *kit.time_unit(run.srtt_us), name)


def _window_panel(windows: Mapping[int, tuple[Floats, Floats]], time: Scale) -> Callable[[Axes, Series], object]:
    def panel(ax: Axes, run: Series) -> None:
        by_class, many = _colors_by_class(run), run.flows > len(kit.FLOW_COLORS)
        for flow, (t_s, packets) in windows.items():
            color = by_class[flow] if by_class else PALE if many else kit.FLOW_COLORS[flow]
            ax.plot(t_s / time.factor, packets, color=color, linewidth=0.7 if many else 1.1, drawstyle="steps-post")
        ax.set_ylabel("Window (packets)")
        ax.set_title("Congestion window at each ACK", loc="left")
        kit.from_zero(ax, np.concatenate([packets for _, packets in windows.values()]))

    return panel


def _has_tcp(run: Series) -> bool:
    """Returns whether there are flows over TCP beside others."""
    return any(flow_class.transport == "tcp" for flow_class in run.classes)


def _too_many(run: Series) -> bool:
    """Returns whether there are too many flows to draw a line for each."""
    return run.flows > len(run.goodput_bps)


def _run_flows(ax: Axes, run: Series, values: Floats, scale: float, unit: str, name: str, title: str = "") -> None:
    """Draws one line for each flow. With many flows the lines are thin, and the mean of one class is drawn over them."""
    many, by_class = len(values) > len(kit.FLOW_COLORS), _colors_by_class(run)
    for flow, line in enumerate(values):
        color = by_class[flow] if by_class else PALE if many else kit.FLOW_COLORS[flow]
        ax.plot(run.t_s, line / scale, color=color, linewidth=0.7 if many else 1.3)
    if many and not by_class:
        ax.plot(run.t_s, band(np.where(values > 0, values, np.nan))[0] / scale, color=kit.FLOW_COLORS[0], linewidth=1.8)
    ax.set_ylabel(f"{name.split()[-1]} ({unit})")
    ax.set_title(title or f"{name} of each flow", loc="left")
    kit.from_zero(ax, values / scale)


def _run_all(ax: Axes, run: Series, values: Floats, scale: float, unit: str, title: str) -> None:
    """Draws one line for all flows when there are too many to distinguish."""
    ax.plot(run.t_s, values / scale, color=kit.FLOW_COLORS[0], linewidth=1.3)
    ax.set_ylabel(f"{next(word for word in ('Goodput', 'Rate', 'RTT') if word in title)} ({unit})")
    ax.set_title(title.format(f"{run.flows:,}"), loc="left")
    kit.from_zero(ax, values / scale)


def _run_fairness(ax: Axes, run: Series) -> None:
    ax.plot(run.t_s, run.jain, color=kit.INK, linewidth=1.2)
    ax.set_ylabel("Jain's index")
    ax.set_title("Fairness of the flows under way", loc="left")
    kit.fairness_axis(ax, run.jain)


def _flow_legend(ax: Axes, labels: Sequence[str]) -> None:
    """Draws a legend with the flows' names if there are few flows."""
    if 0 < len(labels) <= len(kit.FLOW_COLORS):
        lines = [kit.sample(color, linewidth=2) for color in kit.FLOW_COLORS[: len(labels)]]
        names = list(labels)
    elif labels:
        lines = [kit.sample(PALE, linewidth=1), kit.sample(kit.FLOW_COLORS[0], linewidth=2)]
        names = [f"each of {len(labels)} flows", "mean of those under way"]
    else:
        return
    columns = min(4, len(names))
    ax.legend(lines, names, loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, borderaxespad=0.1, handlelength=1.4)
