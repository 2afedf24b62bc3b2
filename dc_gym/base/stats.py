# SPDX-License-Identifier: Apache-2.0
"""Means over seeds with their 95 % intervals, and paired differences: Student's t, with n stated wherever it is shown.

Runs with the same seed share their random numbers (flow starts, sizes, ports, routes), whatever the controller. Their difference
is therefore taken seed by seed: their common part cancels, which makes the interval narrower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Z_975 = 1.959963984540054
NOISE = 1e-9  # relative error that floating point may add
FEWEST = 3
"""The fewest values whose interval is shown. For two values, Student's t gives 12.7 half distances, which is useless."""
FEW = 5
"""Fewer values than this are shown themselves where their interval contains 0 and none of them is beyond it."""
T_975 = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)
"""Student's t, two-sided 95 %, for 1 .. 10 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, half the width of its 95 % interval, and the number of values. One value has no interval."""

    mean: float
    half: float | None
    n: int
    values: tuple[float, ...] = field(default=(), compare=False)

    @property
    def few(self) -> bool:
        """True if the values are to be shown rather than their interval, which is wider than makes sense."""
        if self.n < 2 or self.half is None or len(self.values) != self.n:
            return False
        one_sided = min(self.values) > 0 or max(self.values) < 0
        return self.n < FEWEST or (self.n < FEW and one_sided and self.half > abs(self.mean))

    @property
    def drawn_half(self) -> float | None:
        """Half the length of the bar around the mean: the interval or, of few values, up to the one that is farthest away."""
        return max(abs(value - self.mean) for value in self.values) if self.few else self.half

    @property
    def differs_from_0(self) -> bool:
        """True if the interval does not contain 0."""
        return self.half is not None and abs(self.mean) > self.half


def t_975(freedom: int) -> float:
    """Returns the quantile of Student's t that is exceeded with probability 2.5 %.

    From 11 degrees of freedom on it uses Fisher and Cornish's series (error below 1e-5).
    """
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom have no Student's t")
    if freedom <= len(T_975):
        return T_975[freedom - 1]
    z, v = Z_975, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v**power for power, term in enumerate(terms, 1))


def estimate(values: Sequence[float]) -> Estimate | None:
    """Returns the estimate from the existing values, or None if there are none."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    if len(known) == 1:
        return Estimate(mean, None, 1, tuple(known))
    variance = math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1)
    half = t_975(len(known) - 1) * math.sqrt(variance / len(known))
    return Estimate(mean, half if half > NOISE * abs(mean) else 0.0, len(known), tuple(known))


def paired(a: Mapping[int, float], b: Mapping[int, float]) -> Estimate | None:
    """Returns the estimate of b - a over the seeds that both have.

    Where the numbers are equal, a rest in their last digits does not count as a difference.
    """
    seeds = sorted(a.keys() & b.keys())
    noise = NOISE * max((max(abs(a[seed]), abs(b[seed])) for seed in seeds), default=0.0)
    differences = [b[seed] - a[seed] for seed in seeds]
    return estimate([difference if abs(difference) > noise else 0.0 for difference in differences])


def band(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the mean over the first axis and half the width of its 95 % interval.

    NaN counts as no value. One value has no interval (NaN), and the interval of two values reaches from one to the other.
    """
    counts = np.isfinite(values).sum(axis=0)
    filled = np.where(np.isfinite(values), values, 0.0)
    mean = np.where(counts > 0, filled.sum(axis=0) / np.maximum(counts, 1), np.nan)
    squares = np.where(np.isfinite(values), (values - mean) ** 2, 0.0).sum(axis=0)
    factors = np.array([np.nan, 1.0, *(t_975(freedom) for freedom in range(2, max(2, len(values))))])[(counts - 1).clip(0)]
    return mean, factors * np.sqrt(squares / np.maximum(counts - 1, 1) / np.maximum(counts, 1))
