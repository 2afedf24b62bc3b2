# SPDX-License-Identifier: Apache-2.0
"""A network that values actions: dense layers with biases and ReLU between them, one output for each action.

Sums are added term by term, without BLAS, so that it learns the same bits on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.nets.products import outer, product

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class QNetwork:
    """The weights, [outputs, inputs] of each layer, and the biases."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]

    def __post_init__(self) -> None:
        if not self.weights or len(self.weights) != len(self.biases):
            raise AgentError(f"{len(self.weights)} weights and {len(self.biases)} biases do not make layers")
        inputs = self.weights[0].shape[-1]
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if weight.ndim != 2 or weight.shape[1] != inputs or bias.shape != weight.shape[:1]:
                raise AgentError(f"layer {number} has the shapes {weight.shape} and {bias.shape}, and {inputs} values go in")
            inputs = weight.shape[0]
        if not all(np.isfinite(parameter).all() for parameter in self.parameters):
            raise AgentError("a weight is not finite; has the training diverged?")

    @classmethod
    def random(cls, sizes: Sequence[int], random: np.random.Generator) -> QNetwork:
        """Returns a network with layers of these sizes, the inputs first. Weights are uniform within sqrt(3 / inputs)."""
        shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
        weights = [(2.0 * random.random(shape) - 1.0) * np.sqrt(3.0 / shape[1]) for shape in shapes]
        return cls(tuple(weights), tuple(np.zeros(shape[0]) for shape in shapes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The inputs, then the outputs of each layer."""
        return (self.weights[0].shape[1], *(weight.shape[0] for weight in self.weights))

    @property
    def parameters(self) -> tuple[Floats, ...]:
        """The weights, then the biases."""
        return (*self.weights, *self.biases)

    @classmethod
    def of_parameters(cls, parameters: Sequence[Floats]) -> QNetwork:
        """Returns the network of weights, then biases."""
        half = len(parameters) // 2
        return cls(tuple(parameters[:half]), tuple(parameters[half:]))

    @property
    def flops(self) -> int:
        """The multiplications and additions of one inference."""
        return 2 * sum(weight.size for weight in self.weights)

    def __call__(self, states: Floats) -> Floats:
        """Returns the values of all actions, [rows, actions], in states [rows, inputs]."""
        return np.ascontiguousarray(self.layers(states)[-1].T)

    def layers(self, states: Floats) -> list[Floats]:
        """Returns the inputs, then the outputs of each layer, as [units, rows]."""
        outputs = [np.ascontiguousarray(states.T)]
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            total = product(weight, outputs[-1]) + bias[:, None]
            outputs.append(np.maximum(total, 0.0) if number < len(self.weights) - 1 else total)
        return outputs

    def gradient(self, outputs: Sequence[Floats], pull: Floats) -> list[Floats]:
        """Returns the gradient of sum(pull * values), by weights and then biases.

        `outputs` is the result of `layers`; `pull` is [actions, rows].
        """
        of_weights: list[Floats] = []
        of_biases: list[Floats] = []
        back = pull
        for number in reversed(range(len(self.weights))):
            of_weights.insert(0, outer(back, outputs[number]))
            of_biases.insert(0, back.sum(axis=1))
            if number:
                back = np.where(outputs[number] > 0, product(np.ascontiguousarray(self.weights[number].T), back), 0.0)
        return of_weights + of_biases

    def arrays(self, prefix: str = "") -> dict[str, Floats]:
        """Returns the parameters by name: W0, b0, W1, ..."""
        layers = enumerate(zip(self.weights, self.biases, strict=True))
        return {f"{prefix}{letter}{number}": array for number, pair in layers for letter, array in zip("Wb", pair, strict=True)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], prefix: str = "") -> QNetwork:
        """Returns the network of parameters by name. Raises KeyError if there are none."""
        count = sum(name.startswith(f"{prefix}W") and name[len(prefix) + 1 :].isdigit() for name in arrays)
        if not count:
            raise KeyError(f"{prefix}W0")
        weights, biases = (
            tuple(np.asarray(arrays[f"{prefix}{letter}{number}"], np.float64) for number in range(count)) for letter in "Wb"
        )
        return cls(weights, biases)
