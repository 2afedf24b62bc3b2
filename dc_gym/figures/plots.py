# SPDX-License-Identifier: Apache-2.0
"""Figures, drawn from results alone: one run over time, and the demo's grid of cases by quantities.

matplotlib is imported when a figure is drawn. Figures are made without pyplot, so nothing of ours is left in its global state.
Units on the axes: time s, queues kB, goodput Mbit/s or Gbit/s, srtt us or ms.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dc_gym import controllers, spec
from dc_gym.errors import TestbedError, UsageError
from dc_gym.folder import put
from dc_gym.metrics import MOST_LINES, Series, Window, series
from dc_gym.results import Result
from dc_gym.stats import band

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
"""By a figure's suffix: what is left out of the file, so that the same figure has the same bytes."""
DEMO_INTERVALS = 40  # long enough that a hole in the sequence, and its filling, fall into one
WIDE = 15  # a panel whose lines differ by more than this factor gets a logarithmic axis
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
class Case:
    """One row of the demo: a network, and what each controller did on it."""

    title: str
    runs: Mapping[str, Sequence[Series]]
    """By name of controller, one a seed; all of one duration and number of intervals."""
    note: str = ""
    """A second line below the title, such as "10 Mbit/s, 2 pairs"."""


def load_series(result: Result, intervals: int = INTERVALS) -> Series:
    """The series of a result on disk; fewer intervals if it was sampled more rarely than that, so that none is empty."""
    run_spec = _spec_of(result)
    sampled_ns = max(run_spec.monitor.interval_ns, run_spec.monitor.tcp_interval_ns)
    most = max(1, run_spec.time.duration_ns // sampled_ns)
    return series(result.tables, run_spec.time.duration_ns, Window.of(run_spec), min(intervals, most))


def plot_result(result: Result, path: Path | None = None) -> Path:
    """Draw one run; the figure is plot.png in its folder unless `path` says otherwise."""
    path = result.path / "plot.png" if path is None else path
    run_spec = _spec_of(result)
    flows = result.records("flows")
    names = result.names
    labels = [f"{names.node[flow['src']]} to {names.node[flow['dst']]}" for flow in flows[:MOST_LINES]]
    caption = f"digest {result.digest[:16]}"
    acting = controllers.label_of(result.manifest["spec"]["controller"])
    title = f"{run_spec.name}: {acting}, seed {run_spec.seed}"
    save(run_figure(load_series(result), title, labels, run_spec.time.warmup_ns / 1e9, caption), path)
    return path


def run_figure(run: Series, title: str, flow_labels: Sequence[str], warmup_s: float = 0, caption: str = "") -> Figure:
    """Queue, goodput, srtt and fairness of one run, one above the other; the warm-up is shaded.

    Over RDMA there is the rate that its NIC allows each flow, too, and the RTT only where the algorithm has it measured.
    """
    flows = [_goodput_panel, *([_allowed_panel] if run.over_rdma else [])]
    rtt = [] if run.over_rdma and not np.isfinite(run.mean_srtt_us).any() else [_rtt_panel]
    panels = [_run_queue, *flows, *rtt, _run_fairness]
    with style():
        figure = new_figure(8.2, 1.9 * len(panels))
        axes = figure.subplots(len(panels), 1, sharex=True)
        for ax, panel in zip(axes, panels, strict=True):
            panel(ax, run)
            if warmup_s > 0:
                ax.axvspan(0, warmup_s, color="#F4F4F4", zorder=0, linewidth=0)
        axes[-1].set_xlabel("Time (s)")
        figure.align_ylabels(axes)
        axes[-1].set_xlim(0, _end_s(run))
        figure.suptitle(title, x=0.012, ha="left", fontsize=11, fontweight="bold")
        _flow_legend(figure, axes[1], flow_labels if len(run.goodput_bps) else [])
        _caption(figure, caption)
    return figure


def demo_figure(cases: Sequence[Case], caption: str = "") -> Figure:
    """Rows are cases, columns queue, goodput, srtt and fairness; a line is the mean over seeds, a band its 95 % interval."""
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
    """UsageError unless a figure can have this name: its suffix says what is written."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: a figure's name ends in {', '.join(FORMATS)}; give such a one")


def save(figure: Figure, path: Path, dpi: int = DPI, changes: Mapping[str, Any] | None = None) -> Path:
    """Write a figure: whole or not at all, and the same bytes for the same figure."""
    check_name(path)
    suffix, stream = path.suffix.lower(), io.BytesIO()
    with style(changes):
        figure.savefig(stream, format=suffix[1:], dpi=dpi, metadata=FORMATS[suffix])
    return put(path, stream.getvalue())


def _spec_of(result: Result) -> spec.Spec:
    manifest_spec = result.manifest.get("spec")
    if not isinstance(manifest_spec, Mapping):
        raise TestbedError(f"{result.path}: its manifest has no spec, so the figure has no title and no duration")
    return spec.from_dict(manifest_spec, result.path, str(result.path / "manifest.json"))


def _run_queue(ax: Axes, run: Series) -> None:
    ax.plot(run.t_s, run.queue_bytes / 1e3, color=INK, linewidth=1.2)
    ax.set_ylabel("Queue (kB)")
    threshold = "" if run.k_bytes is None else f", marking from K = {run.k_bytes:,} B"
    ax.set_title(f"Queue of {run.queue_port}{threshold}" if run.queue_port else "Queue", loc="left")
    _from_zero(ax, run.queue_bytes / 1e3, 0 if run.k_bytes is None else run.k_bytes / 1e3)
    if run.k_bytes is not None:
        _k_line(ax, run.k_bytes)


def _k_line(ax: Axes, k_bytes: int) -> None:
    """The marking threshold, named beyond its right end."""
    ax.axhline(k_bytes / 1e3, color=MARK, linestyle=(0, (5, 3)), linewidth=1.0, zorder=1.5)
    end = ax.annotate("K", (1, k_bytes / 1e3), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points")
    end.set(ha="left", va="center", fontsize=9, fontweight="bold", color=MARK)


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
    """To draw a line for each."""
    return run.flows > len(run.goodput_bps)


def _run_flows(ax: Axes, t_s: Floats, values: Floats, scale: float, unit: str, name: str, title: str = "") -> None:
    """One line a flow; with many flows they are thin, and their mean is drawn over them."""
    many = len(values) > len(FLOW_COLORS)
    for flow, line in enumerate(values):
        color = "#9DB8CC" if many else FLOW_COLORS[flow]
        ax.plot(t_s, line / scale, color=color, linewidth=0.7 if many else 1.3)
    if many:
        ax.plot(t_s, band(values)[0] / scale, color=FLOW_COLORS[0], linewidth=1.8)
    ax.set_ylabel(f"{name.split()[-1]} ({unit})")
    ax.set_title(title or f"{name} of each flow", loc="left")
    _from_zero(ax, values / scale)


def _run_all(ax: Axes, run: Series, values: Floats, scale: float, unit: str, title: str) -> None:
    """One line for flows that are too many to be told apart."""
    ax.plot(run.t_s, values / scale, color=FLOW_COLORS[0], linewidth=1.3)
    ax.set_ylabel(f"{next(word for word in ('Goodput', 'Rate', 'RTT') if word in title)} ({unit})")
    ax.set_title(title.format(f"{run.flows:,}"), loc="left")
    _from_zero(ax, values / scale)


def _run_fairness(ax: Axes, run: Series) -> None:
    ax.plot(run.t_s, run.jain, color=INK, linewidth=1.2)
    ax.set_ylabel("Jain's index")
    ax.set_title("Fairness of the flows under way", loc="left")
    _fairness_axis(ax, run.jain)


def _flow_legend(figure: Figure, ax: Axes, labels: Sequence[str]) -> None:
    """Names of the flows, if they are few."""
    from matplotlib.lines import Line2D

    if 0 < len(labels) <= len(FLOW_COLORS):
        lines = [Line2D([], [], color=color, linewidth=2) for color in FLOW_COLORS[: len(labels)]]
        shown = list(labels)
    elif labels:
        lines = [Line2D([], [], color="#9DB8CC", linewidth=1), Line2D([], [], color=FLOW_COLORS[0], linewidth=2)]
        shown = [f"each of {len(labels)} flows", "their mean"]
    else:
        return
    columns = min(4, len(shown))
    ax.legend(lines, shown, loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, borderaxespad=0.1, handlelength=1.4)


def _case_label(ax: Axes, case: Case) -> None:
    """The name of a row, in a column of its own."""
    ax.set_axis_off()
    ax.text(0, 0.5, case.title, rotation=90, ha="center", va="center", fontsize=10, fontweight="bold", transform=ax.transAxes)
    ax.text(1.1, 0.5, case.note, rotation=90, ha="center", va="center", fontsize=8.5, color="#555555", transform=ax.transAxes)


def _demo_row(row: Sequence[Axes], case: Case) -> None:
    """The four panels of a case."""
    every = [run for runs in case.runs.values() for run in runs]
    if not every:
        raise ValueError(f"case {case.title!r} has no runs")
    rate, rate_unit = _rate_unit(np.concatenate([_total(run) for run in every]))
    delay, delay_unit = _time_unit(np.concatenate([_mean_srtt(run) for run in every]))
    panels = {name: _quantities(runs, rate, delay) for name, runs in case.runs.items()}
    for column, (ax, label) in enumerate(
        zip(row, ("Queue (kB)", f"Goodput ({rate_unit})", f"RTT ({delay_unit})", "Jain's index"), strict=True)
    ):
        lines = {name: band(panel[column]) for name, panel in panels.items()}
        _draw_lines(ax, every[0].t_s, lines, highest=1.0 if column == 3 else math.inf)
        _set_axis(
            ax, column, [mean for mean, _ in lines.values()], [mean + np.nan_to_num(half) for mean, half in lines.values()], label
        )
        ax.set_xlim(0, _end_s(every[0]))
    thresholds = {run.k_bytes for run in every if run.k_bytes is not None}
    if len(thresholds) == 1:
        _k_line(row[0], thresholds.pop())


def _quantities(runs: Sequence[Series], rate: float, delay: float) -> tuple[Floats, Floats, Floats, Floats]:
    """What the four panels show of a controller, each [runs, intervals]."""
    return (
        np.array([run.queue_bytes / 1e3 for run in runs]),
        np.array([_total(run) / rate for run in runs]),
        np.array([_mean_srtt(run) / delay for run in runs]),
        np.array([run.jain for run in runs]),
    )


def _total(run: Series) -> Floats:
    """Goodput of all flows."""
    return run.total_bps


def _mean_srtt(run: Series) -> Floats:
    """Over the flows that have one."""
    return run.mean_srtt_us


def _draw_lines(ax: Axes, t_s: Floats, lines: Mapping[str, tuple[Floats, Floats]], highest: float) -> None:
    """A mean and its band for each controller; a band ends at what is possible, and is left out where it is not known."""
    for name, (mean, half) in lines.items():
        ax.fill_between(
            t_s, np.maximum(mean - half, 0), np.minimum(mean + half, highest), color=_color(name), alpha=0.16, linewidth=0
        )
    for name, (mean, _) in lines.items():
        ax.plot(t_s, mean, color=_color(name))


def _set_axis(ax: Axes, column: int, means: Sequence[Floats], tops: Sequence[Floats], label: str) -> None:
    """Scale and limits of a panel; queues and delays that lie far apart are shown by their logarithm."""
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
    """From a round number below the values, at most 0.5, to 1."""
    least = float(np.nanmin(values)) if np.isfinite(values).any() else 0.0
    ax.set_ylim(max(0.0, min(0.5, math.floor(least * 10 - 0.5) / 10)), 1.04)


def _log_axis(ax: Axes, values: Floats, linear_below: float) -> None:
    """Logarithmic above a value and linear from 0 to there, for a queue may be empty."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    ax.set_yscale("symlog", linthresh=linear_below, linscale=0.4)
    ax.set_ylim(0, _peak(values) * 1.3)
    decades = 10.0 ** np.arange(math.floor(math.log10(linear_below)), math.ceil(math.log10(_peak(values) * 1.3)))
    ax.set_yticks([0, *(tick for tick in decades if tick >= linear_below)])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _color(name: str) -> str:
    found = controllers.find(name)
    return found.color if found else FAINT


def _controller_legend(figure: Figure, cases: Sequence[Case]) -> None:
    """Once, above everything."""
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(name for case in cases for name in case.runs))
    lines = [Line2D([], [], color=_color(name), linewidth=2.4) for name in names]
    labels = [found.label if (found := controllers.find(name)) else name for name in names]
    figure.legend(lines, labels, loc="outside upper center", ncols=max(1, len(names)), fontsize=10, handlelength=1.6)


def _caption(figure: Figure, text: str) -> None:
    if text:
        figure.supxlabel(text, x=0.012, ha="left", fontsize=7.5, color=FAINT)


def _rate_unit(values_bps: Floats) -> tuple[float, str]:
    return (1e9, "Gbit/s") if _peak(values_bps) >= 2e9 else (1e6, "Mbit/s")


def _time_unit(values_us: Floats) -> tuple[float, str]:
    return (1e3, "ms") if _peak(values_us) >= 2e3 else (1.0, "us")


def _peak(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else 0.0


def _from_zero(ax: Axes, values: Floats, least: float = 0) -> None:
    peak = max(_peak(values), least)
    ax.set_ylim(0, peak * 1.12 if peak > 0 else 1)


def _end_s(run: Series) -> float:
    """The end of the last interval."""
    return float(run.t_s[-1] + run.t_s[0])


def new_figure(width: float, height: float) -> Figure:
    """A figure of that many inches that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Our settings, for as long as it takes."""
    import matplotlib

    settings: dict[Any, Any] = STYLE | dict(changes or {})
    with matplotlib.rc_context(settings):
        yield
