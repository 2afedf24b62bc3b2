# SPDX-License-Identifier: Apache-2.0
"""The network of RL-CC's artifact: 4-12-12-1, ReLU, ReLU, tanh, no biases. In floats, and in the integers of
nic/rlcc_mlp/rlcc-mlp.h.

Sums are added term by term, without BLAS, so that training gives the same bits on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.methods.rlcc.decision import action, action_slope
from dc_gym.nets.fixed_point import Q10, Q16, Floats
from dc_gym.nets.products import outer, product

Integers = npt.NDArray[np.int64]
SHAPES = ((12, 4), (12, 12), (1, 12))
"""[outputs, inputs] of each layer."""
MAX_WEIGHT = 64.0
"""Limit on weights. Beyond it the sums in integers would not be safe."""
REACH, POINTS = 4.0, 257
"""The table of actions covers sums of -4..4; beyond them tanh is 1 within 0.0007."""


@dataclass(frozen=True, slots=True)
class Mlp:
    """The three weight matrices. Inputs are [..., 4] in the order of decision.INPUTS."""

    KIND: ClassVar[str] = "mlp"

    weights: tuple[Floats, ...]

    def __post_init__(self) -> None:
        shapes = tuple(weight.shape for weight in self.weights)
        if shapes != SHAPES:
            raise AgentError(f"weights of the shapes {shapes}; a 4-12-12-1 network has {SHAPES}, outputs first")
        if not all(np.isfinite(weight).all() and np.abs(weight).max() < MAX_WEIGHT for weight in self.weights):
            raise AgentError(f"a weight is not finite, or not within {MAX_WEIGHT:g}; train with smaller ones")

    def __call__(self, inputs: npt.ArrayLike) -> Floats:
        """Returns the action for each row."""
        return action(np.tanh(self.sums(inputs)))

    @property
    def memory(self) -> int:
        """The count of numbers that the network stores for each flow: none."""
        return 0

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns the actions and the unchanged memory, in the form of networks with memory."""
        return self(inputs), memory

    def policy_gradient(self, inputs: Floats, memory: Floats, factors: Floats) -> list[Floats]:
        """Returns the gradient, by the weights, of the mean of factors * actions over decisions [time, flows]."""
        columns = np.ascontiguousarray(inputs.reshape(-1, 4).T)
        activations = layers(self.weights, columns)
        slope = action_slope(np.round(np.tanh(activations[2][0]) * 2.0**30) / 2.0**30)
        return gradient(self.weights, columns, activations, factors.reshape(-1) * slope / factors.size)

    def sums(self, inputs: npt.ArrayLike) -> Floats:
        """Returns the last sum, before tanh."""
        x = np.asarray(inputs, np.float64)
        columns = [np.ascontiguousarray(x[..., i]).reshape(-1) for i in range(4)]
        return np.asarray(layers(self.weights, np.stack(columns))[-1][0].reshape(x.shape[:-1]))

    def packed_bytes(self) -> int:
        """Returns the bytes needed on a NIC: two for each weight and for each point of the action table."""
        return 2 * (sum(weight.size for weight in self.weights) + POINTS)

    def table_body(self) -> list[int]:
        """Returns the body of its table: weights Q10, then actions Q16."""
        weights = [int(value) for layer in self.weights for value in np.rint(layer.reshape(-1) * Q10)]
        points = action(np.tanh(np.linspace(-REACH, REACH, POINTS)))
        return [*weights, *(int(value) for value in np.rint(points * Q16))]


def random_network(random: np.random.Generator) -> Mlp:
    """Returns a network with random weights, uniform within sqrt(3 / inputs)."""
    drawn = [(2.0 * random.random(shape) - 1.0) * np.sqrt(3.0 / shape[1]) for shape in SHAPES]
    return Mlp(tuple(drawn))


def layers(weights: Sequence[Floats], inputs: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns the outputs of both hidden layers and the last sum, for inputs [4, rows]."""
    first = np.maximum(product(weights[0], inputs), 0.0)
    second = np.maximum(product(weights[1], first), 0.0)
    return first, second, product(weights[2], second)


def gradient(weights: Sequence[Floats], inputs: Floats, activations: tuple[Floats, Floats, Floats], pull: Floats) -> list[Floats]:
    """Returns the gradient of sum(pull * last sum) over rows, by the weights.

    `activations` is the result of `layers`; `pull` is [rows].
    """
    first, second, _ = activations
    back_second = np.where(second > 0, weights[2][0][:, None] * pull, 0.0)
    back_first = np.where(first > 0, product(np.ascontiguousarray(weights[1].T), back_second), 0.0)
    return [outer(back_first, inputs), outer(back_second, first), outer(pull[None], second)]


def integer_actions(body: npt.ArrayLike, inputs_q16: npt.ArrayLike) -> Integers:
    """Returns actions Q16 from a table's body for inputs [rows, 4] in Q16, bit for bit as rlcc-mlp.h computes them."""
    words, sizes = np.asarray(body, np.int64), [rows * columns for rows, columns in SHAPES]
    first, second, third, actions = np.split(words, np.cumsum(sizes))
    x = (np.asarray(inputs_q16, np.int64) + 32) >> 6
    hidden = np.maximum(_rounded(x @ first.reshape(SHAPES[0]).T), 0)
    hidden = np.maximum(_rounded(hidden @ second.reshape(SHAPES[1]).T), 0)
    reach = int(REACH * Q10)
    position = np.clip(_rounded(hidden @ third), -reach, reach - 1) + reach
    step, part = position >> 5, position & 31
    low, high = actions[step], actions[step + 1]
    return np.asarray(low + ((high - low) * part >> 5))


def _rounded(total: Integers) -> Integers:
    """Rounds a sum of products of two Q10 numbers to Q10."""
    return np.asarray((total + 512) >> 10)
