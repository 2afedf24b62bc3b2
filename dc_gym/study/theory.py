# SPDX-License-Identifier: Apache-2.0
"""What theories of several studies need."""

from __future__ import annotations

from collections.abc import Callable


def crossing(low: float, high: float, is_below: Callable[[float], bool], within: float) -> float:
    """Returns the point of low..high up to which `is_below` is true, by bisection; at most `within` above it."""
    while high - low > within:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return high
