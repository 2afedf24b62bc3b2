# SPDX-License-Identifier: Apache-2.0
"""The fully connected nets of our RLModules. The export (export.py) can read them layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import torch
from torch import nn

HIDDEN = (64, 64)
ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


def mlp(inputs: int, hidden: Sequence[int], outputs: int, activation: str, last: type[nn.Module] | None = None) -> nn.Sequential:
    """Returns a net of Linear, activation, ..., Linear, and `last` as a final module if it is given."""
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(inputs, size), ACTIVATIONS[activation]()]
        inputs = size
    layers.append(nn.Linear(inputs, outputs))
    return nn.Sequential(*layers, *([last()] if last else []))


def shape_of(model: Mapping[str, Any], default: str) -> tuple[Sequence[int], str]:
    """Returns hidden sizes and activation, read from the keys of RLlib's own nets: fcnet_hiddens and fcnet_activation."""
    activation = model.get("fcnet_activation", default)
    if activation not in ACTIVATIONS:
        raise ValueError(f"fcnet_activation {activation!r} is unknown; one of: {', '.join(ACTIVATIONS)}")
    return model.get("fcnet_hiddens", HIDDEN), activation


def width(space: gymnasium.Space[Any]) -> int:
    """Returns the length of a vector of the space."""
    assert isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1, f"{space} is not a vector"
    return int(space.shape[0])


def shrink(net: nn.Sequential, bound: float, generator: torch.Generator | None = None) -> nn.Sequential:
    """Draws the last Linear's weights from [-bound, bound], so that a following tanh starts near 0 and not saturated."""
    last = [layer for layer in net if isinstance(layer, nn.Linear)][-1]
    for parameter in last.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return net
