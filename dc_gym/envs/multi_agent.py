# SPDX-License-Identifier: Apache-2.0
"""One agent for each host: their observations, rewards and infos, over the same lab as the central agent's environment.

The agents are the hosts of the scene. All of them act from the first step of an episode to its last. `parallel.py` has the
PettingZoo form, `dc_gym/rl/multi_agent.py` the RLlib form; both only add the names that those libraries need.

An agent observes what its host could know (host_observation.py). All agents observe the same number of values with the same
meanings, so that one policy can serve all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.envs.env import EpisodeTracker, Seeds, as_spec
from dc_gym.envs.frame import WAITING, Bools, FlowInfo, Frame
from dc_gym.envs.host_observation import HostObserver
from dc_gym.envs.observation import Vector
from dc_gym.envs.scene import Scene
from dc_gym.envs.session import Session
from dc_gym.envs.totals import metrics
from dc_gym.spec import Spec

REWARDS = ("shared", "own")
NETWORK = "network"
"""The key of an agent's info that holds the info of the whole network."""
SUMS = ("switch_queue_bytes_mean", "host_queue_bytes_mean")
"""Metrics that have no meaning for one host."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One host's view of a network: its egress, its flows, the ports that they cross, and the port that leads to it."""

    scene: Scene
    info: FlowInfo
    ports: Bools
    """[rows]"""
    flows: Bools
    """[flows]"""
    place: int
    """The host's index among the hosts that act."""

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
        """Returns the same step as if nobody else sent: other ports are empty, and other flows wait."""
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
class StepResults:
    """The results of one step, by agent."""

    observations: dict[str, Vector]
    rewards: dict[str, float]
    terminated: bool
    """Holds for all agents at once."""
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
        step_info: bool = True,
    ) -> None:
        """`see`: "own" or "path" (host_observation.py). `reward`: "shared" for the network's reward to all, or "own" for the
        reward of each host's View. `step_info`: False leaves infos empty except in steps that begin or end an episode."""
        if reward not in REWARDS:
            raise AgentError("reward: " + unknown("value", reward, REWARDS))
        self.session = Session(as_spec(spec, overrides), None if folder is None else Path(folder))
        self.episode = EpisodeTracker(self.session.experiment.spec, self.session.scene)
        agent, scene = self.session.experiment.spec.agent, self.session.scene
        self.observer = HostObserver(scene, agent.observe, agent.history, see)
        self.names = scene.hosts
        self._own, self._step_info = reward == "own", step_info
        self._seeds, self.seed = Seeds(), 0
        self._views: tuple[View, ...] = ()

    @property
    def under_way(self) -> bool:
        """True while an episode is under way."""
        frame = self.episode.frame
        return frame is not None and frame.step < self.session.steps

    def action_space(self) -> spaces.Box:
        """Returns the action space of one agent."""
        bound = self.episode.action.head.bound
        return spaces.Box(-bound, bound, (1,), dtype=np.float32)

    def begin(self, seed: int | None = None, *, fresh: bool = False) -> StepResults:
        """Begins an episode and returns its first observations; rewards are 0. Without a seed the episode has the next seed of
        the series."""
        self.seed = self._seeds.take(seed)
        frame = self.session.begin(self.seed, fresh=fresh)
        self._views = tuple(View.of(self.session.scene, frame.info, place) for place in range(len(self.names)))
        _, network = self.episode.begin(frame, self.seed)
        return self._turn(frame, 0.0, False, False, network)

    def step(self, actions: Mapping[str, npt.ArrayLike]) -> StepResults:
        """Enforces the agents' actions, one of each, for an interval."""
        if not self.under_way:
            raise AgentError("step: there is no episode under way; reset first")
        if odd := set(actions) ^ set(self.names):
            name = min(odd)
            what = f"{name} has none" if name in self.names else f"{name!r} is not an agent"
            raise AgentError(f"step: {what}; give one action for each of {', '.join(self.names)}")
        action = [np.asarray(actions[name], np.float64).reshape(-1) for name in self.names]
        if wrong := [name for name, value in zip(self.names, action, strict=True) if value.shape != (1,)]:
            raise AgentError(f"step: the action of {wrong[0]} has shape {np.shape(actions[wrong[0]])}; give one number")
        frame = self.session.step(self.episode.action.to_values(np.concatenate(action)))
        _, reward, terminated, truncated, network = self.episode.advance(frame)
        return self._turn(frame, reward, terminated, truncated, network)

    def close(self) -> None:
        self.session.close()
        self.episode.frame = None

    def _turn(self, frame: Frame, reward: float, terminated: bool, truncated: bool, network: dict[str, Any]) -> StepResults:
        told = self._step_info or not frame.step or terminated or truncated
        rewards, infos = dict.fromkeys(self.names, reward), {name: dict[str, Any]() for name in self.names}
        for name, view in zip(self.names, self._views, strict=True):
            if not (told or self._own):
                break
            own = view.frame(frame)
            if told:
                found = metrics(own, view.scene)
                infos[name] = {key: value for key, value in found.items() if key not in SUMS} | {NETWORK: network}
            if self._own and frame.step:
                rewards[name] = float(self.episode.mix(own, view.scene, view.scene.share(own.in_force_bps)))
        seen = self.observer.observe(frame)
        return StepResults(dict(zip(self.names, seen, strict=True)), rewards, terminated, truncated, infos)
