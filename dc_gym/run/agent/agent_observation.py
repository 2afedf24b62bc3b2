# SPDX-License-Identifier: Apache-2.0
"""The observations of single hosts, switches, ports and flows, where each of them is an agent (agents.py).

An agent observes only values within its reach. A host: its own egress and its own flows. If `see` is "path", it also observes the
values that switches on its flows' paths would write into the packets: the largest of each feature. A switch or port: the features
of its own ports where it sets something. A flow: its own features. An item's values of others are left out. An item of classes
gives each port one value for each kind of class, such as rdma/backlog.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.ctrl.actuators.actuator import FLOW
from dc_gym.run.agent.agents import FLOWS, HOSTS, SWITCHES, AgentRows
from dc_gym.run.agent.frame import Bools, Floats, Frame, Rows
from dc_gym.run.agent.observation import OF_FLOW, Feature, Part, Vector, parse
from dc_gym.run.agent.scene import Scene

SEE = ("own", "path")


class AgentObserver(Protocol):
    """Makes the observations of all agents from frames, in order. A frame of step 0 restarts the history."""

    spaces: tuple[Any, ...]
    """The observation space of each agent."""
    names_of: tuple[tuple[str, ...], ...]
    """For each agent, one name for each element of its observation."""

    def observe(self, frame: Frame) -> Sequence[Vector]:
        """Returns the observation of each agent."""
        ...


def observer_of(
    agents: tuple[AgentRows, ...], scene: Scene, observe: str, history: int, kind: str, see: str | None = None
) -> AgentObserver:
    """Returns the observer of the agents that `kind` names (agents.py). `see`: None means the default, "path" for hosts."""
    if see is not None and see not in SEE:
        raise AgentError("see: " + unknown("value", see, SEE))
    if kind == HOSTS:
        acting = tuple(agent.name for agent in agents)
        if acting != scene.hosts and not (len(scene.flow_row) and scene.rates is None):
            raise AgentError('agent.agents = "hosts": is for hosts whose rates are set; give "ports", or other agent.actuators')
        return HostObserver(scene, observe, history, see or "path", acting)
    if see == "path":
        raise AgentError(f'see: "path" is for hosts, and the agents are {kind}; leave it out')
    if kind == FLOWS:
        return FlowObserver(agents, scene, observe, history)
    return PortObserver(agents, scene, observe, history, kind)


@dataclass(frozen=True, slots=True, eq=False)
class OfPorts:
    """One value for each port: a feature of the port, or of its class of one kind. It is 0 where an item is not of the port."""

    part: Part
    name: str
    """backlog, or rdma/backlog."""
    at: Rows
    """[ports]: the place of each port's value among the part's values; -1: it has none."""

    @classmethod
    def of(cls, part: Part, scene: Scene) -> tuple[OfPorts, ...]:
        """Returns the values that an item gives each port: one, or one for each kind of class."""
        name, rows, ports = part.feature.name, part.rows, len(scene.ports)
        kind_values = []
        for kind in ("", *dict.fromkeys(scene.classes.kinds)):
            kind_rows = [row for row in rows.tolist() if (scene.classes.kinds[row - ports] if row >= ports else "") == kind]
            at = np.full(ports, -1, np.intp)
            at[[scene.port_of(row) for row in kind_rows]] = np.array(kind_rows, np.intp) - part.first
            if kind_rows:
                kind_values.append(cls(part, f"{kind}/{name}" if kind else name, at))
        return tuple(kind_values)

    @property
    def has(self) -> Bools:
        """[ports]: whether the item is of the port."""
        present: Bools = self.at >= 0
        return present

    def values(self, frame: Frame, scene: Scene) -> Floats:
        """Returns the values before clipping, as [ports]."""
        return np.where(self.has, self.part.values(frame, scene)[self.at], 0.0)


@dataclass(frozen=True, slots=True)
class Element:
    """One element of every agent's observation."""

    of: OfPorts | Part
    """A feature of ports or of hosts."""
    on_path: bool
    """True: the largest value over the switch ports that the host's running flows cross, 0 if none run. False: the host's own
    value."""

    @property
    def part(self) -> Part:
        return self.of if isinstance(self.of, Part) else self.of.part

    @property
    def name(self) -> str:
        value_name = self.of.feature.name if isinstance(self.of, Part) else self.of.name
        return f"{'path' if self.on_path else 'own'}/{value_name}"


class AlikeObserver:
    """Makes the observations of agents that observe alike from frames, in order. A frame of step 0 restarts the history."""

    def __init__(self, one: Sequence[str], features: Sequence[Feature], history: int, agents: tuple[str, ...]) -> None:
        """`one` and `features`: of each element of one frame."""
        self._agents = agents
        ages = range(history - 1, -1, -1)
        self.names = tuple(name + (f"@-{age}" if age else "") for age in ages for name in one)
        """One name for each element of every agent's observation, such as own/backlog or path/marks@-1."""
        self._low, self._high = (np.array([getattr(feature, end) for feature in features], np.float32) for end in ("low", "high"))
        self._frames: deque[Vector] = deque(maxlen=history)
        self.space = spaces.Box(np.tile(self._low, history), np.tile(self._high, history), dtype=np.float32)
        self.spaces, self.names_of = (self.space,) * len(agents), (self.names,) * len(agents)

    def _now(self, frame: Frame) -> Floats:
        """Returns the values of a frame before clipping, as [agents, elements]."""
        raise NotImplementedError

    def observe(self, frame: Frame) -> Sequence[Vector]:
        """Returns the observations as [agents, elements]."""
        now = np.clip(self._now(frame).astype(np.float32), self._low, self._high)
        if np.isnan(now).any():
            agent, index = np.argwhere(np.isnan(now))[0].tolist()
            raise AgentError(f"agent.observe: {self.names[index]} of {self._agents[agent]} is not a number; mend the feature")
        if frame.step == 0 or not self._frames:
            self._frames.extend([now] * (self._frames.maxlen or 1))
        else:
            self._frames.append(now)
        observations: Sequence[Vector] = np.concatenate(self._frames, axis=1)  # type: ignore[assignment]
        return observations


class HostObserver(AlikeObserver):
    """Makes the observations of hosts."""

    def __init__(self, scene: Scene, observe: str, history: int, see: str, acting: tuple[str, ...] | None = None) -> None:
        """`acting`: the hosts that are agents; None: all hosts of the scene."""
        if see not in SEE:
            raise AgentError("see: " + unknown("value", see, SEE))
        self._scene, self._elements = scene, _elements(observe, scene, see)
        acting = scene.hosts if acting is None else acting
        self._at = [scene.hosts.index(name) for name in acting]
        features = [element.part.feature for element in self._elements]
        super().__init__([element.name for element in self._elements], features, history, acting)

    def _now(self, frame: Frame) -> Floats:
        return np.stack([self._values(element, frame) for element in self._elements], axis=1)[self._at]

    def _values(self, element: Element, frame: Frame) -> Floats:
        scene, values = self._scene, element.of.values(frame, self._scene)
        if isinstance(element.of, Part):
            return values
        if not element.on_path:
            return values[scene.host_row]
        return _largest_on_paths(values, element.of.has, frame, scene)


class FlowObserver(AlikeObserver):
    """Makes the observations of flows. All values of a flow that is not under way are 0."""

    def __init__(self, agents: tuple[AgentRows, ...], scene: Scene, observe: str, history: int) -> None:
        self._scene, self._at = scene, [agent.flow for agent in agents if agent.flow is not None]
        self._parts = [part for part in parse(observe, scene) if part.feature.kind == FLOW]
        if not self._parts:
            raise AgentError(f"agent.observe: {observe!r} has no feature of flows; give a preset such as tcp_info, or flow:srtt")
        features = [part.feature for part in self._parts]
        names = [f"own/{feature.name.removeprefix(OF_FLOW)}" for feature in features]
        super().__init__(names, features, history, tuple(agent.name for agent in agents))

    def _now(self, frame: Frame) -> Floats:
        return np.stack([part.values(frame, self._scene) for part in self._parts], axis=1)[self._at]


class PortObserver:
    """Makes the observations of all switches, or of all ports, from frames, in order. A frame of step 0 restarts the history.

    A port's observation has one value for each item of agent.observe, 0 where the item is not of this port. A switch's has the
    observations of its ports where it sets something, one after the other.
    """

    def __init__(self, agents: tuple[AgentRows, ...], scene: Scene, observe: str, history: int, kind: str) -> None:
        self._scene, self._history = scene, history
        rows = np.unique(np.concatenate([agent.rows for agent in agents]))
        parts = [part for part in parse(observe, scene) if part.feature.kind == "port"]
        self._parts = tuple(port_part for part in parts for port_part in OfPorts.of(part, scene) if port_part.has[rows].any())
        if not self._parts:
            raise AgentError(
                f'agent.observe: {observe!r} has no feature of the ports where "{kind}" act; give one, such as backlog'
            )
        one = [part.name for part in self._parts]
        if twice := [name for name in one if one.count(name) > 1]:
            raise AgentError(f"agent.observe: {observe!r} gives each port {twice[0]} twice; take one out")
        ages = range(history - 1, -1, -1)
        names, boxes = [], []
        features = [port_part.part.feature for port_part in self._parts]
        low, high = (np.array([getattr(feature, end) for feature in features], np.float32) for end in ("low", "high"))
        self._low, self._high = low, high
        for agent in agents:
            agent_names = (
                [f"port{number}/{name}" for number in range(1, len(agent.rows) + 1) for name in one] if kind == SWITCHES else one
            )
            names.append(tuple(name + (f"@-{age}" if age else "") for age in ages for name in agent_names))
            times = history * len(agent.rows)
            boxes.append(spaces.Box(np.tile(low, times), np.tile(high, times), dtype=np.float32))
        self.spaces, self.names_of = tuple(boxes), tuple(names)
        self._rows = tuple(agent.rows for agent in agents)
        self._frames: deque[Vector] = deque(maxlen=history)

    def observe(self, frame: Frame) -> Sequence[Vector]:
        """Returns the observation of each agent."""
        now = np.stack([part.values(frame, self._scene) for part in self._parts], axis=1).astype(np.float32)
        now = np.clip(now, self._low, self._high)
        if np.isnan(now).any():
            row, column = np.argwhere(np.isnan(now))[0].tolist()
            element = f"{self._parts[column].name} of {self._scene.ports[row]}"
            raise AgentError(f"agent.observe: {element} is not a number; mend the feature")
        if frame.step == 0 or not self._frames:
            self._frames.extend([now] * self._history)
        else:
            self._frames.append(now)
        return [np.concatenate([values[rows].reshape(-1) for values in self._frames]) for rows in self._rows]


def _elements(observe: str, scene: Scene, see: str) -> tuple[Element, ...]:
    """Returns the elements for each item of agent.observe: the host's own value and, where the item covers switch ports, the
    path's value."""
    elements: dict[str, Element] = {}
    for part in parse(observe, scene):
        if part.feature.kind == FLOW:
            continue
        of_host = part.feature.kind == "host"
        for source in [part] if of_host else OfPorts.of(part, scene):
            has = np.empty(0, bool) if isinstance(source, Part) else source.has
            is_own = of_host or bool(has[~scene.is_switch].any())
            on_path = see == "path" and not of_host and bool(has[scene.is_switch].any())
            for element in [Element(source, False)] * is_own + [Element(source, True)] * on_path:
                if element.name in elements:
                    raise AgentError(f"agent.observe: {observe!r} gives each host {element.name} twice; take one out")
                elements[element.name] = element
    if not elements:
        raise AgentError(
            f'agent.observe: {observe!r} has nothing of the hosts, and see is "own"; give see = "path", or other features'
        )
    return tuple(elements.values())


def _largest_on_paths(values: Floats, has: Bools, frame: Frame, scene: Scene) -> Floats:
    """Returns as [hosts] the largest value over the chosen switch ports that the host's running flows cross."""
    info = frame.info
    hosts = info.host[info.switch_flows]
    counts = frame.under_way[info.switch_flows] & (hosts >= 0) & has[info.switch_rows]
    largest = np.full(len(scene.hosts), -np.inf)
    np.maximum.at(largest, hosts[counts], values[info.switch_rows[counts]])
    return np.where(np.isfinite(largest), largest, 0.0)
