# SPDX-License-Identifier: Apache-2.0
"""The markings that agents had in force at switch ports over time: read from a result, and drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base import readable
from dc_gym.base.readable import Scale
from dc_gym.base.units import PPM
from dc_gym.results.figures import kit
from dc_gym.results.figures.axes import log_ticks
from dc_gym.topologies.graph import CLASS_MARK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dc_gym.results.results import Result

Floats = npt.NDArray[np.float64]
KMIN, KMAX, PMAX = (f"enforced_{name}_" for name in ("kmin_bytes", "kmax_bytes", "pmax_ppm"))
"""Beginnings of columns of agent.parquet; the name of a port, or of a port's class, follows."""
MOST_PORTS, MOST_STEPS = 24, 200
"""Rows and columns of the figure of all ports."""


@dataclass(frozen=True, slots=True)
class Markings:
    """Markings in force, as read back from the kernel at each step of an agent."""

    names: tuple[str, ...]
    """Ports, or classes of ports."""
    t_s: Floats
    """[steps]: times since t0."""
    kmin_bytes: Floats
    """[names, steps]"""
    kmax_bytes: Floats
    pmax: Floats
    """[names, steps]: shares of 1."""

    @classmethod
    def of(cls, result: Result) -> Self | None:
        """Returns the markings of a run; None if no agent set any."""
        table = result.derived("agent")
        names = () if table is None else tuple(label.removeprefix(KMIN) for label in table.column_names if label.startswith(KMIN))
        if table is None or not names or not table.num_rows:
            return None

        def rows(beginning: str) -> Floats:
            return np.array([np.asarray(table.column(beginning + name), np.float64) for name in names])

        t_s = np.asarray(table.column("t_ns"), np.float64) / 1e9
        return cls(names, t_s, rows(KMIN), rows(KMAX), rows(PMAX) / PPM)

    def at(self, port: str) -> Self | None:
        """Returns the markings of a port and its classes; None if no agent set any there."""
        chosen = [number for number, name in enumerate(self.names) if name.partition(CLASS_MARK)[0] == port]
        return self._some(chosen) if chosen else None

    def most_changed(self, count: int) -> Self:
        """Returns the `count` ports whose Kmin changed most often, in their order."""
        changes = (np.diff(self.kmin_bytes, axis=1) != 0).sum(axis=1)
        return self._some(sorted(np.argsort(-changes, kind="stable")[:count].tolist()))

    def _some(self, chosen: list[int]) -> Self:
        names = tuple(self.names[number] for number in chosen)
        return type(self)(names, self.t_s, self.kmin_bytes[chosen], self.kmax_bytes[chosen], self.pmax[chosen])


def draw_port(ax: Axes, markings: Markings, port: str, time: Scale) -> None:
    """Draws Kmin and Kmax of a port over time, and of each of its classes; steps, since a marking holds until the next one."""
    scale = readable.axis_scale("bytes", kit.peak(markings.kmax_bytes))
    for row, name in enumerate(markings.names):
        color = kit.FLOW_COLORS[row % len(kit.FLOW_COLORS)] if len(markings.names) > 1 else kit.MARK
        label = name.partition(CLASS_MARK)[2]
        for values, dashes, limit in ((markings.kmin_bytes, "solid", "Kmin"), (markings.kmax_bytes, (0, (2, 2)), "Kmax")):
            line: dict[str, Any] = {"color": color, "linestyle": dashes, "linewidth": 1.2, "label": f"{limit} {label}".strip()}
            ax.step(markings.t_s / time.factor, values[row] / scale.factor, where="post", **line)
    ax.set_yscale("log")
    log_ticks(ax, "y")
    ax.set_ylabel(f"Threshold ({scale.unit})")
    ax.set_title(f"Marking in force at {port}, set by an agent", loc="left")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, borderaxespad=0.1, handlelength=1.6)


def all_ports(markings: Markings, time: Scale, width: float) -> Figure:
    """Returns a figure with a row for each port and Kmin as its colour. Of many ports, the ports that changed most are shown."""
    shown = markings.most_changed(MOST_PORTS)
    every = max(1, -(-len(shown.t_s) // MOST_STEPS))
    kmin, starts = shown.kmin_bytes[:, ::every], shown.t_s[::every] / time.factor
    last = starts[-1] + (starts[-1] - starts[-2] if len(starts) > 1 else 1.0)
    figure = kit.new_figure(width, 1.0 + 0.22 * len(shown.names))
    ax = figure.subplots()
    scale = readable.axis_scale("bytes", kit.peak(kmin))
    look: dict[str, Any] = {"cmap": "viridis", "norm": "log", "edgecolors": "face", "linewidth": 0.1}
    drawn = ax.pcolormesh(np.append(starts, last), np.arange(len(shown.names) + 1), kmin / scale.factor, **look)
    ax.set_yticks(np.arange(len(shown.names)) + 0.5, shown.names, fontsize=7.5)
    ax.invert_yaxis()
    ax.set_xlim(starts[0], starts[-1] if len(starts) > 1 else last)
    ax.grid(visible=False)
    ax.set_xlabel(f"Time ({readable.typeset(time.unit)})")
    bar = figure.colorbar(drawn, ax=ax, fraction=0.03, pad=0.01)
    bar.set_label(f"Kmin ({scale.unit})")
    bar.outline.set_visible(False)
    log_ticks(bar.ax, "y")
    if bar.solids is not None:
        bar.solids.set(rasterized=False, edgecolor="face")  # no raster image within the vector drawing
    return figure
