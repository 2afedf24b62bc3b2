# SPDX-License-Identifier: Apache-2.0
"""FDCC's network as its training runs it: forward and backward over sequences, in floats of 32 bits.

It is the network of net.py. There each product is exact, on every machine; here the products are BLAS's, which is several times
as fast. One machine repeats them bit for bit; another may round differently. A test holds both networks against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.nets.lstm_cell import CELLS

Floats32 = npt.NDArray[np.float32]
Weights = Sequence[npt.NDArray[Any]]
HALVES = np.repeat(np.array([0.5, 0.5, 1.0, 0.5], np.float32), CELLS)[:, None]
"""A gate's sigmoid is 1/2 + tanh(sum / 2) / 2. The third gate is a tanh."""


@dataclass(frozen=True, slots=True)
class ActorPass:
    """The values of all layers over decisions [time, ..., flows]."""

    inputs: Floats32
    """[8, time * flows]"""
    first: Floats32
    """[16, time * flows]"""
    before: Floats32
    """[time, 32, flows]: cells' outputs, then cells, before each decision."""
    gates: Floats32
    """[time, 64, flows]"""
    bent: Floats32
    """[time, 16, flows]: tanh of the cells after each decision."""
    output: Floats32
    """[time, flows]: o."""
    memory: Floats32
    """[flows, 32]: after the last decision."""


class Actor:
    """The network as flows of a model run it, one decision at a time."""

    memory = 2 * CELLS
    """The count of numbers that it stores for each flow."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def step(self, inputs: Floats32, memory: Floats32) -> tuple[Floats32, Floats32]:
        """Returns outputs o [flows] for inputs [flows, 8], and the memory [flows, 32] after them."""
        forward_pass = forward(self._weights, inputs[None], memory)
        return forward_pass.output[0], forward_pass.memory


def forward(weights: Weights, inputs: Floats32, memory: Floats32) -> ActorPass:
    """Evaluates the decisions [time, flows, 8] one after the other, starting from this memory [flows, 32]."""
    w0, b0, w1, b1, w2, b2 = weights
    time, flows, observations = inputs.shape
    columns = np.ascontiguousarray(inputs.reshape(time * flows, observations).T)
    first = np.maximum(w0 @ columns + b0[:, None], np.float32(0.0))
    entered = ((w1[:, :CELLS] * HALVES) @ first + b1[:, None] * HALVES).reshape(4 * CELLS, time, flows)
    held, state = np.ascontiguousarray(w1[:, CELLS:] * HALVES), np.ascontiguousarray(memory.T)
    before, gates = np.empty((time, 2 * CELLS, flows), np.float32), np.empty((time, 4 * CELLS, flows), np.float32)
    bent, outputs = np.empty((time, CELLS, flows), np.float32), np.empty((time, CELLS, flows), np.float32)
    for now in range(time):
        before[now] = state
        gate = np.tanh(held @ state[:CELLS] + entered[:, now], out=gates[now])
        for part in (gate[: 2 * CELLS], gate[3 * CELLS :]):
            part *= np.float32(0.5)
            part += np.float32(0.5)
        cells = gate[CELLS : 2 * CELLS] * state[CELLS:] + gate[:CELLS] * gate[2 * CELLS : 3 * CELLS]
        np.tanh(cells, out=bent[now])
        np.multiply(gate[3 * CELLS :], bent[now], out=outputs[now])
        state = np.concatenate([outputs[now], cells])
    last = np.tanh(w2 @ _features(outputs) + b2[:, None]).reshape(time, flows)
    return ActorPass(columns, first, before, gates, bent, last, np.ascontiguousarray(state.T))


def backward(weights: Weights, forward_pass: ActorPass, pull: Floats32) -> list[Floats32]:
    """Returns the gradient, by the weights, of the sum of pull * output over decisions [time, flows].

    It goes back to the first decision.
    """
    w1, w2 = weights[2], weights[4]
    time, _, flows = forward_pass.gates.shape
    last = pull * (1.0 - forward_pass.output * forward_pass.output)
    back = np.empty((time, 4 * CELLS, flows), np.float32)
    from_output = from_cells = np.zeros((CELLS, flows), np.float32)
    held = np.ascontiguousarray(w1[:, CELLS:].T)
    for now in reversed(range(time)):
        taken, forget_gate, fresh, output_gate = forward_pass.gates[now].reshape(4, CELLS, flows)
        reached = w2[0][:, None] * last[now] + from_output
        cells = reached * output_gate * (1.0 - forward_pass.bent[now] * forward_pass.bent[now]) + from_cells
        back[now, :CELLS] = cells * fresh * taken * (1.0 - taken)
        back[now, CELLS : 2 * CELLS] = cells * forward_pass.before[now, CELLS:] * forget_gate * (1.0 - forget_gate)
        back[now, 2 * CELLS : 3 * CELLS] = cells * taken * (1.0 - fresh * fresh)
        back[now, 3 * CELLS :] = reached * forward_pass.bent[now] * output_gate * (1.0 - output_gate)
        from_output, from_cells = held @ back[now], cells * forget_gate
    gates, ends = _features(back), last.reshape(1, -1)
    first = np.where(forward_pass.first > 0, w1[:, :CELLS].T @ gates, np.float32(0.0))
    joined = np.concatenate([forward_pass.first, _features(forward_pass.before[:, :CELLS])])
    outputs = _features(forward_pass.gates[:, 3 * CELLS :] * forward_pass.bent)
    pairs = ((first, forward_pass.inputs), (gates, joined), (ends, outputs))
    return [gradient for left, right in pairs for gradient in (left @ right.T, left.sum(axis=1))]


def _features(steps: Floats32) -> Floats32:
    """Reshapes [time, features, flows] to [features, time * flows]."""
    return np.ascontiguousarray(steps.transpose(1, 0, 2)).reshape(steps.shape[1], -1)
