# SPDX-License-Identifier: Apache-2.0
"""A policy for FDCC whose weights are written by hand: the window falls with the queue, and grows where there is none.

    z = -GAIN log2(queue sqrt(ins_rate) / TARGET),  o near tanh(z)

with the queue in BDP and ins_rate of the line. It needs no training and is fair: the queue at which a flow rests falls with the
flow's rate, as in RL-CC's eq. 4. It uses one cell, remembers nothing, and is there to test the NIC and to compare with.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from dc_gym.methods.fdcc.net import LOG_SPAN, OBSERVATIONS, SHAPES, FdccNet
from dc_gym.nets.lstm_cell import CELLS
from dc_gym.nets.nic_policy import NicPolicy

TARGET = 0.25
"""The queue, in BDP, at which a flow with the whole line rests."""
GAIN = 0.15
LIFT = 12.0
"""Added before the ReLU, so that it bends nothing: the sum before it is above -12."""
OPEN, SHUT = 15.0, -15.0
"""Biases of gates: sigmoid is 1, or 0, within a millionth."""


def scripted_network(target: float = TARGET) -> FdccNet:
    """Returns the network. A decision's answer depends on that decision's observations alone. `target`: in BDP, as TARGET."""
    weights = [np.zeros(shape) for shape in SHAPES]
    first, first_bias, gates, gate_biases, last, _ = weights
    queue, rate = OBSERVATIONS.index("queue"), OBSERVATIONS.index("ins_rate")
    first[0, queue], first[0, rate] = -LOG_SPAN, -LOG_SPAN / 2
    first_bias[0] = LIFT + np.log2(target)
    taken, forget_gate, fresh, output_gate = (gate * CELLS for gate in range(4))
    gate_biases[[taken, forget_gate, output_gate]] = OPEN, SHUT, OPEN
    gates[fresh, 0], gate_biases[fresh] = GAIN, -GAIN * LIFT
    last[0, 0] = 1.0
    return FdccNet(tuple(weights))


def scripted_policy() -> NicPolicy:
    """Returns the policy as it ships."""
    command = "python -m dc_gym.methods.fdcc.scripted fdcc-scripted.npz"
    return NicPolicy(scripted_network(), provenance={"made": "written by hand, not trained", "command": command})


if __name__ == "__main__":
    scripted_policy().write(Path(sys.argv[1]))
