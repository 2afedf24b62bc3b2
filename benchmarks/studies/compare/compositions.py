# SPDX-License-Identifier: Apache-2.0
"""Contestants of the comparison that are more than a controller: a NIC's algorithm with agents in the switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dc_gym.figures.styles import Style
from dc_gym.nets.acc_template import DEPLOYED

LATENCY_NS = 10_000
"""Time from a sample of ACC's to the new marking, before slowing down (section 4.2 of ACC gives about 10 us)."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A contestant: its keys, but for those in times, and its style."""

    keys: Mapping[str, Any]
    interval_ns: int
    """Time between two decisions of its agents, before slowing down."""
    latency_ns: int
    style: Style

    def keys_at(self, scale: int) -> dict[str, Any]:
        """Returns its keys on a network that is slowed down by `scale`."""
        times = {"agent.interval": f"{self.interval_ns * scale}ns", "agent.latency": f"{self.latency_ns * scale}ns"}
        return {**self.keys, **times}


COMPOSITIONS = {
    "acc": Composition(
        {
            "controller.name": "dcqcn",
            "controller.policy": "acc",
            "controller.start": "acc-deployed",
            "agent.actuators": "marking",
            "agent.agents": "switches",
            "agent.observe": "switch:mean_backlog",
            "agent.reward": "acc",
        },
        DEPLOYED.interval_ns,
        LATENCY_NS,
        Style("#DC143C", "P", "ACC + DCQCN"),
    ),
}
"""Compositions by name. `acc`: DCQCN, and ACC's net of dc-gym in every switch, which does not learn on."""
