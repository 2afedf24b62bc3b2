# SPDX-License-Identifier: Apache-2.0
"""The picture of a network's last second under an agent: queue, goodput, delay and reward, as an array of pixels.

The axes are drawn once and kept as pixels. A new picture is these pixels with the lines on top. The labels of an axis are drawn
again when its line leaves it, or fills little of it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import readable
from dc_gym.results.figures import kit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
WINDOW_S = 1.0
WIDTH_INCHES, HEIGHT_INCHES, DPI = 6.4, 4.8, 100
MOST_POINTS = 1000
"""The most points of a line. If steps are shorter, some steps are left out."""
SHRINKS_BELOW = 0.2
"""The part of an axis that a line fills at least."""
HEIGHTS = (0.0, 0.5, 1.0)
"""The parts of an axis that have labels."""
REWARD = "reward"


@dataclass(frozen=True, slots=True)
class Quantity:
    """The values of one panel."""

    key: str
    """The name of a metric in a step's info, or REWARD."""
    title: str
    family: str
    """The family of its unit (readable.py); empty: a plain number."""
    color: str


QUANTITIES = (
    Quantity("switch_queue_bytes_max", "longest switch queue", "bytes", kit.FLOW_COLORS[0]),
    Quantity("goodput_bps", "goodput", "bps", kit.FLOW_COLORS[2]),
    Quantity("queueing_delay_s", "queueing delay", "s", kit.FLOW_COLORS[1]),
    Quantity(REWARD, "reward", "", kit.FLOW_COLORS[3]),
)


class LastSecond:
    """The steps of the last second, and their picture."""

    def __init__(self, step_s: float) -> None:
        """`step_s`: how long a step usually is."""
        self._every = max(1, math.ceil(WINDOW_S / step_s / MOST_POINTS))
        rows = math.ceil(WINDOW_S / step_s / self._every) + 1
        self._rows = np.full((rows, 1 + len(QUANTITIES)), np.nan)
        self._unread: deque[tuple[float, float, Mapping[str, Any]]] = deque(maxlen=rows)
        """Time, reward and info of the steps since the last picture. An info is computed when it is read."""
        self._now_s = 0.0
        self._added = 0
        self._sheet: _Sheet | None = None

    def begin(self, info: Mapping[str, Any]) -> None:
        """Begins an episode with the info of its first frame."""
        self._rows[:], self._now_s, self._added = np.nan, 0.0, 0
        self._unread.clear()
        self.add(0.0, math.nan, info)

    def add(self, step_s: float, reward: float, info: Mapping[str, Any]) -> None:
        """Adds a step: how long it was, its reward, and its info."""
        self._now_s += step_s
        if self._added % self._every == 0:
            self._unread.append((self._now_s, reward, info))
        self._added += 1

    def pixels(self) -> Pixels:
        """Returns the picture, [height, width, 3]."""
        if self._sheet is None:
            self._sheet = _Sheet()
        if self._unread:
            new = [
                (time_s, *(reward if quantity.key == REWARD else info.get(quantity.key, math.nan) for quantity in QUANTITIES))
                for time_s, reward, info in self._unread
            ]
            self._rows = np.concatenate([self._rows[len(new) :], new])
            self._unread.clear()
        rows = self._rows[~np.isnan(self._rows[:, 0])]
        return self._sheet.drawn(rows[:, 0] - self._now_s, rows.T[1:])


class _Panel:
    """An axis with one line. Line and labels are drawn apart from the axis, which goes from 0 to 1."""

    def __init__(self, ax: Axes, quantity: Quantity) -> None:
        self.ax, self.quantity = ax, quantity
        self._line = ax.plot([], [], color=quantity.color, animated=True)[0]
        self._labels = [
            ax.text(-0.02, height, "", transform=ax.transAxes, ha="right", va="center", fontsize=8, animated=True)
            for height in HEIGHTS
        ]
        self._low = self._high = 0.0
        ax.set_title(readable.sentence(quantity.title), loc="left")
        ax.set(xlim=(-WINDOW_S, 0), ylim=(0, 1), yticks=HEIGHTS, xticks=(-1, -0.5, 0))
        ax.tick_params(axis="y", labelleft=False)

    def fits(self, values: Floats) -> bool:
        """Fits the bounds of the axis to these values. Returns True if they fitted already."""
        low, high = float(np.nanmin(values, initial=0)), float(np.nanmax(values, initial=0))
        held = self._high - self._low
        if self._low <= low and high <= self._high and held and (high - low >= SHRINKS_BELOW * held or high == low):
            return True
        self._low, self._high = -_round_above(-low), _round_above(high)
        if self._low == self._high:
            self._high = 1.0
        return False

    def draw_labels(self) -> None:
        for height, label in zip(HEIGHTS, self._labels, strict=True):
            value = self._low + height * (self._high - self._low)
            label.set_text(readable.quantity(value, self.quantity.family) if self.quantity.family else readable.number(value))
            self.ax.draw_artist(label)

    def draw_line(self, ages_s: Floats, values: Floats) -> None:
        self._line.set_data(ages_s, (values - self._low) / (self._high - self._low))
        self.ax.draw_artist(self._line)


class _Sheet:
    """The figure, its panels, and the pixels of all that seldom changes."""

    def __init__(self) -> None:
        with kit.style():
            figure: Any = kit.new_figure(WIDTH_INCHES, HEIGHT_INCHES)
            figure.set_layout_engine(None)  # panels stay in their quarters
            figure.set_dpi(DPI)
            axes = figure.subplots(2, 2)
            figure.subplots_adjust(left=0.11, right=0.97, top=0.93, bottom=0.1, hspace=0.4, wspace=0.35)
            figure.text(0.97, 0.012, "s before now", ha="right", va="bottom", fontsize=8)
            self._panels = [_Panel(ax, quantity) for ax, quantity in zip(axes.flat, QUANTITIES, strict=True)]
            figure.canvas.draw()
        self._pixels: Pixels = np.asarray(figure.canvas.buffer_rgba())
        self._axes = self._pixels.copy()
        self._kept = self._axes.copy()
        height, width = (size // 2 for size in self._pixels.shape[:2])
        rows, columns = (slice(height), slice(height, None)), (slice(width), slice(width, None))
        self._quarters = [(row, column) for row in rows for column in columns]

    def drawn(self, ages_s: Floats, values: Floats) -> Pixels:
        """Returns the pixels with these lines, the values as [quantities, times]."""
        for panel, quarter, series in zip(self._panels, self._quarters, values, strict=True):
            if not panel.fits(series):
                self._pixels[quarter] = self._axes[quarter]
                panel.draw_labels()
                self._kept[quarter] = self._pixels[quarter]
        self._pixels[:] = self._kept
        for panel, series in zip(self._panels, values, strict=True):
            panel.draw_line(ages_s, series)
        return self._pixels[..., :3].copy()


def _round_above(value: float) -> float:
    """Returns the next of 1, 2, 5, 10, ... above a value that is not negative; 0 for 0."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value)
