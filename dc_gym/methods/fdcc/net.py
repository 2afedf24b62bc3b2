# SPDX-License-Identifier: Apache-2.0
"""FDCC's network (Zhang 2023, chapter 4): 8 -> 16 -> LSTM of 16 -> 1, with ReLU before the LSTM and tanh at the end.

The thesis gives the eight observations and the factor of the window. It does not give the network's sizes, nor how its inputs are
scaled: those are ours. The NIC runs the network with weights of 8 bits (fdcc.h); `integer_step` and `integer_inputs` compute the
same, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.nets import int8
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.int8 import INPUT_OFFSET, Integers, QuantizedLayer, TableReader, look_up, lookup_table, relu, row_words
from dc_gym.nets.lstm_cell import (
    CELLS,
    GATE_SHAPES,
    MEMORY,
    Q15,
    CellActivations,
    gate_rows,
    move_cells,
    product,
    rounded_tanh,
    run_cells,
)

OBSERVATIONS = ("rtt", "queue", "switch_rate", "goodput", "rtt_change", "queue_change", "ins_rate", "action")
"""The observations of a flow at a decision, in this order.

- rtt: the round trip, in base round trips.
- queue, switch_rate: of the most congested port of the path: its queue in BDP (its rate x the base round trip), and the bytes
  that it sent since the last decision, over its rate.
- goodput: bytes that were acknowledged since the last decision, over the line rate.
- rtt_change, queue_change: changes of rtt and queue since the last decision, per base round trip (the thesis: per ms).
- ins_rate: the rate in force, over the line rate.
- action: the output of the last decision.
"""
SHAPES = ((CELLS, len(OBSERVATIONS)), (CELLS,), *GATE_SHAPES, (1, CELLS), (1,))
"""Shapes of each layer's weights [outputs, inputs] and biases."""
MAX_WEIGHT = 16.0
MAX_HISTORY = 8
"""The most observations that a training may look back on (thesis, section 4.2)."""
SPAN = 0.5
"""The window's factor is 1 + SPAN o, or 1 / (1 - SPAN o) below 0."""
MAX_OBSERVATION = 1024.0
"""Observations are clipped at this size, both signs."""
MAX_INPUT = 4.0
"""The size of the largest input: of the smallest observation that goes in by its logarithm."""
FLOOR, LOG_SPAN = 2.0**-12, 3.0
"""rtt, queue, goodput and ins_rate go in as log2(value + FLOOR) / LOG_SPAN."""
CHANGE_FLOOR, CHANGE_BITS = 2.0**-4, 4
"""Changes go in as sign x (log2(size + CHANGE_FLOOR) + CHANGE_BITS) / CHANGE_BITS, which is 0 for 0 and about 1 for 1."""
LOGARITHMS, RATES, CHANGES = [0, 1, 3, 6], [2], [4, 5]
"""Indices of the observations by how they go in; the last one, the action, goes in as it is."""
Q20 = 1 << 20
LOG_FACTORS = (28964, -17508, 9691, -2918)
"""Q16: log2(1 + m) = m + m (1 - m) (factors as a polynomial in m), off by at most 2^-15 for m in 0..1."""


@dataclass(frozen=True, slots=True)
class Activations:
    """The values of all layers over decisions [time, flows], for the gradient."""

    inputs: Floats
    """[8, time * flows]"""
    first: Floats
    """[16, time * flows]"""
    cells: CellActivations
    output: Floats
    """[time, flows]: o, in -1..1."""


@dataclass(frozen=True, slots=True)
class FdccNet:
    """Weights and biases, layer by layer as in SHAPES."""

    KIND: ClassVar[str] = "fdcc"

    weights: tuple[Floats, ...]
    history: int = MAX_HISTORY
    """The count of observations that the training looked back on. A NIC's memory has no end (docs/fdcc.md)."""

    def __post_init__(self) -> None:
        shapes = tuple(weight.shape for weight in self.weights)
        if shapes and len(shapes[0]) == 2 and shapes[0][1] != len(OBSERVATIONS):
            names = ", ".join(OBSERVATIONS)
            raise AgentError(f"its first layer has {shapes[0][1]} inputs; FDCC has {len(OBSERVATIONS)} observations: {names}")
        if shapes != SHAPES:
            raise AgentError(f"weights of the shapes {shapes}; a network of 8-16-LSTM16-1 has {SHAPES}, outputs first")
        if not all(np.isfinite(weight).all() and np.abs(weight).max() < MAX_WEIGHT for weight in self.weights):
            raise AgentError(f"a weight is not finite, or not within {MAX_WEIGHT:g}; train with smaller ones")
        if not isinstance(self.history, int) or not 1 <= self.history <= MAX_HISTORY:
            raise AgentError(f"its history is {self.history!r}; FDCC looks back on 1 to {MAX_HISTORY} observations")
        int8.check_activations((self.weights[:2],), (MAX_INPUT,) * len(OBSERVATIONS))

    @property
    def memory(self) -> int:
        """The count of numbers that the network stores for each flow."""
        return MEMORY

    def packed_bytes(self) -> int:
        """Returns the bytes needed on a NIC: one per weight, four per bias and per row's scale, two per point of its table."""
        outputs = sum(shape[0] for shape in SHAPES[0::2])
        return sum(weight.size for weight in self.weights[0::2]) + 8 * outputs + 2 * (int8.POINTS + 1)

    def table_body(self) -> list[int]:
        """Returns the body of its table, with weights of 8 bits."""
        w0, b0, w1, b1, w2, b2 = self.weights
        rows = [*row_words(w0, b0, np.full(len(OBSERVATIONS), INPUT_OFFSET)), *gate_rows(w1, b1), *row_words(w2, b2, Q16)]
        return [*rows, *lookup_table(lambda x: np.tanh(x) * Q15)]

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns outputs o [flows] for inputs [flows, 8] (see `to_inputs`), and the memory [flows, 32] after them."""
        forward_pass = self.steps(np.asarray(inputs, np.float64)[None], memory)
        return forward_pass.output[0], forward_pass.cells.memory

    def steps(self, inputs: Floats, memory: Floats) -> Activations:
        """Evaluates the decisions [time, flows, 8] one after the other, starting from this memory [flows, 32]."""
        w0, b0, w1, b1, w2, b2 = self.weights
        time, flows = inputs.shape[:2]
        columns = np.ascontiguousarray(inputs.reshape(time * flows, len(OBSERVATIONS)).T)
        first = np.maximum(product(w0, columns) + b0[:, None], 0.0)
        cells = run_cells(w1, b1, first.reshape(CELLS, time, flows), memory)
        last = product(w2, cells.outputs.transpose(1, 0, 2).reshape(CELLS, -1)) + b2
        return Activations(columns, first, cells, rounded_tanh(last).reshape(time, flows))


def random_network(random: np.random.Generator) -> FdccNet:
    """Returns a network with uniform random weights. The forget gates have a bias of 1, so that cells remember at first."""
    drawn = []
    for shape in SHAPES:
        most = np.sqrt(3.0 / shape[1]) if len(shape) == 2 else 0.0
        drawn.append((2.0 * random.random(shape) - 1.0) * most)
    drawn[3][CELLS : 2 * CELLS] = 1.0
    return FdccNet(tuple(drawn))


def check_observations(names: object) -> None:
    """Raises AgentError if a policy observes anything else than OBSERVATIONS, in their order."""
    if not isinstance(names, list):
        raise AgentError(f"its observations are {names!r}, not a list; FDCC's are {', '.join(OBSERVATIONS)}")
    if others := [str(name) for name in names if name not in OBSERVATIONS]:
        why = "only training has the count of flows, a NIC has none" if "flows" in others else "a NIC has none of it"
        raise AgentError(f"it observes {', '.join(others)}: {why}; train it on {', '.join(OBSERVATIONS)}")
    if names != list(OBSERVATIONS):
        raise AgentError(f"it observes {', '.join(names)}, FDCC {', '.join(OBSERVATIONS)}, in this order; train it on those")


def factor(output: npt.ArrayLike) -> Floats:
    """Returns the window's factor for an output o in -1..1: 1 + 0.5 o, or 1 / (1 - 0.5 o) below 0."""
    o = np.asarray(output, np.float64)
    return np.asarray(np.where(o >= 0, 1.0 + SPAN * o, 1.0 / (1.0 - SPAN * np.minimum(o, 0.0))))


def to_inputs(observations: npt.ArrayLike) -> Floats:
    """Returns the network's inputs [..., 8] for observations [..., 8] in the order of OBSERVATIONS."""
    clipped = np.clip(np.asarray(observations, np.float64), -MAX_OBSERVATION, MAX_OBSERVATION)
    inputs = np.empty_like(clipped)
    inputs[..., LOGARITHMS] = np.log2(np.maximum(clipped[..., LOGARITHMS], 0.0) + FLOOR) / LOG_SPAN
    inputs[..., RATES] = np.clip(clipped[..., RATES], 0.0, MAX_INPUT)
    change = clipped[..., CHANGES]
    inputs[..., CHANGES] = np.sign(change) * (np.log2(np.abs(change) + CHANGE_FLOOR) + CHANGE_BITS) / CHANGE_BITS
    inputs[..., -1] = np.clip(clipped[..., -1], -1.0, 1.0)
    return inputs


def integer_inputs(observations: Integers) -> Integers:
    """Returns the inputs in Q16, bit for bit as fdcc.h computes them.

    `observations` [..., 8] are Q20, except for the action, which is Q16.
    """
    most = int(MAX_OBSERVATION) * Q20
    clipped = np.clip(observations, -most, most)
    inputs = np.empty_like(clipped)
    log = integer_log2(np.maximum(clipped[..., LOGARITHMS], 0) + int(FLOOR * Q20)) - 20 * Q16
    inputs[..., LOGARITHMS] = (log * (Q16 // 3) + Q16 // 2) >> 16
    inputs[..., RATES] = np.clip(clipped[..., RATES] >> 4, 0, int(MAX_INPUT) * Q16)
    change = clipped[..., CHANGES]
    size = (integer_log2(np.abs(change) + int(CHANGE_FLOOR * Q20)) - (20 - CHANGE_BITS) * Q16) >> 2
    inputs[..., CHANGES] = np.where(change < 0, -size, size)
    inputs[..., -1] = np.clip(observations[..., -1], -Q16, Q16)
    return inputs


def integer_log2(values: Integers) -> Integers:
    """Returns log2 in Q16 of integers from 1 to 2^32 - 1, off by at most 2^-15 and the rounding."""
    bits = np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
    part = ((values << (31 - bits)) & 0x7FFFFFFF) >> 15
    total = np.zeros_like(part)
    for one in reversed(LOG_FACTORS):
        total = (total * part >> 16) + one
    return np.asarray(bits * Q16 + part + (((part * (Q16 - part) >> 16) * total) >> 16))


def integer_factor(output_q16: Integers) -> Integers:
    """Returns the window's factor in Q20 for outputs in Q16, bit for bit as fdcc.h computes it."""
    size = np.abs(output_q16)
    return np.asarray(np.where(output_q16 >= 0, Q20 + 8 * size, (1 << 37) // ((1 << 17) + size)))


def integer_step(body: Integers, inputs_q16: Integers, memory_q16: Integers) -> tuple[Integers, Integers]:
    """Returns outputs o in Q16 from the body of a table, and the memory after them, bit for bit as fdcc.h computes them."""
    rows, bend = _table(body.tobytes())
    memory = move_cells(rows[1], bend, relu(rows[0].sums(inputs_q16 + INPUT_OFFSET)), memory_q16)
    return 2 * look_up(rows[2].sums(memory[:, :CELLS] + Q16)[:, 0], bend), memory


@lru_cache(maxsize=8)
def _table(body: bytes) -> tuple[list[QuantizedLayer], Integers]:
    """Returns the layers of a table, and its look-up table for tanh."""
    left = TableReader(np.frombuffer(body, np.int64))
    return [left.rows(*shape) for shape in SHAPES[0::2]], left.look_up()
