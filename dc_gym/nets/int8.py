# SPDX-License-Identifier: Apache-2.0
"""Networks with 8-bit weights, as int8.h runs them: rows of a table, and look-up tables.

Each row of weights has a scale of its own, an integer in units of 2^-20. Inputs and activations stay in Q16, because an error in
8 bits would have steps of most of a target. A constant is added to the inputs so that they are never negative; the row's start
value subtracts it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.nets.fixed_point import Q16, Floats

Integers = npt.NDArray[np.int64]
MAX_LEVEL, SCALE_BITS, ROW_HEAD = 127, 20, 3
INPUT_OFFSET = 1 << 23
"""The constant added to a network's inputs (POLICY_INT8_INPUT): 128 in Q16. Errors are clipped below 128."""
MAX_INPUT = 128.0
MAX_ACTIVATION = 65536.0
"""The largest Q16 activation that a word can hold."""
REACH, POINTS, STEP_BITS = 1 << 18, 256, 11


@dataclass(frozen=True, slots=True)
class QuantizedLayer:
    """A layer as read from a table."""

    start: Integers
    scale: Integers
    weights: Floats
    """[outputs, inputs], integers."""

    def sums(self, inputs: Integers) -> Integers:
        """Returns sums in Q16, for inputs [rows, ...] in Q16 with their constant added."""
        total = self.start + (inputs.astype(np.float64) @ self.weights.T).astype(np.int64)  # exact below 2^53, and fast
        return np.asarray((total * self.scale + (1 << SCALE_BITS - 1)) >> SCALE_BITS)


class TableReader:
    """Reads a table's words after its head, from the front."""

    def __init__(self, words: Integers) -> None:
        self._left = words

    def rows(self, outputs: int, inputs: int) -> QuantizedLayer:
        rows = self._take(outputs * (ROW_HEAD + -(-inputs // 4))).reshape(outputs, -1)
        bytes_of = (rows[:, ROW_HEAD:, None] >> np.array([0, 8, 16, 24])).reshape(outputs, -1)[:, :inputs] & 255
        start = (rows[:, 0] & 0xFFFFFFFF) | rows[:, 1] << 32
        return QuantizedLayer(start, rows[:, 2], (bytes_of - 256 * (bytes_of > MAX_LEVEL)).astype(np.float64))

    def look_up(self) -> Integers:
        return self._take(POINTS)

    def _take(self, count: int) -> Integers:
        taken, self._left = self._left[:count], self._left[count:]
        return taken


def row_words(weight: Floats, bias: Floats, added: npt.ArrayLike = 0) -> list[int]:
    """Returns the rows of a table. `added` (Q16) is the constant added to each input."""
    words: list[int] = []
    steps = 2.0**SCALE_BITS
    for row, first in zip(weight, bias, strict=True):
        scale = max(1, int(np.ceil(np.abs(row).max() / MAX_LEVEL * steps)))
        levels = np.rint(row * steps / scale).astype(np.int64)
        start = round(float(first) * Q16 * steps / scale) - int((levels * np.asarray(added, np.int64)).sum())
        padded = np.pad(levels, (0, -len(levels) % 4)).reshape(-1, 4) & 255
        words += [start & 0xFFFFFFFF, start >> 32, scale, *(int(four) for four in padded @ (1 << np.array([0, 8, 16, 24])))]
    return words


def lookup_table(function: Callable[[Floats], Floats]) -> list[int]:
    """Tabulates a function over -4..4: its values, and the differences to the next value."""
    values = np.rint(function(np.linspace(-4.0, 4.0, POINTS + 1))).astype(np.int64)
    return [int(word) for word in np.diff(values) * 65536 + (values[:-1] & 0xFFFF)]


def look_up(at: Integers, words: Integers) -> Integers:
    """Returns the function's value at a sum in Q16, with linear interpolation."""
    position = np.clip(at + REACH, 0, 2 * REACH - 1)
    word = words[position >> STEP_BITS]
    value = ((word & 0xFFFF) ^ 0x8000) - 0x8000
    return np.asarray(value + ((word >> 16) * (position & (1 << STEP_BITS) - 1) >> STEP_BITS))


def relu(sums: Integers) -> Integers:
    return np.maximum(sums, 0)


def check_activations(layers: Sequence[Sequence[Floats]], inputs: Sequence[float]) -> None:
    """Raises AgentError if an activation of these layers can overflow a word, for inputs within these bounds."""
    most = np.asarray(inputs)
    for weight, bias in layers:
        most = np.abs(weight) @ most + np.abs(bias)
        if most.max() >= MAX_ACTIVATION:
            raise AgentError(f"a layer can reach {most.max():.3g}, a NIC's words {MAX_ACTIVATION:g}; train with smaller weights")
