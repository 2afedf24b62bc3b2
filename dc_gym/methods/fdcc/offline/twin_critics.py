# SPDX-License-Identifier: Apache-2.0
"""Twin critics (Fujimoto et al. 2018): two networks of the same shape that value states and actions, in floats of 32 bits.

Each has two hidden layers with ReLU. Weights are [2, outputs, inputs], so that both are evaluated at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats32 = npt.NDArray[np.float32]
Weights = Sequence[npt.NDArray[Any]]
TWINS, HIDDEN = 2, 64


def random_critics(inputs: int, random: np.random.Generator) -> tuple[Floats32, ...]:
    """Returns weights and biases, layer by layer. Weights are uniform within sqrt(3 / inputs); the last layer's are small."""
    sizes = (inputs, HIDDEN, HIDDEN, 1)
    drawn: list[Floats32] = []
    for number, (entering, leaving) in enumerate(itertools.pairwise(sizes)):
        most = np.sqrt(3.0 / entering) * (0.1 if number == 2 else 1.0)
        drawn.append(((2.0 * random.random((TWINS, leaving, entering)) - 1.0) * most).astype(np.float32))
        drawn.append(np.zeros((TWINS, leaving, 1), np.float32))
    return tuple(drawn)


def values(weights: Weights, columns: Floats32) -> list[Floats32]:
    """Returns the inputs [inputs, rows], then the outputs [2, units, rows] of each layer."""
    outputs = [columns]
    for number in range(3):
        total = np.matmul(weights[2 * number], outputs[-1]) + weights[2 * number + 1]
        outputs.append(np.maximum(total, np.float32(0.0)) if number < 2 else total)
    return outputs


def gradient(weights: Weights, outputs: Sequence[Floats32], pull: Floats32) -> tuple[list[Floats32], Floats32]:
    """Returns the gradients of sum(pull * values) by the weights and by the inputs [2, inputs, rows].

    `outputs` is the result of `values`; `pull` is [2, 1, rows].
    """
    gradients: list[Floats32] = []
    back = pull
    for number in (2, 1, 0):
        before = outputs[number]
        gradients = [np.matmul(back, np.swapaxes(before, -1, -2)), back.sum(axis=2, keepdims=True), *gradients]
        back = np.matmul(np.swapaxes(weights[2 * number], 1, 2), back)
        if number:
            back = np.where(before > 0, back, np.float32(0.0))
    return gradients, back
