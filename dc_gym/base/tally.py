# SPDX-License-Identifier: Apache-2.0
"""Counts and sums by key over more values than memory holds, and percentiles of values that were counted.

Values arrive piece by piece. The memory in use grows with the number of distinct keys.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
PENDING_KEYS = 1 << 16
"""Keys that are gathered before equal ones are merged."""


class Tally:
    """Counts how often each key was added, and sums the values added with it. Sums of integers below 2^53 are exact."""

    def __init__(self) -> None:
        self._keys, self._counts, self._sums = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        self._pending: list[tuple[Ints, Ints, Floats]] = []
        self._pending_keys = 0

    def add(self, keys: npt.NDArray[np.integer], values: npt.NDArray[np.generic] | None = None) -> None:
        """Counts these keys, with one value each."""
        distinct, places, counts = np.unique(keys.astype(np.int64), return_inverse=True, return_counts=True)
        sums = np.zeros(len(distinct)) if values is None else _sums(places, values, len(distinct))
        self._pending.append((distinct, counts.astype(np.int64), sums))
        self._pending_keys += len(distinct)
        if self._pending_keys > max(PENDING_KEYS, len(self._keys)):
            self._merge()

    def result(self) -> tuple[Ints, Ints, Floats]:
        """Returns the distinct keys in ascending order, with count and sum of each."""
        self._merge()
        return self._keys, self._counts, self._sums

    def _merge(self) -> None:
        parts = [(self._keys, self._counts, self._sums), *self._pending]
        keys, counts, sums = (np.concatenate(column) for column in zip(*parts, strict=True))
        self._keys, places = np.unique(keys, return_inverse=True)
        self._counts = _sums(places, counts, len(self._keys)).astype(np.int64)
        self._sums = _sums(places, sums, len(self._keys))
        self._pending, self._pending_keys = [], 0


def _sums(places: npt.NDArray[np.integer], values: npt.NDArray[np.generic], keys: int) -> Floats:
    return np.asarray(np.bincount(places, values.astype(np.float64), keys), np.float64)


def percentile(values: npt.NDArray[np.generic], counts: Ints, percent: float) -> float:
    """Returns numpy.percentile(numpy.repeat(values, counts), percent), to the bit, for values in ascending order."""
    upto = np.cumsum(counts)
    position = (int(upto[-1]) - 1) * (percent / 100)
    low = int(position)
    rows = np.searchsorted(upto, [low, min(low + 1, int(upto[-1]) - 1)], side="right")
    below, above = values.astype(np.float64)[rows]
    share, step = position - low, above - below
    return float(above - step * (1 - share) if share >= 0.5 else below + step * share)
