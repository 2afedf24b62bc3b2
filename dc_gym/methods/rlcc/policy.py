# SPDX-License-Identifier: Apache-2.0
"""RL-CC's kinds of policies for NICs: trees, the network of 4-12-12-1 in two precisions, and PCC-RL's network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from dc_gym.base import methods
from dc_gym.base.errors import AgentError
from dc_gym.methods.rlcc import lstm, mlp, mlp8, trees
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.lstm import Lstm
from dc_gym.methods.rlcc.mlp import Mlp
from dc_gym.methods.rlcc.mlp8 import Mlp8
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets.int8 import MAX_INPUT
from dc_gym.nets.lstm_cell import MEMORY
from dc_gym.nets.nic_kind import Integers, NicKind
from dc_gym.nets.nic_policy import NicPolicy, size_of_network, size_of_trees
from dc_gym.nets.policy_file import NIC, RUN, Payload, nic_algorithm

NETWORKS: dict[str, type[Mlp | Lstm]] = {"mlp": Mlp, "mlp8": Mlp8, "lstm": Lstm}
ARRAYS = {
    "mlp": ("W0", "W1", "W2"),
    "mlp8": ("W0", "W1", "W2"),
    "lstm": ("W0", "b0", "W1", "b1", "W2", "b2", "W3", "b3"),
}
"""The names of a network's weights and biases, in their order."""
MOST_ERROR = 2**14
"""The limit of a scaling stays below it, so that errors fit into the NIC's integers."""
Step = Callable[[Integers, int, Integers, Integers], tuple[Integers, Integers]]
"""From a table's body and bias, inputs and memory to actions and memory."""


def network_of(file: NicPolicy) -> Mlp | Lstm | Trees:
    """Returns the network or trees of one of RL-CC's policies. Raises AgentError for another method's."""
    if isinstance(file.policy, Mlp | Lstm | Trees):
        return file.policy
    (title,) = (method.title for method in methods.by_name().values() if file.kind in method.nic_policies)
    how = RUN[NIC].format(algorithm=nic_algorithm(file.kind), path="POLICY")
    raise AgentError(f"is a policy of {title}, not of RL-CC; run it with {how}")


def read_policy(path: Path) -> NicPolicy:
    """Reads one of RL-CC's policies. Raises AgentError if the file holds another method's."""
    file = NicPolicy.read(path)
    try:
        network_of(file)
    except AgentError as error:
        raise AgentError(f"{path}: {error}") from None
    return file


def _check(scaling: Scaling, most: float = MOST_ERROR) -> None:
    numbers = asdict(scaling)
    wrong = [name for name, value in numbers.items() if not (np.isfinite(value) and 0 <= value < 256)]
    if wrong or not scaling.unit > 0 or scaling.limit >= MOST_ERROR:
        raise AgentError(f"its scaling {numbers} is out of range; target, gain and max_error are above 0, all below 256")
    if scaling.limit >= most:
        raise AgentError(f"its scaling {numbers} lets errors grow to {most:g} and beyond; lower its max_error")


def _read_network(kind: str, payload: Payload) -> Mlp | Lstm:
    return NETWORKS[kind](tuple(np.asarray(payload.arrays[name], np.float64) for name in ARRAYS[kind]))


def _without_memory(actions: Callable[[Integers, Integers], Integers]) -> Step:
    """Returns the step of a network that stores nothing, from the function that computes its actions."""
    return lambda body, bias, inputs_q16, memory_q16: (actions(body, inputs_q16), memory_q16)


def _trees_step(body: Integers, bias: int, inputs_q16: Integers, memory_q16: Integers) -> tuple[Integers, Integers]:
    return trees.integer_actions(body, bias, inputs_q16), memory_q16


def _lstm_step(body: Integers, bias: int, inputs_q16: Integers, memory_q16: Integers) -> tuple[Integers, Integers]:
    return lstm.integer_step(body, inputs_q16, memory_q16)


def _network(kind: str, shape: str, integers: Step, most: float = MOST_ERROR) -> NicKind:
    """Returns a kind of networks without memory. Its errors stay below `most`."""
    return NicKind(
        arrays=ARRAYS[kind],
        read=partial(_read_network, kind),
        scaling=Scaling,
        check=partial(_check, most=most),
        describe=partial(size_of_network, shape=shape),
        memory=0,
        integers=integers,
    )


KINDS: Mapping[str, NicKind] = {
    "tree": NicKind(
        read=lambda payload: Trees.of_arrays(payload.arrays),
        scaling=Scaling,
        check=_check,
        describe=size_of_trees,
        memory=0,
        integers=_trees_step,
    ),
    "mlp": _network("mlp", "4-12-12-1", _without_memory(mlp.integer_actions)),
    "mlp8": _network("mlp8", "4-12-12-1 in 8 bits", _without_memory(mlp8.integer_actions), MAX_INPUT),
    "lstm": replace(_network("lstm", "2-32-16-LSTM16-1", _lstm_step, MAX_INPUT), memory=MEMORY, answer=lstm.second_action),
}
