# SPDX-License-Identifier: Apache-2.0
"""Quantities in few characters."""

from __future__ import annotations

import math

__all__ = ["short"]


def short(value: float, unit: str) -> str:
    """12345678 bit/s -> 12.3 Mbit/s; nan: nothing."""
    if math.isnan(value):
        return ""
    for power, prefix in ((9, "G"), (6, "M"), (3, "k")):
        if abs(value) >= 10**power:
            return f"{value / 10**power:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
