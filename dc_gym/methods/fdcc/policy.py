# SPDX-License-Identifier: Apache-2.0
"""FDCC's kinds of policies for NICs: its network, and trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from dc_gym.methods.fdcc import net, trees
from dc_gym.methods.fdcc.net import FdccNet
from dc_gym.methods.fdcc.trees import FdccTrees
from dc_gym.nets.lstm_cell import MEMORY
from dc_gym.nets.nic_kind import Integers, NicKind
from dc_gym.nets.nic_policy import size_of_network, size_of_trees
from dc_gym.nets.policy_file import Payload


def _read_network(payload: Payload) -> FdccNet:
    net.check_observations(payload.entries["observations"])
    weights = tuple(np.asarray(payload.arrays[name], np.float64) for name in NETWORK.arrays)
    return FdccNet(weights, payload.entries["history"])


def _read_trees(payload: Payload) -> FdccTrees:
    net.check_observations(payload.entries["observations"])
    return FdccTrees.of_arrays(payload.arrays)


def _entries_of_network(network: Any) -> dict[str, Any]:
    return {"observations": list(net.OBSERVATIONS), "history": network.history}


def _tree_integers(body: Integers, bias: int, inputs_q16: Integers, memory_q16: Integers) -> tuple[Integers, Integers]:
    return trees.integer_outputs(body, bias, inputs_q16), memory_q16


NETWORK = NicKind(
    arrays=("W0", "b0", "W1", "b1", "W2", "b2"),
    read=_read_network,
    entries=_entries_of_network,
    describe=lambda network: f"{size_of_network(network, '8-16-LSTM16-1')}; trained on histories of {network.history}",
    memory=MEMORY,
    integers=lambda body, bias, inputs_q16, memory_q16: net.integer_step(body, inputs_q16, memory_q16),
)
TREES = NicKind(
    read=_read_trees,
    entries=lambda network: {"observations": list(net.OBSERVATIONS)},
    describe=lambda network: f"{size_of_trees(network)}; over FDCC's {len(net.OBSERVATIONS)} observations",
    memory=0,
    integers=_tree_integers,
)
