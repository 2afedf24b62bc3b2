# SPDX-License-Identifier: Apache-2.0
"""RL-CC's network of 4-12-12-1 with weights of 8 bits, as nic/rlcc_mlp8/rlcc-mlp8.h runs it."""

from __future__ import annotations

import numpy as np

from dc_gym.methods.rlcc.decision import MAX_ACTION, action
from dc_gym.methods.rlcc.mlp import SHAPES, Mlp
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.int8 import (
    INPUT_OFFSET,
    MAX_INPUT,
    POINTS,
    Integers,
    TableReader,
    check_activations,
    look_up,
    lookup_table,
    relu,
    row_words,
)

ACTION_OFFSETS = np.array([1, 0, 1, 0]) * Q16
"""Offsets of the inputs: a context stores actions less 1."""


class Mlp8(Mlp):
    """RL-CC's network; the NIC gets its weights in 8 bits."""

    __slots__ = ()
    KIND = "mlp8"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_activations([(weight, np.zeros(1)) for weight in self.weights[:2]], (MAX_ACTION, MAX_INPUT) * 2)

    def packed_bytes(self) -> int:
        """Returns the bytes needed on a NIC: one per weight, four per row's scale, two per point of the action table."""
        return sum(weight.size for weight in self.weights) + 4 * sum(len(weight) for weight in self.weights) + 2 * (POINTS + 1)

    def table_body(self) -> list[int]:
        """Returns the body of its table."""
        first, second, third = ((weight, np.zeros(len(weight))) for weight in self.weights)
        rows = [*row_words(*first, INPUT_OFFSET - ACTION_OFFSETS), *row_words(*second), *row_words(*third)]
        return [*rows, *lookup_table(action_table)]


def action_table(sums: Floats) -> Floats:
    """Returns the action less 1 in Q16, for a network's last sum."""
    return np.asarray((action(np.tanh(sums)) - 1.0) * Q16)


def integer_actions(body: Integers, inputs_q16: Integers) -> Integers:
    """Returns actions Q16 from the body of an Mlp8's table for inputs [rows, 4] in Q16, bit for bit as in rlcc-mlp8.h."""
    table, x = TableReader(body), inputs_q16 + (INPUT_OFFSET - ACTION_OFFSETS)
    for outputs, inputs in SHAPES[:-1]:
        x = relu(table.rows(outputs, inputs).sums(x))
    return Q16 + look_up(table.rows(*SHAPES[-1]).sums(x)[:, 0], table.look_up())
