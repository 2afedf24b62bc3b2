# SPDX-License-Identifier: Apache-2.0
"""The observations of single hosts, switches and ports, where each of them is an agent (agents.py).

An agent observes what it could know itself. A host: its own egress and its own flows. If `see` is "path", it also observes what
the switches on its flows' paths would write into the packets: the largest value of each feature. A switch or port: the features
of its own ports where it sets something. What an item of agent.observe says of others is left out.
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
from dc_gym.envs.agents import HOSTS, SWITCHES, AgentRows
from dc_gym.envs.frame import Floats, Frame, Rows
from dc_gym.envs.observation import Part, Vector, parse, values_of
from dc_gym.envs.scene import Scene

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
    agents: tuple[AgentRows, ...], scene: Scene, observe: str, history: int, who: str, see: str | None = None
) -> AgentObserver:
    """Returns the observer of agents that `who` says (agents.py). `see`: None for the default, which is "path" for hosts."""
    if see is not None and see not in SEE:
        raise AgentError("see: " + unknown("value", see, SEE))
    if who == HOSTS:
        if tuple(each.name for each in agents) != scene.hosts:
            raise AgentError('agent.agents = "hosts": is for hosts whose rates are set; give "ports", or other agent.actuators')
        return HostObserver(scene, observe, history, see or "path")
    if see == "path":
        raise AgentError(f'see: "path" is for hosts, and the agents are {who}; leave it out')
    return PortObserver(agents, scene, observe, history, who)


@dataclass(frozen=True, slots=True)
class Element:
    """One element of every agent's observation."""

    part: Part
    on_path: bool
    """True: the largest value over the switch ports that the host's running flows cross, 0 if none run. False: the host's own
    value."""

    @property
    def name(self) -> str:
        return f"{'path' if self.on_path else 'own'}/{self.part.feature.name}"


class HostObserver:
    """Makes the observations of all hosts from frames, in order. A frame of step 0 restarts the history."""

    def __init__(self, scene: Scene, observe: str, history: int, see: str) -> None:
        if see not in SEE:
            raise AgentError("see: " + unknown("value", see, SEE))
        self._scene = scene
        self._elements = _elements(observe, scene, see)
        one = [element.name for element in self._elements]
        ages = range(history - 1, -1, -1)
        self.names = tuple(name + (f"@-{age}" if age else "") for age in ages for name in one)
        """One name for each element of every agent's observation, such as own/backlog or path/marks@-1."""
        features = [element.part.feature for element in self._elements]
        self._low, self._high = (np.array([getattr(each, end) for each in features], np.float32) for end in ("low", "high"))
        self._frames: deque[Vector] = deque(maxlen=history)
        self.space = spaces.Box(np.tile(self._low, history), np.tile(self._high, history), dtype=np.float32)
        self.spaces, self.names_of = (self.space,) * len(scene.hosts), (self.names,) * len(scene.hosts)

    def observe(self, frame: Frame) -> Sequence[Vector]:
        """Returns the observations as [hosts, elements]."""
        now = np.stack([self._values(element, frame) for element in self._elements], axis=1).astype(np.float32)
        now = np.clip(now, self._low, self._high)
        if np.isnan(now).any():
            host, place = np.argwhere(np.isnan(now))[0].tolist()
            raise AgentError(f"agent.observe: {self.names[place]} of {self._scene.hosts[host]} is not a number; mend the feature")
        if frame.step == 0 or not self._frames:
            self._frames.extend([now] * (self._frames.maxlen or 1))
        else:
            self._frames.append(now)
        seen: Sequence[Vector] = np.concatenate(self._frames, axis=1)  # type: ignore[assignment]
        return seen

    def _values(self, element: Element, frame: Frame) -> Floats:
        part, scene = element.part, self._scene
        values = values_of(part.feature, frame, scene)
        if part.feature.kind == "host":
            return values
        if not element.on_path:
            return np.where(np.isin(scene.host_row, part.rows), values[scene.host_row], 0.0)
        return _largest_on_paths(values, part.rows, frame, scene)


class PortObserver:
    """Makes the observations of all switches, or of all ports, from frames, in order. A frame of step 0 restarts the history.

    A port's observation has one value for each item of agent.observe, 0 where the item is not of this port. A switch's is that of
    its ports where it sets something, one after the other.
    """

    def __init__(self, agents: tuple[AgentRows, ...], scene: Scene, observe: str, history: int, who: str) -> None:
        self._scene, self._history = scene, history
        rows = np.unique(np.concatenate([each.rows for each in agents]))
        self._parts = tuple(
            part for part in parse(observe, scene) if part.feature.kind == "port" and np.isin(part.rows, rows).any()
        )
        if not self._parts:
            raise AgentError(
                f'agent.observe: {observe!r} has no feature of the ports where "{who}" act; give one, such as backlog'
            )
        one = [part.feature.name for part in self._parts]
        if twice := [name for name in one if one.count(name) > 1]:
            raise AgentError(f"agent.observe: {observe!r} gives each port {twice[0]} twice; take one out")
        ages = range(history - 1, -1, -1)
        names, boxes = [], []
        low, high = (np.array([getattr(part.feature, end) for part in self._parts], np.float32) for end in ("low", "high"))
        self._low, self._high = low, high
        for each in agents:
            own = [f"port{number}/{name}" for number in range(1, len(each.rows) + 1) for name in one] if who == SWITCHES else one
            names.append(tuple(name + (f"@-{age}" if age else "") for age in ages for name in own))
            times = history * len(each.rows)
            boxes.append(spaces.Box(np.tile(low, times), np.tile(high, times), dtype=np.float32))
        self.spaces, self.names_of = tuple(boxes), tuple(names)
        self._rows = tuple(each.rows for each in agents)
        self._masks = np.stack([np.isin(np.arange(len(scene.ports)), part.rows) for part in self._parts], axis=1)
        self._frames: deque[Vector] = deque(maxlen=history)

    def observe(self, frame: Frame) -> Sequence[Vector]:
        """Returns the observation of each agent."""
        values = [values_of(part.feature, frame, self._scene) for part in self._parts]
        now = np.where(self._masks, np.stack(values, axis=1), 0).astype(np.float32)
        now = np.clip(now, self._low, self._high)
        if np.isnan(now).any():
            row, place = np.argwhere(np.isnan(now))[0].tolist()
            what = f"{self._parts[place].feature.name} of {self._scene.ports[row]}"
            raise AgentError(f"agent.observe: {what} is not a number; mend the feature")
        if frame.step == 0 or not self._frames:
            self._frames.extend([now] * self._history)
        else:
            self._frames.append(now)
        return [np.concatenate([each[rows].reshape(-1) for each in self._frames]) for rows in self._rows]


def _elements(observe: str, scene: Scene, see: str) -> tuple[Element, ...]:
    """Returns the elements for each item of agent.observe: the host's own value and, where the item covers switch ports, the
    path's value."""
    found: dict[str, Element] = {}
    for part in parse(observe, scene):
        own = part.feature.kind == "host" or not scene.is_switch[part.rows].all()
        on_path = see == "path" and part.feature.kind == "port" and bool(scene.is_switch[part.rows].any())
        for element in [Element(part, False)] * own + [Element(part, True)] * on_path:
            if element.name in found:
                raise AgentError(f"agent.observe: {observe!r} gives each host {element.name} twice; take one out")
            found[element.name] = element
    if not found:
        raise AgentError(
            f'agent.observe: {observe!r} has nothing of the hosts, and see is "own"; give see = "path", or other features'
        )
    return tuple(found.values())


def _largest_on_paths(values: Floats, rows: Rows, frame: Frame, scene: Scene) -> Floats:
    """Returns as [hosts] the largest value over those of `rows` that are switch ports crossed by the host's running flows."""
    info = frame.info
    hosts = info.host[info.switch_flows]
    counts = frame.under_way[info.switch_flows] & (hosts >= 0) & np.isin(info.switch_rows, rows)
    largest = np.full(len(scene.hosts), -np.inf)
    np.maximum.at(largest, hosts[counts], values[info.switch_rows[counts]])
    return np.where(np.isfinite(largest), largest, 0.0)
