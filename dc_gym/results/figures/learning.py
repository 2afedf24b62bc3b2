# SPDX-License-Identifier: Apache-2.0
"""Draws a training over its steps: one panel for each column, the values as they were and their mean over a window.

Returns of frozen policies on evaluation episodes, where a training has them, lie in the panel of its return: a line through the
means, a dot for each episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dc_gym.base import readable
from dc_gym.base.errors import UsageError
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.spelling import unknown
from dc_gym.results.figures import kit
from dc_gym.results.figures.axes import plain_ticks
from dc_gym.results.learning_curve import Evaluation, LearningCurve, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "plot"]

Floats = npt.NDArray[np.float64]
FILE = "learning.png"
RETURN = "return_mean"
BY_DEFAULT = (RETURN, "mean_reward", "queue_mean", "mean_error", "share_at_random")
"""The columns that are drawn unless others are asked for, where a training has them."""
TITLES: Mapping[str, str] = {
    RETURN: "Return of an episode, with exploration",
    "mean_reward": "Reward of a decision",
    "mean_error": "Error of a decision",
    "queue_mean": "Longest queue of a switch, mean over an episode",
    "share_at_random": "Share of decisions at random",
}
FAMILIES = {"queue_mean": "bytes"}
AXES = {"steps": "Steps of all labs", "update": "Updates", "episode": "Episodes"}
BEYOND = 1.0
"""An untrained policy's return is left out of the axis if it lies farther from the others than this many times their range."""
WINDOW_SHARE = 20
"""A mean is over this part of the rows, as 1 / WINDOW_SHARE."""
FEWEST_ROWS = 2 * WINDOW_SHARE
"""With fewer rows no mean over a window is drawn."""
WIDTH, PANEL_HEIGHT, HEAD_HEIGHT = 7.0, 1.9, 0.9


def plot(folder: Path, columns: Sequence[str] | None = None, out: Path | None = None, force: bool = False) -> Path:
    """Draws the training in a folder into DIR/learning.png, or into `out`, and returns where the figure is.

    Raises UsageError for a folder without a training, a column that it lacks, or a file that is not this figure.
    """
    figure_path = out or folder / FILE
    kit.check_name(figure_path)
    mark = mark_of("plot", [folder], figure_path)
    require_place(figure_path, is_marked(mark), force=force)
    return kit.save(draw(read(folder), columns), figure_path, mark=mark)


def draw(curve: LearningCurve, columns: Sequence[str] | None = None) -> Figure:
    """Returns the figure of a training, one panel for each column (default: its columns that are in BY_DEFAULT)."""
    names = list(columns or [name for name in BY_DEFAULT if name in curve.columns])
    for name in names:
        if name not in curve.columns:
            raise UsageError(f"--y: {unknown('column of this training', name, curve.columns)}")
    if not names:
        raise UsageError(f"{curve.path}: no episode has ended yet; name a column with --y: {', '.join(curve.columns)}")
    window = len(curve.x) // WINDOW_SHARE if len(curve.x) >= FEWEST_ROWS else 1
    with kit.style():
        figure = kit.new_figure(WIDTH, HEAD_HEIGHT + PANEL_HEIGHT * len(names))
        axes = figure.subplots(len(names), 1, squeeze=False, sharex=True)[:, 0]
        for ax, name in zip(axes, names, strict=True):
            _panel(ax, curve, name, window)
        axes[-1].set_xlabel(AXES[curve.axis])
        axes[-1].set_xlim(0, max(1.0, float(curve.x[-1])) * 1.01)
        plain_ticks(axes[-1], "x")
        figure.align_ylabels(axes)
        kit.title(figure, f"{curve.command}: {curve.path.resolve().name}")
        kit.caption(figure, _caption(curve, window))
    return figure


def _panel(ax: Axes, curve: LearningCurve, name: str, window: int) -> None:
    values = curve.columns[name]
    every = [values, *(evaluation.returns[evaluation.x > 0] for evaluation in curve.evaluations if name == RETURN)]
    scale = readable.axis_scale(FAMILIES.get(name) or readable.family_of(name), kit.peak(np.abs(np.concatenate(every))))
    color = kit.FLOW_COLORS[0]
    known = np.isfinite(values)
    x, scaled = curve.x[known], values[known] / scale.factor
    if window > 1:
        ax.plot(x, scaled, color=color, alpha=0.3, linewidth=0.8)
        ax.plot(x, running_mean(scaled, window), color=color, linewidth=1.8)
    else:
        ax.plot(x, scaled, color=color, marker="o", markersize=2.5)
    if name == RETURN and curve.evaluations:
        _evaluations(ax, curve, color)
    ax.set_title(curve.titles.get(name) or TITLES.get(name, name.replace("_", " ")), loc="left")
    ax.set_ylabel(readable.typeset(scale.unit))
    all_scaled = np.concatenate(every) / scale.factor
    if name == RETURN and _far(curve):
        least, most = float(np.nanmin(all_scaled)), float(np.nanmax(all_scaled))
        room = 0.08 * (most - least) or 1.0
        ax.set_ylim(least - room, most + room)
    elif name != RETURN and np.nanmin(all_scaled) >= 0:
        ax.set_ylim(bottom=0)
    plain_ticks(ax, "y")


def _far(curve: LearningCurve) -> list[Evaluation]:
    """Returns the evaluations whose untrained policy is so far from all other returns that these would look alike."""
    every = np.concatenate([curve.columns[RETURN], *(evaluation.returns[evaluation.x > 0] for evaluation in curve.evaluations)])
    least, most = float(np.nanmin(every)), float(np.nanmax(every))
    room = BEYOND * (most - least)
    starts = [(evaluation, evaluation.returns[evaluation.x == 0]) for evaluation in curve.evaluations]
    return [evaluation for evaluation, first in starts if first.size and not least - room <= first.mean() <= most + room]


def _evaluations(ax: Axes, curve: LearningCurve, training_color: str) -> None:
    """Draws the returns of frozen policies, with a legend."""
    lines, labels, far = [kit.sample(training_color, linewidth=2)], ["training"], _far(curve)
    for number, evaluation in enumerate(curve.evaluations, 1):
        color = kit.FLOW_COLORS[number % len(kit.FLOW_COLORS)]
        ax.plot(evaluation.x, evaluation.returns, ".", color=color, markersize=3.5, alpha=0.5)
        x, means = evaluation.means()
        first = 1 if evaluation in far and len(x) > 1 else 0
        ax.plot(x[first:], means[first:], color=color, linewidth=1.5, marker="o", markersize=4)
        lines.append(kit.sample(color, linewidth=2))
        labels.append("frozen policy" if len(curve.evaluations) == 1 else f"frozen policy on {evaluation.spec}")
    columns = min(3, len(labels))
    ax.legend(lines, labels, loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, borderaxespad=0.1, handlelength=1.4)


def running_mean(values: Floats, window: int) -> Floats:
    """Returns at each place the mean over the last `window` values; at the beginning over the values so far."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - window, 0)
    means: Floats = (total[ends] - total[begins]) / (ends - begins)
    return means


def _caption(curve: LearningCurve, window: int) -> str:
    notes = [f"{len(curve.x):,} rows"]
    if window > 1:
        notes.append(f"thick: mean over the last {window} rows")
    if curve.evaluations and RETURN in curve.columns:
        notes.append("dots: episodes")
        notes += [f"not on the axis: untrained on {start.spec}, {readable.number(start.means()[1][0])}" for start in _far(curve)]
    return "; ".join(notes)
