# SPDX-License-Identifier: Apache-2.0
"""The agents of a network: one for all of it, or each host, each switch, each port, or each flow.

The values that the agents of a network set are declared once (agent.actuators); here they are divided among the agents. Each
value belongs to one agent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.nets.agent_kinds import AGENTS, CENTRAL, FLOWS, HOSTS, PORTS, SWITCHES
from dc_gym.run.agent.frame import Rows
from dc_gym.run.agent.scene import ActuatedRows, Scene
from dc_gym.topologies.graph import CLASS_MARK

__all__ = ["AGENTS", "CENTRAL", "FLOWS", "HOSTS", "NETWORK", "PORTS", "SWITCHES", "AgentRows", "divide"]

NETWORK = "network"
"""The name of a central agent."""


@dataclass(frozen=True, slots=True, eq=False)
class AgentRows:
    """One agent: the values that it sets."""

    name: str
    """network; h1, or h1-eth0 of a host with several ports; s1; s1-eth3; flow0."""
    values: Rows
    """The places of its values among all agents' values, in order."""
    rows: Rows
    """The rows of the ports where it sets something, of themselves, their classes or their flows, in the order of the values."""
    flow: int | None = None
    """The number of the flow that it is; None: it is no flow."""

    def scene(self, scene: Scene) -> Scene:
        """Returns the scene of this agent alone: no other values are set."""
        parts: list[ActuatedRows] = []
        offset = 0
        for rows in scene.actuated:
            indices = np.flatnonzero(
                np.isin(np.arange(rows.place.start, rows.place.stop), self.values).reshape(rows.low.shape)[:, 0]
            )
            if not len(indices):
                continue
            low, high, start = rows.low[indices], rows.high[indices], rows.start[indices]
            names, end = tuple(rows.names[row] for row in indices.tolist()), offset + low.size
            parts.append(ActuatedRows(rows.actuator, rows.rows[indices], names, low, high, start, slice(offset, end)))
            offset = end
        return replace(scene, actuated=tuple(parts))


def divide(scene: Scene, agents: str) -> tuple[AgentRows, ...]:
    """Returns the agents of a scene, in the order of the values that they set. `agents` is one of AGENTS."""
    if agents not in AGENTS:
        raise AgentError("agent.agents: " + unknown("value", agents, AGENTS))
    values: dict[str, list[int]] = {}
    rows: dict[str, list[int]] = {}
    flows: dict[str, int] = {}
    for actuator_rows in scene.actuated:
        count = len(actuator_rows.actuator.quantities)
        for number, (row, name) in enumerate(zip(actuator_rows.rows.tolist(), actuator_rows.names, strict=True)):
            owner = _owner(scene, agents, actuator_rows, row, name)
            first = actuator_rows.place.start + number * count
            values.setdefault(owner, []).extend(range(first, first + count))
            rows.setdefault(owner, []).append(_port(scene, actuator_rows, row))
            if agents == FLOWS:
                flows[owner] = row
    return tuple(
        AgentRows(owner, np.array(agent_values, np.intp), np.array(list(dict.fromkeys(rows[owner])), np.intp), flows.get(owner))
        for owner, agent_values in values.items()
    )


def _port(scene: Scene, actuator_rows: ActuatedRows, row: int) -> int:
    """Returns the row of the port of a row; of a flow, its egress."""
    return int(scene.flow_row[row]) if actuator_rows.actuator.of_flows else scene.port_of(row)


def _owner(scene: Scene, agents: str, actuator_rows: ActuatedRows, row: int, name: str) -> str:
    """Returns the name of the agent that sets this actuator at this row. A class is set by the agent of its port, a flow by that
    of its sender."""
    if agents == CENTRAL:
        return NETWORK
    port, of_flows = _port(scene, actuator_rows, row), actuator_rows.actuator.of_flows
    if of_flows and agents == HOSTS and port in scene.host_row:
        return str(scene.hosts[scene.host_row.tolist().index(port)])
    if of_flows != (agents == FLOWS):
        hint = "hosts" if port >= 0 else "flows"
        problem = f"{actuator_rows.actuator.name} of {name} is set by none of the {agents}"
        raise AgentError(
            f'agent.agents = "{agents}": {problem}; give "{hint if of_flows else "ports"}", or other agent.actuators'
        )
    if of_flows:
        return name
    name = name.partition(CLASS_MARK)[0]
    if agents == PORTS:
        return name
    if scene.is_switch[port] != (agents == SWITCHES):
        problem = f"{actuator_rows.actuator.name} of {scene.rows[row]} is set by no {'host' if agents == HOSTS else 'switch'}"
        raise AgentError(f'agent.agents = "{agents}": {problem}; give "ports", or other agent.actuators')
    return name if agents == HOSTS else scene.nodes[port]
