# SPDX-License-Identifier: Apache-2.0
"""Draws figures from results alone: one run over time, and the demo's grid of cases by quantities.

matplotlib is imported when a figure is drawn. Figures are made without pyplot, so they leave nothing in its global state. Units
on the axes follow the values.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dc_gym import spec
from dc_gym.base import readable
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.files import put
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.readable import Scale
from dc_gym.base.stats import band
from dc_gym.ctrl import controllers
from dc_gym.figures.axes import WIDE, plain_ticks
from dc_gym.metrics import MOST_LINES, Series, Window, series
from dc_gym.records.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FORMATS",
    "Case",
    "band",
    "check_name",
    "demo_figure",
    "load_series",
    "new_figure",
    "plot_result",
    "run_figure",
    "save",
    "style",
]

Floats = npt.NDArray[np.float64]
INTERVALS = 200
DPI = 150
FORMATS: Mapping[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}
"""The metadata that is left out of a file, by its suffix, so that the same figure has the same bytes."""
MARKS = {".png": "Comment", ".pdf": "Keywords", ".svg": "Description"}
"""The metadata field of a file that records what made it."""
DEMO_INTERVALS = 40  # long enough that a loss and its repair fall into one interval
FRAME_KB = 1.514
FLOW_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#666666")
INK, FAINT, MARK = "#222222", "#8A8A8A", "#B22222"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "text.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "path.simplify": True,
    "svg.hashsalt": "dcgym",
}


@dataclass(frozen=True, slots=True)
class Program:
    """A program of workload.exec, with its times."""

    name: str
    start_s: float | None
    end_s: float | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Program:
        """Returns the program of a row in the manifest."""
        at = [None if row.get(name) is None else float(row[name]) / 1e9 for name in ("start_ns", "end_ns")]
        return cls(f"{row.get('host', '?')}: {Path(str((row.get('command') or '?')[0])).name}", *at)


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the demo: a network, and the runs of each controller on it."""

    title: str
    runs: Mapping[str, Sequence[Series]]
    """The runs by controller name, one for each seed; all have the same duration and number of intervals."""
    note: str = ""
    """A second line below the title, such as "10 Mbit/s, 2 pairs"."""


def load_series(result: Result, intervals: int = INTERVALS) -> Series:
    """Returns the series of a result on disk, with goodput as links can have carried it.

    If the run was sampled more rarely, there are fewer intervals, so that none is empty.
    """
    run_spec = _spec_of(result)
    sampled_ns = max(run_spec.monitor.interval_ns, run_spec.monitor.tcp_interval_ns)
    most = max(1, run_spec.time.duration_ns // sampled_ns)
    return series(result.tables, run_spec.time.duration_ns, Window.of(run_spec), min(intervals, most), as_arrived=True)


def plot_to(result: Result, path: Path, force: bool = False) -> Path:
    """Draws one run into a file that the user names. An existing file is replaced only if it is this result's plot, or with
    `force`."""
    check_name(path)
    mark = mark_of("plot", [result.path], path)
    require_place(path, is_marked(mark), force=force)
    return plot_result(result, path, mark)


def plot_result(result: Result, path: Path | None = None, mark: str = "") -> Path:
    """Draws one run. The figure is plot.png in the run's folder unless `path` says otherwise."""
    path = result.path / "plot.png" if path is None else path
    run_spec = _spec_of(result)
    flows = result.records("flows")
    names = result.names
    labels = [f"{names.node[flow['src']]} to {names.node[flow['dst']]}" for flow in flows[:MOST_LINES]]
    programs = [Program.of(each) for each in result.manifest.get("exec", ())]
    warm_up = "; grey: warm-up" if run_spec.time.warmup_ns else ""
    caption = f"digest {result.digest[:16]}{warm_up}"
    acting = controllers.label_of(result.controller)
    title = f"{run_spec.name}: {acting}, seed {run_spec.seed}"
    figure = run_figure(load_series(result), title, labels, run_spec.time.warmup_ns / 1e9, caption, programs)
    return save(figure, path, mark=mark)


def run_figure(
    run: Series,
    title: str,
    flow_labels: Sequence[str],
    warmup_s: float = 0,
    caption: str = "",
    programs: Sequence[Program] = (),
) -> Figure:
    """Returns a figure of one run over time, in panels one above the other. The warm-up is shaded.

    The queue is always shown; goodput, RTT and fairness where there are flows. Over RDMA there is also the rate that the NIC
    allows each flow, and the RTT is shown only if the algorithm has it measured. If there are programs or no flows, the busiest
    link is shown; with programs, the times at which they ran.
    """
    panels: list[Callable[[Axes, Series], object]] = [_run_queue]
    if programs or not run.flows:
        panels += [_busiest_panel] if run.busy_port else []
    goodput = len(panels)
    if run.flows:
        panels += [_goodput_panel, *([_allowed_panel] if run.over_rdma else [])]
        panels += [_rtt_panel] if np.isfinite(run.mean_srtt_us).any() else []
        panels += [_run_fairness] if np.isfinite(run.jain).any() else []
    scale = readable.axis_scale("s", _end_s(run))
    run = replace(run, t_s=run.t_s / scale.factor)
    rows = [1.0] * len(panels) + ([0.25 + 0.12 * len(programs)] if programs else [])
    with style():
        figure = new_figure(8.2, 0.4 + 1.85 * sum(rows))
        grid = figure.subplots(len(rows), 1, sharex=True, squeeze=False, height_ratios=rows)[:, 0]
        for ax, panel in zip(grid, panels, strict=False):
            panel(ax, run)
            if warmup_s > 0:
                ax.axvspan(0, scale.of(warmup_s), color="#F4F4F4", zorder=0, linewidth=0)
        if programs:
            _program_panel(grid[-1], programs, scale)
        grid[-1].set_xlabel(f"Time ({readable.typeset(scale.unit)})")
        figure.align_ylabels(grid[: len(panels)])
        grid[-1].set_xlim(0, _end_s(run))
        figure.suptitle(title, x=0.012, ha="left", fontsize=11, fontweight="bold")
        if run.flows:
            _flow_legend(grid[goodput], flow_labels if len(run.goodput_bps) else [])
        _caption(figure, caption)
    return figure


def demo_figure(cases: Sequence[Case], caption: str = "") -> Figure:
    """Returns the demo's figure. Rows are cases; columns are queue, goodput, srtt and fairness. A line is the mean over seeds, a
    band its 95 % interval."""
    with style():
        figure = new_figure(13.2, 0.9 + 2.5 * len(cases))
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
        _caption(figure, caption)
    return figure


def check_name(path: Path) -> None:
    """Raises UsageError unless a figure can have this name. Its suffix selects the format."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: a figure's name ends in {', '.join(FORMATS)}; give such a one")


def save(figure: Figure, path: Path, dpi: int = DPI, changes: Mapping[str, Any] | None = None, mark: str = "") -> Path:
    """Writes a figure atomically; the same figure gives the same bytes. `mark`: what made the figure (outputs.py)."""
    check_name(path)
    suffix, stream = path.suffix.lower(), io.BytesIO()
    with style(changes):
        metadata = FORMATS[suffix] | ({MARKS[suffix]: mark} if mark else {})
        figure.savefig(stream, format=suffix[1:], dpi=dpi, metadata=metadata)
    return put(path, stream.getvalue())


def _spec_of(result: Result) -> spec.Spec:
    manifest_spec = result.manifest.get("spec")
    if not isinstance(manifest_spec, Mapping):
        raise TestbedError(f"{result.path}: its manifest has no spec, so the figure has no title and no duration")
    return spec.from_dict(manifest_spec, result.path, str(result.path / "manifest.json"))


def _run_queue(ax: Axes, run: Series) -> None:
    k_bytes = run.k_bytes or 0
    scale = readable.axis_scale("bytes", max(_peak(run.queue_bytes), k_bytes))
    ax.plot(run.t_s, run.queue_bytes / scale.factor, color=INK, linewidth=1.2)
    ax.set_ylabel(f"Queue ({scale.unit})")
    threshold = "" if run.k_bytes is None else f", marking from K = {run.k_bytes:,} B"
    ax.set_title(f"Queue of {run.queue_port}{threshold}" if run.queue_port else "Queue", loc="left")
    _from_zero(ax, run.queue_bytes / scale.factor, k_bytes / scale.factor)
    if run.k_bytes is not None:
        _end_line(ax, run.k_bytes / scale.factor, "K", MARK)


def _end_line(ax: Axes, height: float, name: str, color: str) -> None:
    """Draws a horizontal line with its name beyond the right end, such as the threshold K."""
    ax.axhline(height, color=color, linestyle=(0, (5, 3)), linewidth=1.0, zorder=1.5)
    end = ax.annotate(name, (1, height), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points")
    end.set(ha="left", va="center", fontsize=9, fontweight="bold", color=color)


def _busiest_panel(ax: Axes, run: Series) -> None:
    """Draws what the busiest port sent. The title gives its line rate."""
    scale, unit = _rate_unit(run.busy_bps)
    ax.plot(run.t_s, run.busy_bps / scale, color=FLOW_COLORS[0], linewidth=1.3)
    ax.set_ylabel(f"Sent ({unit})")
    line = readable.quantity(run.busy_line_bps, "bps")
    ax.set_title(f"Frames that {run.busy_port} sent, the busiest port, on a link of {line}", loc="left")
    _from_zero(ax, run.busy_bps / scale)


def _program_panel(ax: Axes, programs: Sequence[Program], scale: Scale) -> None:
    """Draws when each program ran. A program that ended at once is a thin line."""
    for row, each in enumerate(programs):
        start, end = (None if at_s is None else scale.of(at_s) for at_s in (each.start_s, each.end_s))
        if start is not None:
            stop = ax.get_xlim()[1] if end is None else end
            color = FLOW_COLORS[row % len(FLOW_COLORS)]
            ax.barh(row, max(stop - start, 0), left=start, height=0.6, color=color, edgecolor=color, linewidth=1.2, alpha=0.8)
    ax.set_yticks(range(len(programs)), [each.name for each in programs], fontsize=8)
    ax.set_ylim(len(programs) - 0.4, -0.6)
    ax.grid(visible=False)
    ax.set_title("Programs", loc="left")


def _goodput_panel(ax: Axes, run: Series) -> None:
    if _too_many(run):
        _run_all(ax, run, run.total_bps, *_rate_unit(run.total_bps), "Goodput of all {} flows")
    else:
        _run_flows(ax, run.t_s, run.goodput_bps, *_rate_unit(run.goodput_bps), "Goodput")


def _allowed_panel(ax: Axes, run: Series) -> None:
    if _too_many(run):
        _run_all(
            ax, run, run.mean_rate_bps, *_rate_unit(run.mean_rate_bps), "Rate that NICs allow, mean over the flows under way"
        )
    else:
        _run_flows(ax, run.t_s, run.rate_bps, *_rate_unit(run.rate_bps), "Rate", "Rate that its NIC allows each flow")


def _rtt_panel(ax: Axes, run: Series) -> None:
    name = "Last probe's RTT" if run.over_rdma else "Smoothed RTT"
    if _too_many(run):
        _run_all(ax, run, run.mean_srtt_us, *_time_unit(run.mean_srtt_us), f"{name}, mean over the flows under way")
    else:
        _run_flows(ax, run.t_s, run.srtt_us, *_time_unit(run.srtt_us), name)


def _too_many(run: Series) -> bool:
    """Returns whether there are too many flows to draw a line for each."""
    return run.flows > len(run.goodput_bps)


def _run_flows(ax: Axes, t_s: Floats, values: Floats, scale: float, unit: str, name: str, title: str = "") -> None:
    """Draws one line for each flow. With many flows the lines are thin, and their mean is drawn over them."""
    many = len(values) > len(FLOW_COLORS)
    for flow, line in enumerate(values):
        color = "#9DB8CC" if many else FLOW_COLORS[flow]
        ax.plot(t_s, line / scale, color=color, linewidth=0.7 if many else 1.3)
    if many:
        ax.plot(t_s, band(np.where(values > 0, values, np.nan))[0] / scale, color=FLOW_COLORS[0], linewidth=1.8)
    ax.set_ylabel(f"{name.split()[-1]} ({unit})")
    ax.set_title(title or f"{name} of each flow", loc="left")
    _from_zero(ax, values / scale)


def _run_all(ax: Axes, run: Series, values: Floats, scale: float, unit: str, title: str) -> None:
    """Draws one line for all flows when there are too many to distinguish."""
    ax.plot(run.t_s, values / scale, color=FLOW_COLORS[0], linewidth=1.3)
    ax.set_ylabel(f"{next(word for word in ('Goodput', 'Rate', 'RTT') if word in title)} ({unit})")
    ax.set_title(title.format(f"{run.flows:,}"), loc="left")
    _from_zero(ax, values / scale)


def _run_fairness(ax: Axes, run: Series) -> None:
    ax.plot(run.t_s, run.jain, color=INK, linewidth=1.2)
    ax.set_ylabel("Jain's index")
    ax.set_title("Fairness of the flows under way", loc="left")
    _fairness_axis(ax, run.jain)


def _flow_legend(ax: Axes, labels: Sequence[str]) -> None:
    """Draws a legend with the flows' names if there are few flows."""
    from matplotlib.lines import Line2D

    if 0 < len(labels) <= len(FLOW_COLORS):
        lines = [Line2D([], [], color=color, linewidth=2) for color in FLOW_COLORS[: len(labels)]]
        shown = list(labels)
    elif labels:
        lines = [Line2D([], [], color="#9DB8CC", linewidth=1), Line2D([], [], color=FLOW_COLORS[0], linewidth=2)]
        shown = [f"each of {len(labels)} flows", "mean of those under way"]
    else:
        return
    columns = min(4, len(shown))
    ax.legend(lines, shown, loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, borderaxespad=0.1, handlelength=1.4)


def _case_label(ax: Axes, case: Case) -> None:
    """Draws the name of a row, in a column of its own."""
    ax.set_axis_off()
    ax.text(0, 0.5, case.title, rotation=90, ha="center", va="center", fontsize=10, fontweight="bold", transform=ax.transAxes)
    ax.text(1.1, 0.5, case.note, rotation=90, ha="center", va="center", fontsize=8.5, color="#555555", transform=ax.transAxes)


def _demo_row(row: Sequence[Axes], case: Case) -> None:
    """Draws the four panels of a case."""
    every = [run for runs in case.runs.values() for run in runs]
    if not every:
        raise ValueError(f"case {case.title!r} has no runs")
    rate, rate_unit = _rate_unit(np.concatenate([run.total_bps for run in every]))
    delay, delay_unit = _time_unit(np.concatenate([run.mean_srtt_us for run in every]))
    queue, queue_unit = 1e3, "kB"
    panels = {name: _quantities(runs, queue, rate, delay) for name, runs in case.runs.items()}
    highest = (math.inf, max(run.most_bps for run in every) / rate, math.inf, 1.0)
    labels = (f"Queue ({queue_unit})", f"Goodput ({rate_unit})", f"RTT ({delay_unit})", "Jain's index")
    for column, (ax, label, most) in enumerate(zip(row, labels, highest, strict=True)):
        lines = {name: _bounded(*band(panel[column]), most) for name, panel in panels.items()}
        _draw_lines(ax, every[0].t_s, lines)
        _set_axis(ax, column, [mean for mean, _, _ in lines.values()], [top for _, _, top in lines.values()], label)
        ax.set_xlim(0, _end_s(every[0]))
    thresholds = {run.k_bytes for run in every if run.k_bytes is not None}
    if len(thresholds) == 1:
        _end_line(row[0], thresholds.pop() / queue, "K", MARK)


def _quantities(runs: Sequence[Series], queue: float, rate: float, delay: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Returns the values of the four panels for one controller, each [runs, intervals]."""
    return (
        np.array([run.queue_bytes / queue for run in runs]),
        np.array([run.total_bps / rate for run in runs]),
        np.array([run.mean_srtt_us / delay for run in runs]),
        np.array([run.jain for run in runs]),
    )


Lines = Mapping[str, tuple[Floats, Floats, Floats]]
"""By controller: a mean, and the ends of its band."""


def _bounded(mean: Floats, half: Floats, most: float) -> tuple[Floats, Floats, Floats]:
    """Returns a mean and its band, cut at possible values; NaN where there is none."""
    return mean, np.maximum(mean - half, 0), np.minimum(mean + half, max(most, _peak(mean)))


def _draw_lines(ax: Axes, t_s: Floats, lines: Lines) -> None:
    for name, (_, low, high) in lines.items():
        ax.fill_between(t_s, low, high, color=_color(name), alpha=0.16, linewidth=0)
    for name, (mean, _, _) in lines.items():
        ax.plot(t_s, mean, color=_color(name))


def _set_axis(ax: Axes, column: int, means: Sequence[Floats], tops: Sequence[Floats], label: str) -> None:
    """Sets scale and limits of a panel. Queues and delays that lie far apart get a logarithmic axis."""
    middles = [float(np.nanmedian(mean)) for mean in means if np.isfinite(mean).any()]
    positive = [middle for middle in middles if middle > 0]
    spread = max(positive) / min(positive) if positive else 1
    ax.set_ylabel(label)
    if column == 3:
        _fairness_axis(ax, np.concatenate(means))
    elif column != 1 and spread > WIDE:
        _log_axis(ax, np.concatenate(tops), FRAME_KB if column == 0 else min(positive) / 3)
    else:
        _from_zero(ax, np.concatenate(tops))


def _fairness_axis(ax: Axes, values: Floats) -> None:
    """Sets the axis from a round number below the values to 1."""
    least = float(np.nanmin(values)) if np.isfinite(values).any() else 0.0
    floor = max(0.0, math.floor(least * 10 - 0.5) / 10)
    ax.set_ylim(floor, 1 + 0.08 * (1 - floor))


def _log_axis(ax: Axes, values: Floats, linear_below: float) -> None:
    """Makes the axis logarithmic above a value and linear from 0 to it, because a queue may be empty."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    ax.set_yscale("symlog", linthresh=linear_below, linscale=0.4)
    ax.set_ylim(0, _peak(values) * 1.3)
    decades = 10.0 ** np.arange(math.floor(math.log10(linear_below)), math.ceil(math.log10(_peak(values) * 1.3)))
    ax.set_yticks([0, *(tick for tick in decades if tick >= linear_below)])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: readable.number(value)))


def _color(name: str) -> str:
    found = controllers.find(name)
    return found.color if found else FAINT


def _controller_legend(figure: Figure, cases: Sequence[Case]) -> None:
    """Draws one legend above all panels."""
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(name for case in cases for name in case.runs))
    lines = [Line2D([], [], color=_color(name), linewidth=2.4) for name in names]
    labels = [found.label if (found := controllers.find(name)) else name for name in names]
    figure.legend(lines, labels, loc="outside upper center", ncols=max(1, len(names)), fontsize=10, handlelength=1.6)


def _caption(figure: Figure, text: str) -> None:
    if text:
        figure.supxlabel(text, x=0.012, ha="left", fontsize=7.5, color=FAINT)


def _rate_unit(values_bps: Floats) -> tuple[float, str]:
    scale = readable.axis_scale("bps", _peak(values_bps))
    return scale.factor, scale.unit


def _time_unit(values_us: Floats) -> tuple[float, str]:
    scale = readable.axis_scale("us", _peak(values_us))
    return scale.factor, readable.typeset(scale.unit)


def _peak(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else 0.0


def _from_zero(ax: Axes, values: Floats, least: float = 0) -> None:
    """Sets the axis from 0 to a little above the peak. If all values are 0, only 0 is labelled."""
    peak = max(_peak(values), least)
    ax.set_ylim(0, peak * 1.12 if peak > 0 else 1)
    if peak > 0:
        plain_ticks(ax, "y")
    else:
        ax.set_yticks([0])


def _end_s(run: Series) -> float:
    """Returns the end of the last interval."""
    return float(run.t_s[-1] + run.t_s[0])


def new_figure(width: float, height: float) -> Figure:
    """Returns a figure of this size in inches that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Applies our matplotlib settings within the context."""
    import matplotlib

    settings: dict[Any, Any] = STYLE | dict(changes or {})
    with matplotlib.rc_context(settings):
        yield
