# SPDX-License-Identifier: Apache-2.0
"""A user's own 4-12-12-1 network as a policy file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from dc_gym.ctrl.nic.mlp import SHAPES, Mlp
from dc_gym.ctrl.nic.observation import Scaling
from dc_gym.ctrl.nic.policy_file import PolicyFile
from dc_gym.errors import AgentError
from dc_gym.npz import load_arrays

NAMES = ("W0", "W1", "W2")
GUIDE = f"give one with the weight matrices {', '.join(NAMES)} of a 4-12-12-1 network"


def network(path: Path, scaling: Scaling) -> PolicyFile:
    """The policy of an .npz with three weight matrices, [outputs, inputs] each, as torch keeps them."""
    arrays = load_arrays(path, GUIDE)
    if sorted(arrays) != sorted(NAMES):
        raise AgentError(f"{path}: holds {', '.join(sorted(arrays)) or 'nothing'}; {GUIDE}, and nothing else")
    for name, shape in zip(NAMES, SHAPES, strict=True):
        found = arrays[name]
        if not np.issubdtype(found.dtype, np.floating) or found.shape != shape:
            raise AgentError(f"{path}: {name} is {found.dtype} of the shape {found.shape}, not floating point of {shape}")
    first, second, third = (arrays[name].astype(np.float64) for name in NAMES)
    origin = {"made": "imported", "from": path.name, "from sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    try:
        return PolicyFile(Mlp((first, second, third)), scaling, origin)
    except AgentError as error:
        raise AgentError(f"{path}: {error}") from None
