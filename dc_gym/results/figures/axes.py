# SPDX-License-Identifier: Apache-2.0
"""Draws means with their intervals on an axis. Intervals are cut at values that are possible, and stay on the axis.

A 95 % interval is symmetrical, whatever values are possible. It is cut at 0, and at 1 where a quantity cannot be
larger. An end that lies beyond the axis, as 0 does on a logarithmic one, is drawn as a small arrow at the axis' edge instead of a
cap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dc_gym.base.readable import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["WIDE", "ErrorBar", "bar_of", "draw_bar", "is_wide", "log_from_zero", "log_ticks", "plain_ticks", "set_scale"]

Side = Literal["x", "y"]
WIDE = 15
"""Values that differ by more than this factor get a logarithmic axis."""
BEYOND_LOG, BEYOND = 10.0, 2.5
"""An interval that ends beyond this multiple of the largest mean does not stretch the axis; its end is an arrow."""
MARGIN_LOG, MARGIN, ROOM_LOG = 1.4, 1.08, 1.5
CLOSE: Mapping[Side, float] = {"x": 40, "y": 300}
"""Up to this factor between its ends, a logarithmic axis is labelled at 1, 2 and 5; beyond it at the decades."""
THOUSANDS = 1000.0
CAP_POINTS = 5.0


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """A mean and the interval that is drawn around it. Without an interval both ends equal the mean."""

    mean: float
    low: float
    high: float


def bar_of(mean: float, half: float | None, most: float = math.inf) -> ErrorBar:
    """Returns an ErrorBar cut at possible values: it does not go below 0 if the mean is not negative, nor above `most`."""
    half = half or 0.0
    return ErrorBar(mean, max(0.0, mean - half) if mean >= 0 else mean - half, min(max(most, mean), mean + half))


def is_wide(values: Sequence[float]) -> bool:
    """Returns whether all values are above 0 and lie far apart."""
    return bool(values) and min(values) > 0 and max(values) > WIDE * min(values)


def set_scale(ax: Axes, side: Side, bars: Sequence[ErrorBar], most: float = math.inf) -> None:
    """Sets the scale of an axis: logarithmic if the means lie far apart; else from 0, or from a round number if all are near
    `most`."""
    limit = ax.set_xlim if side == "x" else ax.set_ylim
    means = [bar.mean for bar in bars if math.isfinite(bar.mean)]
    if not means:
        limit(0, 1)
        return
    least, largest = min(means), max(means)
    if is_wide(means):
        (ax.set_xscale if side == "x" else ax.set_yscale)("log")
        low = min([least, *(bar.low for bar in bars if bar.low > least / BEYOND_LOG)])
        high = min(max(bar.high for bar in bars), largest * BEYOND_LOG)
        limit(low / MARGIN_LOG, high * MARGIN_LOG)
        log_ticks(ax, side)
    elif math.isfinite(most) and largest <= most:
        floor = max(0.0, math.floor(min(bar.low for bar in bars) / most * 10 - 0.5) / 10) * most
        limit(floor, most + 0.04 * (most - floor))
    elif least >= 0:
        high = min(max(bar.high for bar in bars), largest * BEYOND)
        limit(0, high * MARGIN or 1)
    else:
        low, high = min(bar.low for bar in bars), max(bar.high for bar in bars)
        room = (high - low) * (MARGIN - 1) or 1
        limit(low - room, high + room)
    if not is_wide(means):
        plain_ticks(ax, side)


def draw_bar(ax: Axes, at: float, bar: ErrorBar, color: str, side: Side = "y", **look: Any) -> None:
    """Draws the interval of a mean at a place on the other axis. Call it after the axis' limits are set."""
    if bar.high <= bar.low:
        return
    lower, upper = sorted(ax.get_xlim() if side == "x" else ax.get_ylim())
    low, high = max(bar.low, lower), min(bar.high, upper)
    style = {"color": color, "linewidth": 1.2, "zorder": 2.5, **look}
    if side == "x":
        ax.plot([low, high], [at, at], **style)
    else:
        ax.plot([at, at], [low, high], **style)
    for end, inside, arrow in ((low, bar.low >= lower, "<v"), (high, bar.high <= upper, ">^")):
        cap = ("|" if side == "x" else "_") if inside else arrow[side == "y"]
        point = (end, at) if side == "x" else (at, end)
        ax.plot(*point, cap, color=color, markersize=CAP_POINTS, clip_on=False, zorder=2.5)


def plain_ticks(ax: Axes, side: Side) -> None:
    """Formats the ticks of a linear axis without exponent or offset, and with separated thousands."""
    from matplotlib.ticker import FuncFormatter, ScalarFormatter

    axis, largest = (ax.xaxis, max(ax.get_xlim())) if side == "x" else (ax.yaxis, max(ax.get_ylim()))
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}") if largest >= THOUSANDS else formatter)


def log_from_zero(ax: Axes, side: Side, top: float, linear_below: float) -> None:
    """Makes an axis logarithmic above a value and linear from 0 to it, because a queue may be empty. It ends above `top`."""
    x = side == "x"
    (ax.set_xscale if x else ax.set_yscale)("symlog", linthresh=linear_below, linscale=0.4)
    (ax.set_xlim if x else ax.set_ylim)(0, top * ROOM_LOG)
    log_ticks(ax, side, linear_below)


def log_ticks(ax: Axes, side: Side, linear_below: float = 0.0, family: str = "") -> None:
    """Labels a logarithmic axis at 1, 2 and 5, or at the decades. If the axis is linear below a value, only 0 is labelled there.

    `family`: the family of the values' base unit, which the labels then have.
    """
    from matplotlib.ticker import NullLocator

    low, high = ax.get_xlim() if side == "x" else ax.get_ylim()
    if linear_below:
        low = linear_below
    digits = (1, 2, 5) if high / low <= CLOSE[side] else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in digits if low <= digit * 10.0**power <= high]
    ticks = [0.0, *ticks] if linear_below else ticks
    axis = ax.xaxis if side == "x" else ax.yaxis
    axis.set_ticks(ticks, [quantity(tick, family) for tick in ticks])
    axis.set_minor_locator(NullLocator())
