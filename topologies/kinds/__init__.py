# SPDX-License-Identifier: Apache-2.0
"""The registry of topologies: the values of topology.kind.

A kind is a file in this folder, called as the kind: a function that builds a Graph, a dataclass of its keys, and one `register`
call at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dc_gym.topologies.graph import Graph
from dc_gym.topologies.topology_spec import TOPOLOGIES

__all__ = ["TOPOLOGIES", "register"]


def register(name: str, build: Callable[..., Graph], keys: Any = None) -> None:
    """Registers a topology as a value of topology.kind.

    Args:
        name: The value.
        build: `build(wiring, keys)`, or `build(wiring)` without keys. Its docstring describes the topology.
        keys: The dataclass of its keys.
    """
    TOPOLOGIES.add(name, build, keys)


TOPOLOGIES.discover(__name__, Path(__file__).parent)
