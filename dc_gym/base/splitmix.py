# SPDX-License-Identifier: Apache-2.0
"""Random numbers by their place in a sequence, as the lab kernel draws them (kernel/drivers/lab_draw.h)."""

from __future__ import annotations

ALL_64 = (1 << 64) - 1


def splitmix64(seed: int, n: int) -> int:
    """Returns number `n` of the generator with this seed (Steele, Lea and Flood, OOPSLA 2014)."""
    z = (seed + (n + 1) * 0x9E3779B97F4A7C15) & ALL_64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & ALL_64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & ALL_64
    return z ^ z >> 31
