# SPDX-License-Identifier: Apache-2.0
"""The figure of `dcgym bench acc-oracle`: what each contestant earns less than the oracle, by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base.outputs import is_marked, require_place
from dc_gym.benchmarks.checks.acc_learn import NET
from dc_gym.figures import kit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARK = "dcgym bench acc-oracle"
COLORS = {"SECN1": "#CC6677", "SECN2": "#999933", NET: "#332288"}
MARKERS = {"SECN1": "s", "SECN2": "D", NET: "o"}
LINEAR = 0.02
"""The axis is linear down to this difference, and logarithmic beyond it."""
TICKS = (-1.0, -0.5, -0.2, -0.1, -0.05, -0.02, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1)
APART = 0.14
"""How far apart contestants stand in the row of a case."""


def require(path: Path) -> None:
    """Raises UsageError if a file at `path` is not this figure."""
    require_place(path, is_marked(MARK), remedy="move it, or give another --out")


def save(found: Mapping[str, Sequence[Mapping[str, float]]], static: Sequence[str], path: Path) -> None:
    """Draws the rewards. `found`: by case, seed and contestant. `static`: the contestants among which the oracle is."""
    require(path)
    with kit.style({"axes.grid.axis": "x"}):
        canvas = kit.new_figure(8.5, 1.6 + 0.75 * len(found))
        ax = canvas.subplots()
        for row, rows in enumerate(found.values()):
            _case(ax, row, {who: _mean(rows, who) for who in (*static, *COLORS)}, static)
        ax.set_xscale("symlog", linthresh=LINEAR)
        low, high = ax.get_xlim()
        ticks = [tick for tick in TICKS if low <= tick <= high]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.axvline(0, color=kit.INK, linewidth=0.8)
        ax.set_yticks(range(len(found)), list(found))
        ax.set_ylim(len(found) - 0.5, -0.5)
        ax.set_xlabel("Reward less that of the oracle, the best static marking of the template")
        kit.legend_below(canvas, ax, 4)
        kit.title(canvas, "ACC and static markings in cases that no training had")
        kit.save(canvas, path, mark=MARK)


def _mean(rows: Sequence[Mapping[str, float]], who: str) -> float:
    return sum(row[who] for row in rows) / len(rows)


def _case(ax: Axes, row: int, earned: Mapping[str, float], static: Sequence[str]) -> None:
    top = max(earned[who] for who in static)
    ax.plot(
        [earned[who] - top for who in static],
        [row + 2 * APART] * len(static),
        "|",
        color=kit.FAINT,
        markersize=9,
        label="actions of the template, static" if row == 0 else None,
    )
    for place, (who, color) in enumerate(COLORS.items()):
        label = ("ACC" if who == NET else who) if row == 0 else None
        ax.plot(earned[who] - top, row + (place - 1.5) * APART, MARKERS[who], color=color, markersize=6, label=label)
