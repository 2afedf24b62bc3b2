# SPDX-License-Identifier: Apache-2.0
"""The integer form of a net that values actions, for a switch's CPU without floating point: weights of 8 bits, sums in Q16.

Rows of weights are as in the NIC's networks (nets/int8.py, ctrl/nic/int8.h): each has its own scale. Inputs are 0 and
above, so none needs a constant. Biases keep their 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.methods.acc.q_network import QNetwork
from dc_gym.nets import int8
from dc_gym.nets.fixed_point import Q16
from dc_gym.nets.int8 import Integers, QuantizedLayer, TableReader

MOST_INPUT = 2.0
"""The largest input: a rate is at most twice the line's (methods/acc/queues.py)."""
ROW_BYTES = 12
"""Bytes of a row beside its weights: start and scale."""


@dataclass(frozen=True, slots=True)
class IntegerQNetwork:
    """A net's layers in integers. `of` makes them."""

    sizes: tuple[int, ...]
    words: Integers
    """Rows layer by layer, as int8.h reads them."""

    @classmethod
    def of(cls, net: QNetwork) -> IntegerQNetwork:
        """Rounds a net. Raises AgentError if its activations can exceed a word."""
        pairs = list(zip(net.weights, net.biases, strict=True))
        if any(size % 4 for size in net.sizes[:-1]):
            raise AgentError(f"a net of {net.sizes} has no integer form; give layers of a multiple of 4")
        int8.check_activations(pairs, [MOST_INPUT] * net.sizes[0])
        words = [word for weight, bias in pairs for word in int8.row_words(weight, bias)]
        return cls(net.sizes, np.array(words, np.int64))

    @property
    def memory_bytes(self) -> int:
        """The bytes of weights, biases and scales."""
        return sum(outputs * (inputs + ROW_BYTES) for outputs, inputs in self._shapes())

    def values(self, states: npt.NDArray[np.floating]) -> Integers:
        """Returns the values of all actions in Q16, [rows, actions], in states [rows, inputs]."""
        total = np.rint(states * Q16).astype(np.int64)
        *hidden, last = self._layers()
        for layer in hidden:
            total = int8.relu(layer.sums(total))
        return last.sums(total)

    def best(self, states: npt.NDArray[np.floating]) -> Integers:
        """Returns the action of the largest value for each row; the first one of equals."""
        actions: Integers = self.values(states).argmax(axis=1)
        return actions

    def _shapes(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes[1:], self.sizes[:-1], strict=True))

    def _layers(self) -> list[QuantizedLayer]:
        table = TableReader(self.words)
        return [table.rows(outputs, inputs) for outputs, inputs in self._shapes()]
