# SPDX-License-Identifier: Apache-2.0
"""A layer of 16 LSTM cells, as lstm.h computes it: its forward pass, its gradient, and its integers.

The layer sees 16 outputs of the layer before it, then its own 16 last outputs. The gates are in torch's order: input, forget,
cell, output. A flow's memory has 32 numbers: the cells' outputs, then the cells.

Nothing here depends on the order of a sum: `product` rounds its factors so that every sum is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.int8 import Integers, QuantizedLayer, look_up, row_words

CELLS = 16
GATE_SHAPES = ((4 * CELLS, 2 * CELLS), (4 * CELLS,))
"""Shapes of the layer's weights [gates, inputs] and biases."""
MEMORY = 2 * CELLS
"""The count of numbers stored per flow: outputs, then cells."""
Q15 = 1 << 15


@dataclass(frozen=True, slots=True)
class CellActivations:
    """The values of the layer over decisions [time, ..., flows], for the gradient."""

    joined: Floats
    """[time, 32, flows]: the layer's inputs."""
    gates: Floats
    """[time, 4, 16, flows]: the gates after sigmoid or tanh."""
    before: Floats
    """Cells before each decision."""
    bent: Floats
    """tanh of the cells after each decision."""
    outputs: Floats
    """[time, 16, flows]: the cells' outputs."""
    memory: Floats
    """[flows, 32]: the memory after the last decision."""


def run_cells(weight: Floats, bias: Floats, entered: Floats, memory: Floats) -> CellActivations:
    """Evaluates decisions one after the other, starting from this memory.

    `entered` [16, time, flows] is the output of the layer before; `memory` is [flows, 32].
    """
    _, time, flows = entered.shape
    output: Floats = memory[:, :CELLS].T
    cells: Floats = memory[:, CELLS:].T
    joined, gates = np.empty((time, MEMORY, flows)), np.empty((time, 4, CELLS, flows))
    before, bent, outputs = (np.empty((time, CELLS, flows)) for _ in range(3))
    for now in range(time):
        joined[now, :CELLS], joined[now, CELLS:], before[now] = entered[:, now], output, cells
        gates[now] = gate_values((product(weight, joined[now]) + bias[:, None]).reshape(4, CELLS, flows))
        input_gate, forget_gate, candidate, output_gate = gates[now]
        cells = forget_gate * cells + input_gate * candidate
        bent[now] = rounded_tanh(cells)
        output = outputs[now] = output_gate * bent[now]
    return CellActivations(joined, gates, before, bent, outputs, np.concatenate([output, cells]).T)


@dataclass(frozen=True, slots=True)
class CellGradient:
    """The gradient of a sum over decisions."""

    gates: Floats
    """[time, 4, 16, flows]: by the gates' sums."""
    entered: Floats
    """[time, 16, flows]: by the outputs of the layer before."""


def back_through_cells(weight: Floats, activations: CellActivations, reached: Floats) -> CellGradient:
    """Takes a gradient back from the cells' outputs [time, 16, flows] of each decision, to the first decision."""
    time, _, flows = reached.shape
    back, entered = np.empty((time, 4, CELLS, flows)), np.empty((time, CELLS, flows))
    from_output: Floats = np.zeros((CELLS, flows))
    from_cells: Floats = np.zeros((CELLS, flows))
    for now in reversed(range(time)):
        input_gate, forget_gate, candidate, output_gate = activations.gates[now]
        pulled = reached[now] + from_output
        cells = pulled * output_gate * (1.0 - activations.bent[now] ** 2) + from_cells
        back[now, 0] = cells * candidate * input_gate * (1.0 - input_gate)
        back[now, 1] = cells * activations.before[now] * forget_gate * (1.0 - forget_gate)
        back[now, 2] = cells * input_gate * (1.0 - candidate * candidate)
        back[now, 3] = pulled * activations.bent[now] * output_gate * (1.0 - output_gate)
        both = product(weight.T, back[now].reshape(4 * CELLS, flows))
        entered[now], from_output, from_cells = both[:CELLS], both[CELLS:], cells * forget_gate
    return CellGradient(back, entered)


def product(left: Floats, right: Floats) -> Floats:
    """Returns left @ right with the factors rounded to integers so small that no sum rounds.

    The order of addition does not matter.
    """
    bits = (53 - int(left.shape[1]).bit_length()) // 2
    (a, a_scale), (b, b_scale) = _whole(left, bits), _whole(right, bits)
    return np.asarray(np.ldexp(a @ b, a_scale + b_scale))


def _whole(factor: Floats, bits: int) -> tuple[Floats, int]:
    """Returns the factor as integers of so many bits, and the exponent of the power of two to multiply them with."""
    scale = int(np.frexp(np.abs(factor).max(initial=0.0))[1]) - bits
    return np.rint(np.ldexp(factor, -scale)), scale


def feature_rows(steps: Floats) -> Floats:
    """Reshapes [time, features, flows] to [features, time * flows]."""
    return np.ascontiguousarray(steps.transpose(1, 0, 2).reshape(steps.shape[1], -1))


def gate_values(sums: Floats) -> Floats:
    """Returns the gates [4, ...]: tanh for the third, sigmoid for the others."""
    half = rounded_tanh(sums * np.array([0.5, 0.5, 1.0, 0.5])[:, None, None])
    return np.stack([half[2] if gate == 2 else 0.5 + 0.5 * half[gate] for gate in range(4)])


def rounded_tanh(sums: npt.ArrayLike) -> Floats:
    """Returns tanh, rounded because its last digits differ between machines."""
    return np.asarray(np.round(np.tanh(sums) * 2.0**30) / 2.0**30)


def gate_rows(weight: Floats, bias: Floats) -> list[int]:
    """Returns the layer's rows of a table. Inputs from the layer before have no sign; the cells' own outputs get 1 added."""
    return row_words(weight, bias, np.repeat([0, Q16], CELLS))


def move_cells(gates: QuantizedLayer, bend: Integers, entered: Integers, memory: Integers) -> Integers:
    """Returns the memory [flows, 32] in Q16 after a decision, bit for bit as lstm.h computes it.

    `bend` is the look-up table of tanh in Q15; `entered` [flows, 16] is the output of the layer before, in Q16.
    """
    output, cells = memory[:, :CELLS], memory[:, CELLS:]
    joined = np.concatenate([entered, output + Q16], axis=1)
    input_gate, forget_gate, candidate, output_gate = np.split(gates.sums(joined), 4, axis=1)
    input_gate, forget_gate, output_gate = (
        (Q15 + look_up(gate >> 1, bend)) >> 1 for gate in (input_gate, forget_gate, output_gate)
    )
    cells = (forget_gate * cells + 2 * input_gate * look_up(candidate, bend) + (1 << 14)) >> 15
    output = (output_gate * look_up(cells, bend) + (1 << 13)) >> 14
    return np.concatenate([output, cells], axis=1)
