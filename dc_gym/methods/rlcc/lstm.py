# SPDX-License-Identifier: Apache-2.0
"""PCC-RL's network (Tessler et al. 2021): 2 -> 32 -> 16 -> LSTM of 16 -> 1, with ReLU before the LSTM and tanh at the end.

It sees the error and the action before it, and stores 32 numbers per flow. It has 2753 weights, including biases, with one bias
vector for the LSTM. Its LSTM is in lstm_cell.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.methods.rlcc.decision import MAX_ACTION, action, action_slope
from dc_gym.methods.rlcc.fluid import Recurrent, memory_after_older
from dc_gym.methods.rlcc.mlp8 import action_table
from dc_gym.nets import int8
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.int8 import INPUT_OFFSET, Integers, QuantizedLayer, TableReader, look_up, lookup_table, relu, row_words
from dc_gym.nets.lstm_cell import (
    CELLS,
    GATE_SHAPES,
    MEMORY,
    Q15,
    CellActivations,
    back_through_cells,
    feature_rows,
    gate_rows,
    move_cells,
    product,
    rounded_tanh,
    run_cells,
)

SHAPES = ((32, 2), (32,), (CELLS, 32), (CELLS,), *GATE_SHAPES, (1, CELLS), (1,))
"""Shapes of each layer's weights [outputs, inputs] and biases. The LSTM's inputs are the layer's before it, then its own last
outputs."""
MAX_WEIGHT = 16.0
INPUT_INDICES = [3, 2]
"""Indices of its inputs in decision.INPUTS: e_new, a_new."""


@dataclass(frozen=True, slots=True)
class Activations:
    """The values of all layers over decisions [time, ..., flows], for the gradient."""

    inputs: Floats
    first: Floats
    cells: CellActivations
    output: Floats
    """[time, flows]: the network's output after tanh."""


@dataclass(frozen=True, slots=True)
class Lstm:
    """Weights and biases, layer by layer as in SHAPES."""

    KIND: ClassVar[str] = "lstm"

    weights: tuple[Floats, ...]

    def __post_init__(self) -> None:
        shapes = tuple(weight.shape for weight in self.weights)
        if shapes != SHAPES:
            raise AgentError(f"weights of the shapes {shapes}; a network of 2-32-16-LSTM16-1 has {SHAPES}, outputs first")
        if not all(np.isfinite(weight).all() and np.abs(weight).max() < MAX_WEIGHT for weight in self.weights):
            raise AgentError(f"a weight is not finite, or not within {MAX_WEIGHT:g}; train with smaller ones")
        int8.check_activations((self.weights[:2], self.weights[2:4]), (int8.MAX_INPUT, MAX_ACTION))

    @property
    def memory(self) -> int:
        """The count of numbers that the network stores for each flow."""
        return MEMORY

    def packed_bytes(self) -> int:
        """Returns the bytes needed on a NIC: one per weight, four per bias and per row's scale, two per point of two tables."""
        outputs = sum(shape[0] for shape in SHAPES[0::2])
        return sum(weight.size for weight in self.weights[0::2]) + 8 * outputs + 2 * 2 * (int8.POINTS + 1)

    def __call__(self, inputs: npt.ArrayLike) -> Floats:
        """Returns the action for each row [..., 4].

        The flow was on target for long; it sees the older pair, then the newer one.
        """
        return second_action(self, np.asarray(inputs, np.float64))

    def table_body(self) -> list[int]:
        """Returns the body of its table, with weights of 8 bits."""
        w0, b0, w1, b1, w2, b2, w3, b3 = self.weights
        rows = [*row_words(w0, b0, INPUT_OFFSET - Q16 * np.array([0, 1])), *row_words(w1, b1)]
        rows += [*gate_rows(w2, b2), *row_words(w3, b3, Q16)]
        return [*rows, *lookup_table(lambda x: np.tanh(x) * Q15), *lookup_table(action_table)]

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns actions for inputs [flows, 4], and the memory [flows, 32] after them."""
        forward = self.steps(np.asarray(inputs, np.float64)[None], memory)
        return action(forward.output[0]), forward.cells.memory

    def steps(self, inputs: Floats, memory: Floats) -> Activations:
        """Evaluates the decisions [time, flows, 4] one after the other, starting from this memory."""
        w0, b0, w1, b1, w2, b2, w3, b3 = self.weights
        time, flows = inputs.shape[:2]
        columns = np.ascontiguousarray(inputs[:, :, INPUT_INDICES].reshape(-1, 2).T)
        first = np.maximum(product(w0, columns) + b0[:, None], 0.0)
        second = np.maximum(product(w1, first) + b1[:, None], 0.0).reshape(CELLS, time, flows)
        cells = run_cells(w2, b2, second, memory)
        last = product(w3, cells.outputs.transpose(1, 0, 2).reshape(CELLS, -1)) + b3
        squeezed = rounded_tanh(last).reshape(time, flows)
        return Activations(columns, first, cells, squeezed)

    def policy_gradient(self, inputs: Floats, memory: Floats, factors: Floats) -> list[Floats]:
        """Returns the gradient, by the weights, of the mean of factors * actions over decisions [time, flows].

        It goes back to the first decision.
        """
        w1, w2, w3 = self.weights[2], self.weights[4], self.weights[6]
        forward = self.steps(inputs, memory)
        time, flows = factors.shape
        pull = factors * action_slope(forward.output) / factors.size
        back = back_through_cells(w2, forward.cells, w3[0][:, None] * pull[:, None, :])
        joined, gates = feature_rows(forward.cells.joined), feature_rows(back.gates.reshape(time, 4 * CELLS, flows))
        second = np.where(joined[:CELLS] > 0, feature_rows(back.entered), 0.0)
        first = np.where(forward.first > 0, product(w1.T, second), 0.0)
        last = pull.reshape(1, -1)
        pairs = ((first, forward.inputs), (second, forward.first), (gates, joined), (last, feature_rows(forward.cells.outputs)))
        return [part for left, right in pairs for part in (product(left, right.T), left.sum(axis=1))]


def second_action(policy: Recurrent, inputs: Floats) -> Floats:
    """Returns the actions of flows that were on target for long, and then see a_old and e_old first, a_new and e_new second."""
    rows = inputs.reshape(-1, 4)
    return policy.step(rows, memory_after_older(policy, rows))[0].reshape(inputs.shape[:-1])


def random_network(random: np.random.Generator) -> Lstm:
    """Returns a network with uniform random weights. The forget gates have a bias of 1, so that cells remember at first."""
    drawn = []
    for shape in SHAPES:
        most = np.sqrt(3.0 / shape[1]) if len(shape) == 2 else 0.0
        drawn.append((2.0 * random.random(shape) - 1.0) * most)
    drawn[5][CELLS : 2 * CELLS] = 1.0
    return Lstm(tuple(drawn))


def integer_step(body: Integers, inputs_q16: Integers, memory_q16: Integers) -> tuple[Integers, Integers]:
    """Returns actions Q16 from the body of a table, and the memory after them, bit for bit as rlcc-lstm.h computes them."""
    rows, bend, actions = _table(body.tobytes())
    first = relu(rows[0].sums(inputs_q16[:, INPUT_INDICES] + (INPUT_OFFSET - Q16 * np.array([0, 1]))))
    memory = move_cells(rows[2], bend, relu(rows[1].sums(first)), memory_q16)
    acted = Q16 + look_up(rows[3].sums(memory[:, :CELLS] + Q16)[:, 0], actions)
    return acted, memory


@lru_cache(maxsize=8)
def _table(body: bytes) -> tuple[list[QuantizedLayer], Integers, Integers]:
    """Returns the layers of a table, and its look-up tables for tanh and for actions."""
    left = TableReader(np.frombuffer(body, np.int64))
    rows = [left.rows(*shape) for shape in SHAPES[0::2]]
    return rows, left.look_up(), left.look_up()
