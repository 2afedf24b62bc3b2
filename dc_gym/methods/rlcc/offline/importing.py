# SPDX-License-Identifier: Apache-2.0
"""Turns a user's own network into a policy file: RL-CC's 4-12-12-1, or PCC-RL's with an LSTM."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dc_gym.base.bounded import sha256_of
from dc_gym.base.errors import AgentError
from dc_gym.base.npz import load_arrays
from dc_gym.methods.rlcc import lstm, mlp
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.lstm import Lstm
from dc_gym.methods.rlcc.mlp import Mlp
from dc_gym.methods.rlcc.mlp8 import Mlp8
from dc_gym.methods.rlcc.policy import ARRAYS, NETWORKS
from dc_gym.nets.nic_policy import NicPolicy

COMMAND = "dcgym method rlcc import"
SHAPES = {"mlp": mlp.SHAPES, "lstm": lstm.SHAPES}
GUIDE = "give one with the weights W0, W1, W2 of a 4-12-12-1 network, or W0, b0 to W3, b3 of one with an LSTM"


def network(path: Path, scaling: Scaling) -> NicPolicy:
    """Returns the policy for an .npz with a network's weights. Each matrix is [outputs, inputs], as torch stores it."""
    arrays = load_arrays(path, GUIDE)
    kind = next((kind for kind in SHAPES if sorted(arrays) == sorted(ARRAYS[kind])), None)
    if kind is None:
        raise AgentError(f"{path}: holds {', '.join(sorted(arrays)) or 'nothing'}; {GUIDE}, and nothing else")
    for name, shape in zip(ARRAYS[kind], SHAPES[kind], strict=True):
        array = arrays[name]
        if not np.issubdtype(array.dtype, np.floating) or array.shape != shape:
            raise AgentError(f"{path}: {name} is {array.dtype} of the shape {array.shape}, not floating point of {shape}")
    provenance = {"command": COMMAND, "made": "imported", "source": path.name}
    provenance |= {"source_sha256": sha256_of(path)}
    try:
        return NicPolicy(NETWORKS[kind](tuple(arrays[name].astype(np.float64) for name in ARRAYS[kind])), scaling, provenance)
    except AgentError as error:
        raise AgentError(f"{path}: {error}") from None


def in_8_bits(net: NicPolicy, command: str) -> NicPolicy:
    """Returns a network's policy for rlcc-mlp8, made by this command.

    A network with an LSTM is returned as it is: its table has weights of 8 bits already.
    """
    if isinstance(net.policy, (Lstm, Mlp8)):
        return net
    if not isinstance(net.policy, Mlp):
        raise AgentError("8 bits: trees have no weights; give a network")
    provenance = {"command": command, "made": "rounded to 8 bits", "source_sha256": net.sha256()}
    return NicPolicy(Mlp8(net.policy.weights), net.scaling, provenance | {"network": dict(net.provenance)})
