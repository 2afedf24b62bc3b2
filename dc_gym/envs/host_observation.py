# SPDX-License-Identifier: Apache-2.0
"""The observations of single hosts.

They are used when every host is an agent (multi_agent.py), or when one policy serves all hosts (policies.py). A host observes
what it could know itself: its own egress and its own flows. If `see` is "path", it also observes what the switches on its flows'
paths would write into the packets: the largest value of each feature. Every host observes the same number of values, with the
same meanings.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.envs.frame import Floats, Frame, Rows
from dc_gym.envs.observation import Part, Vector, parse, values_of
from dc_gym.envs.scene import Scene

SEE = ("own", "path")


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

    def observe(self, frame: Frame) -> Vector:
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
        return np.concatenate(self._frames, axis=1)

    def _values(self, element: Element, frame: Frame) -> Floats:
        part, scene = element.part, self._scene
        values = values_of(part.feature, frame, scene)
        if part.feature.kind == "host":
            return values
        if not element.on_path:
            return np.where(np.isin(scene.host_row, part.rows), values[scene.host_row], 0.0)
        return _largest_on_paths(values, part.rows, frame, scene)


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
