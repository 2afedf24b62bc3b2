# SPDX-License-Identifier: Apache-2.0
"""Adam (Kingma and Ba 2015) on a few numpy arrays.

It uses only + - * / and square roots, so every machine gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dc_gym.nets.fixed_point import Floats

DECAYS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    """Adam's moment estimates for a network's gradient."""

    def __init__(self, weights: Sequence[Floats]) -> None:
        self.mean = [np.zeros_like(weight) for weight in weights]
        self.square = [np.zeros_like(weight) for weight in weights]
        self.left = [1.0, 1.0]  # share of the initial zeros in each moment

    def step(self, weights: Sequence[Floats], gradient: Sequence[Floats], learning_rate: float) -> tuple[Floats, ...]:
        """Returns the weights after one step against the gradient."""
        self.left = [left * decay for left, decay in zip(self.left, DECAYS, strict=True)]
        moved = []
        for i, (weight, slope) in enumerate(zip(weights, gradient, strict=True)):
            self.mean[i] = DECAYS[0] * self.mean[i] + (1.0 - DECAYS[0]) * slope
            self.square[i] = DECAYS[1] * self.square[i] + (1.0 - DECAYS[1]) * slope * slope
            size = np.sqrt(self.square[i] / (1.0 - self.left[1])) + EPSILON
            moved.append(weight - learning_rate * self.mean[i] / (1.0 - self.left[0]) / size)
        return tuple(moved)
