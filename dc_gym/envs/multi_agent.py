# SPDX-License-Identifier: Apache-2.0
"""One agent a host: what each one sees, is rewarded and told, over the same lab as the central agent's environment.

The agents are the hosts of the scene, all of them from the first step of an episode to its last. PettingZoo's form is
`parallel.py`, RLlib's `dc_gym/rl/multi_agent.py`; both add nothing but the names that those libraries want.

What an agent sees is what its host could know: its own egress, its own flows, and, if `see` is "path", what the switches on their
paths would write into the packets, the largest value of each feature. Every agent sees as many numbers, with the same meanings,
so that one policy can serve all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.envs.env import Episode, as_spec
from dc_gym.envs.frame import WAITING, Bools, Floats, FlowInfo, Frame, Rows
from dc_gym.envs.observation import Part, Vector, parse, values_of
from dc_gym.envs.scene import Scene
from dc_gym.envs.session import Session
from dc_gym.envs.totals import metrics
from dc_gym.envs.words import unknown
from dc_gym.errors import AgentError
from dc_gym.spec import Spec

SEE = ("own", "path")
REWARDS = ("shared", "own")
NETWORK = "network"
"""Where an agent's info holds that of the whole network."""
SUMS = ("switch_queue_bytes_mean", "host_queue_bytes_mean")
"""What of a step's metrics means nothing for one host."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What of a network is one host's: its egress, its flows, the ports that they cross, and the one that leads to it."""

    scene: Scene
    info: FlowInfo
    ports: Bools
    """[rows]"""
    flows: Bools
    """[flows]"""
    place: int
    """Among the hosts that act."""

    @classmethod
    def of(cls, scene: Scene, info: FlowInfo, place: int) -> View:
        row = scene.host_row[place]
        flows = info.host == place
        ports = np.zeros(len(scene.ports), bool)
        ports[[row, scene.peer_row[row]]] = True
        ports[info.switch_rows[flows[info.switch_flows]]] = True
        here = slice(place, place + 1)
        own = replace(
            scene,
            hosts=scene.hosts[here],
            host_row=scene.host_row[here],
            senders=scene.senders[here],
            floor_bps=scene.floor_bps[here],
        )
        return cls(own, replace(info, host_row=own.host_row), ports, flows, place)

    def frame(self, frame: Frame) -> Frame:
        """The same step of a network in which nobody else sends: other ports are empty, other flows wait."""
        cells, before = (np.where(self.ports[:, None], each, np.uint64(0)) for each in (frame.cells, frame.before))
        here = slice(self.place, self.place + 1)
        return replace(
            frame,
            cells=cells,
            before=before,
            flows=self._flows(frame.flows),
            flows_before=self._flows(frame.flows_before),
            wanted_bps=frame.wanted_bps[here],
            in_force_bps=frame.in_force_bps[here],
            enforced_bps=frame.enforced_bps[here],
            info=self.info,
        )

    def _flows(self, flows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        own = np.zeros_like(flows)
        own["status"], own["start_ns"], own["end_ns"] = WAITING, -1, -1
        own[self.flows] = flows[self.flows]
        return own


@dataclass(frozen=True, slots=True)
class Element:
    """One number of what every agent sees."""

    part: Part
    on_path: bool
    """The largest over the switch ports that the host's flows under way cross, 0 without any; else the host's own."""

    @property
    def name(self) -> str:
        return f"{'path' if self.on_path else 'own'}/{self.part.feature.name}"


class HostObserver:
    """Makes the observations of all hosts of frames, in order: a frame of step 0 starts the history anew."""

    def __init__(self, scene: Scene, observe: str, history: int, see: str) -> None:
        if see not in SEE:
            raise AgentError("see: " + unknown("value", see, SEE))
        self._scene = scene
        self._elements = _elements(observe, scene, see)
        one = [element.name for element in self._elements]
        ages = range(history - 1, -1, -1)
        self.names = tuple(name + (f"@-{age}" if age else "") for age in ages for name in one)
        """One an element of every agent's observation, such as own/backlog, path/marks@-1."""
        features = [element.part.feature for element in self._elements]
        self._low, self._high = (np.array([getattr(each, end) for each in features], np.float32) for end in ("low", "high"))
        self._frames: deque[Vector] = deque(maxlen=history)
        self.space = spaces.Box(np.tile(self._low, history), np.tile(self._high, history), dtype=np.float32)

    def observe(self, frame: Frame) -> Vector:
        """[hosts, elements]."""
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
    """Of each item of agent.observe: the host's own value, and where it is of switch ports, too, that of the path."""
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
    """[hosts]: of those of `rows` that are switch ports crossed by the host's flows under way."""
    info = frame.info
    hosts = info.host[info.switch_flows]
    counts = frame.under_way[info.switch_flows] & (hosts >= 0) & np.isin(info.switch_rows, rows)
    largest = np.full(len(scene.hosts), -np.inf)
    np.maximum.at(largest, hosts[counts], values[info.switch_rows[counts]])
    return np.where(np.isfinite(largest), largest, 0.0)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one step gave, by agent."""

    observations: dict[str, Vector]
    rewards: dict[str, float]
    terminated: bool
    """Of all agents at once."""
    truncated: bool
    infos: dict[str, dict[str, Any]]


class Hosts:
    """The agents of one lab."""

    def __init__(
        self,
        spec: Spec | str | Path | Mapping[str, Any],
        overrides: Iterable[str] = (),
        *,
        see: str = "path",
        reward: str = "shared",
        folder: str | Path | None = None,
    ) -> None:
        """`see`: "own" or "path" (above); `reward`: "shared", that of the network for all, or "own", that of each View."""
        if reward not in REWARDS:
            raise AgentError("reward: " + unknown("value", reward, REWARDS))
        self.session = Session(as_spec(spec, overrides), None if folder is None else Path(folder))
        self.episode = Episode(self.session.experiment.spec, self.session.scene)
        agent, scene = self.session.experiment.spec.agent, self.session.scene
        self.observer = HostObserver(scene, agent.observe, agent.history, see)
        self.names = scene.hosts
        self._own = reward == "own"
        self._views: tuple[View, ...] = ()

    @property
    def under_way(self) -> bool:
        """There is an episode to step."""
        frame = self.episode.frame
        return frame is not None and frame.step < self.session.steps

    def action_space(self) -> spaces.Box:
        """Of one agent."""
        bound = self.episode.action.head.bound
        return spaces.Box(-bound, bound, (1,), dtype=np.float32)

    def begin(self, seed: int, *, fresh: bool = False) -> Turn:
        """The first observations of an episode; rewards are 0."""
        frame = self.session.begin(seed, fresh=fresh)
        self._views = tuple(View.of(self.session.scene, frame.info, place) for place in range(len(self.names)))
        _, network = self.episode.begin(frame, seed)
        return self._turn(frame, 0.0, False, False, network)

    def step(self, actions: Mapping[str, npt.ArrayLike]) -> Turn:
        """Enforces an action of each agent for an interval."""
        if not self.under_way:
            raise AgentError("step: there is no episode under way; reset first")
        if odd := set(actions) ^ set(self.names):
            name = min(odd)
            what = f"{name} has none" if name in self.names else f"{name!r} is no agent"
            raise AgentError(f"step: {what}; give one action for each of {', '.join(self.names)}")
        action = [np.asarray(actions[name], np.float64).reshape(-1) for name in self.names]
        if wrong := [name for name, value in zip(self.names, action, strict=True) if value.shape != (1,)]:
            raise AgentError(f"step: the action of {wrong[0]} has shape {np.shape(actions[wrong[0]])}; give one number")
        frame = self.session.step(self.episode.action.to_rates(np.concatenate(action)))
        _, reward, terminated, truncated, network = self.episode.advance(frame)
        return self._turn(frame, reward, terminated, truncated, network)

    def close(self) -> None:
        self.session.close()
        self.episode.frame = None

    def _turn(self, frame: Frame, reward: float, terminated: bool, truncated: bool, network: dict[str, Any]) -> Turn:
        rewards, infos = dict.fromkeys(self.names, reward), {}
        for name, view in zip(self.names, self._views, strict=True):
            own = view.frame(frame)
            found = metrics(own, view.scene)
            infos[name] = {key: value for key, value in found.items() if key not in SUMS} | {NETWORK: network}
            if self._own and frame.step:
                rewards[name] = float(self.episode.mix(own, view.scene, view.scene.share(own.in_force_bps)))
        seen = self.observer.observe(frame)
        return Turn(dict(zip(self.names, seen, strict=True)), rewards, terminated, truncated, infos)
