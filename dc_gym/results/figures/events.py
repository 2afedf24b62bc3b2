# SPDX-License-Identifier: Apache-2.0
"""The events of a run in figures over time: a vertical line for each time, with a label (docs/events.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dc_gym.base.readable import Scale
from dc_gym.results.figures.kit import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 20
"""The letters of a label that a panel has room for."""


@dataclass(frozen=True, slots=True)
class EventMark:
    """A time at which something changed, and the change."""

    at_s: float
    label: str


def marks_of(manifest: Mapping[str, Any]) -> tuple[EventMark, ...]:
    """Returns the marks of a run, in the order of time. Events of one time share a mark."""
    labels: dict[float, list[str]] = {}
    rows = manifest.get("events")
    for row in rows if isinstance(rows, list) else ():
        labels.setdefault(row["t_ns"] / 1e9, []).append(str(row["label"]))
    return tuple(EventMark(at_s, "; ".join(labels[at_s])) for at_s in sorted(labels))


def draw(ax: Axes, marks: Sequence[EventMark], scale: Scale, labelled: bool = True) -> None:
    """Draws the lines into a panel whose time axis has that scale."""
    for mark in marks:
        at = scale.of(mark.at_s)
        ax.axvline(at, color=FAINT, linestyle=(0, (2, 2)), linewidth=1.0, zorder=1.4)
        if labelled:
            label = mark.label if len(mark.label) <= LONGEST else f"{mark.label[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
            text = ax.annotate(label, (at, 1), xycoords=("data", "axes fraction"), xytext=(3, -3), textcoords="offset points")
            text.set(rotation=90, ha="left", va="top", fontsize=7.5, color=INK, zorder=4, in_layout=False)
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8})
