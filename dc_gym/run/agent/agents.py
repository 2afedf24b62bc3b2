# SPDX-License-Identifier: Apache-2.0
"""The agents of a network: one for all of it, or each host, each switch, or each port.

The values that the agents of a network set are declared once (agent.actuators); here they are divided among the agents. Each
value belongs to one agent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.nets.agent_kinds import AGENTS, CENTRAL, HOSTS, PORTS, SWITCHES
from dc_gym.run.agent.frame import Rows
from dc_gym.run.agent.scene import ActuatedRows, Scene
from dc_gym.topologies.graph import CLASS_MARK

__all__ = ["AGENTS", "CENTRAL", "HOSTS", "NETWORK", "PORTS", "SWITCHES", "AgentRows", "divide"]

NETWORK = "network"
"""The name of a central agent."""


@dataclass(frozen=True, slots=True, eq=False)
class AgentRows:
    """One agent: the values that it sets."""

    name: str
    """network; h1, or h1-eth0 of a host with several ports; s1; s1-eth3."""
    values: Rows
    """The places of its values among all agents' values, in order."""
    rows: Rows
    """The rows of the ports where it sets something, of themselves or of their classes, in the order of the values."""

    def scene(self, scene: Scene) -> Scene:
        """Returns the scene of this agent alone: no other values are set."""
        found: list[ActuatedRows] = []
        place = 0
        for each in scene.actuated:
            mine = np.flatnonzero(
                np.isin(np.arange(each.place.start, each.place.stop), self.values).reshape(each.low.shape)[:, 0]
            )
            if not len(mine):
                continue
            low, high, start = each.low[mine], each.high[mine], each.start[mine]
            names, end = tuple(each.names[row] for row in mine.tolist()), place + low.size
            found.append(ActuatedRows(each.actuator, each.rows[mine], names, low, high, start, slice(place, end)))
            place = end
        return replace(scene, actuated=tuple(found))


def divide(scene: Scene, agents: str) -> tuple[AgentRows, ...]:
    """Returns the agents of a scene, in the order of the values that they set. `agents` is one of AGENTS."""
    if agents not in AGENTS:
        raise AgentError("agent.agents: " + unknown("value", agents, AGENTS))
    values: dict[str, list[int]] = {}
    rows: dict[str, list[int]] = {}
    for each in scene.actuated:
        count = len(each.actuator.quantities)
        for number, (row, name) in enumerate(zip(each.rows.tolist(), each.names, strict=True)):
            owner = _owner(scene, agents, each, row, name)
            first = each.place.start + number * count
            values.setdefault(owner, []).extend(range(first, first + count))
            rows.setdefault(owner, []).append(scene.port_of(row))
    return tuple(
        AgentRows(owner, np.array(mine, np.intp), np.array(list(dict.fromkeys(rows[owner])), np.intp))
        for owner, mine in values.items()
    )


def _owner(scene: Scene, agents: str, each: ActuatedRows, row: int, name: str) -> str:
    """Returns the name of the agent that sets this actuator at this row. A class is set by the agent of its port."""
    if agents == CENTRAL:
        return NETWORK
    port = scene.port_of(row)
    name = name.partition(CLASS_MARK)[0]
    if agents == PORTS:
        return name
    if scene.is_switch[port] != (agents == SWITCHES):
        what = f"{each.actuator.name} of {scene.rows[row]} is set by no {'host' if agents == HOSTS else 'switch'}"
        raise AgentError(f'agent.agents = "{agents}": {what}; give "ports", or other agent.actuators')
    return name if agents == HOSTS else scene.nodes[port]
