# SPDX-License-Identifier: Apache-2.0
"""The ways in which the group ports of switches choose among equal next hops (kernel/drivers/group.c, `[topology] balance`)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dc_gym.base.errors import TopologyError

if TYPE_CHECKING:
    from dc_gym.topologies.graph import Graph

MODES = ("ecmp", "random", "round_robin", "flowlet", "drill", "adaptive")
"""In the order of enum lab_group_mode of kernel/drivers/lab.h."""
MOST_SAMPLES = 8
"""LAB_GROUP_SAMPLES."""
WEIGHTS = ("equal", "rate")
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "balance_at": MODES[1:],
    "balance_gap_ns": ("flowlet", "adaptive"),
    "balance_samples": ("drill",),
    "balance_memory": ("drill",),
}
"""The modes that each key of [topology] belongs to."""
ASKED = struct.Struct("=4IQ")


@dataclass(frozen=True, slots=True)
class Balance:
    """The way in which a group port chooses, and its parameters: struct lab_group_balance."""

    mode: str = "ecmp"
    samples: int = 0
    memory: int = 0
    gap_ns: int = 0

    def pack(self) -> bytes:
        """Returns the kernel's form."""
        return ASKED.pack(MODES.index(self.mode), self.samples, self.memory, 0, self.gap_ns)


ECMP = Balance()


def switches_of(graph: Graph, words: tuple[str, ...] | None) -> frozenset[str]:
    """Returns the switches that words name: their names, or names of layers; None: all.

    Raises:
        TopologyError: A word names no switch.
    """
    from dc_gym.topologies.links import ANY, Node

    nodes = [Node(switch.name, switch.layer) for switch in graph.switches]
    for word in words or ():
        if not any(node.is_called(word) for node in nodes):
            raise TopologyError(f"topology.balance_at: {word!r} is no switch; name switches, or layers (leaf, agg, spine)")
    return frozenset(node.name for node in nodes if any(node.is_called(word) for word in words or (ANY,)))
