# SPDX-License-Identifier: Apache-2.0
"""Random numbers of workloads: streams of integers that depend only on seed and labels.

A stream is SHA-256 of its labels and a counter, so it is equal in every version of Python and on every machine. Logarithms are
computed in integers, since a C library's may differ in the last bit from CPU to CPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import TypeVar

T = TypeVar("T")
PATTERNS = ("exact", "uniform", "exponential")
STARTS = ("uniform", "gaussian")
"""Distributions of a draw from [0, bound)."""
WORD = 2**64
SIGMAS_BELOW = 6  # sigmas in the range of a Gaussian draw
LN2_Q64 = 0xB17217F7D1CF79AC  # ln 2 x 2^64
HALVINGS = 10  # of the range of a log-uniform draw
LOG_BITS = 40  # binary places of a logarithm


class Stream:
    """A stream of draws."""

    def __init__(self, seed: int, *labels: object) -> None:
        self._prefix = "/".join(["dcgym", str(seed), *map(str, labels)]).encode()
        self._blocks = 0
        self._words: list[int] = []

    def bits(self) -> int:
        """Returns a uniform draw from [0, 2^64)."""
        if not self._words:
            block = hashlib.sha256(self._prefix + b"#%d" % self._blocks).digest()
            self._words = [int.from_bytes(block[at : at + 8], "big") for at in range(0, 32, 8)]
            self._blocks += 1
        return self._words.pop()

    def below(self, bound: int) -> int:
        """Returns a uniform draw from [0, bound)."""
        return self.bits() * bound // WORD

    def gaussian_below(self, bound: int) -> int:
        """Returns a Gaussian draw from [0, bound): mean (bound - 1) / 2, sigma bound / 6, cut off at three sigma.

        A uniform draw z sigmas from the mean is kept with probability exp(-z^2 / 2), otherwise drawn again.
        """
        while True:
            drawn = self.below(bound)
            z_bound = SIGMAS_BELOW // 2 * (2 * drawn - (bound - 1))  # z x bound
            log2_kept = minus_log2(self.bits()) * LN2_Q64 * 2 * bound * bound  # 2 bound^2 ln(1 / u), scaled
            if log2_kept >= z_bound * z_bound << LOG_BITS + 64:
                return drawn

    def log_uniform(self, low: int, high: int) -> int:
        """Returns a draw that is uniform on a logarithmic scale, from `low` on and below `high`.

        It halves the range ten times, in whole numbers.
        """
        for _ in range(HALVINGS):
            middle = isqrt(low * high)
            low, high = (middle, high) if self.below(2) else (low, middle)
        return low

    def chance(self, probability: float) -> bool:
        """Returns True with that probability."""
        return self.bits() < int(Fraction(probability) * WORD)

    def choose(self, values: Sequence[T]) -> T:
        """Returns one of the values."""
        return values[self.below(len(values))]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """Returns a random order (Fisher and Yates)."""
        order = list(values)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order

    def around(self, mean: int, pattern: str) -> int:
        """Returns `mean` itself (exact), a uniform draw from 0 ..

        2 x mean, or an exponential draw with that mean, rounded down.
        """
        if pattern == "exact":
            return mean
        if pattern == "uniform":
            return self.below(2 * mean + 1)
        return mean * minus_log2(self.bits()) * LN2_Q64 >> LOG_BITS + 64


def minus_log2(word: int) -> int:
    """Returns -log2((word + 1/2) / 2^64) with LOG_BITS binary places: the bits of a logarithm by repeated squaring."""
    word = 2 * word + 1  # scaled by 2^65
    whole = word.bit_length() - 1
    word <<= 64 - whole  # word / 2^64 is in [1, 2)
    fraction = 0
    for _ in range(LOG_BITS):
        word = word * word >> 64
        carry = word >> 65
        word >>= carry
        fraction = fraction << 1 | carry
    return ((65 - whole) << LOG_BITS) - fraction
