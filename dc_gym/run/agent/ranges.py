# SPDX-License-Identifier: Apache-2.0
"""Values that are not within the range that their feature or reward declares. Each name is reported once in a process."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from dc_gym.base.terminal import say

TOLERANCE = 1e-6
"""The part of a range, or of a bound if the other one is infinite, by which rounding may lead out of it."""
_told: set[str] = set()


def tell_outside(name: str, values: npt.ArrayLike, low: float, high: float, effect: str) -> None:
    """Prints the first value of this name that lies outside of low..high, and the effect."""
    numbers = np.asarray(values, np.float64).ravel()
    size = high - low if np.isfinite(high - low) else 1.0
    outside = numbers[(numbers < low - TOLERANCE * size) | (numbers > high + TOLERANCE * size)]
    if outside.size and name not in _told:
        _told.add(name)
        say(f"dcgym: warning: {name} is {outside[0]:.6g}, outside of its range {low:g}..{high:g}: {effect}", file=sys.stderr)
