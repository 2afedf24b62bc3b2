# SPDX-License-Identifier: Apache-2.0
"""Many agents over one lab: each host, switch, port or flow. Their observations, rewards and infos.

All agents act from the first step of an episode to its last. `parallel.py` has the PettingZoo form, `rllib/multi_agent.py` the
RLlib form; both only add the names that those libraries need.

An agent observes only values within its reach (agent_observation.py). Hosts, and ports, observe equally many values with the same
meanings, so that one policy can serve all. Switches do so where they have equally many ports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.learn.env import Seeds, as_spec
from dc_gym.learn.gymnasium_parts import Copied
from dc_gym.learn.session import Session
from dc_gym.learn.turn import Turn, in_turn
from dc_gym.run.agent.agent_observation import observer_of
from dc_gym.run.agent.agents import CENTRAL, HOSTS, divide
from dc_gym.run.agent.channel import ObservationChannels
from dc_gym.run.agent.episode import EpisodeTracker
from dc_gym.run.agent.frame import FlowInfo, Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.totals import metrics
from dc_gym.run.agent.view import View
from dc_gym.spec import Spec

REWARDS = ("shared", "own")
NETWORK = "network"
"""The key of an agent's info that holds the info of the whole network."""
SUMS = ("switch_queue_bytes_mean", "host_queue_bytes_mean")
"""Metrics that have no meaning for one agent."""


@dataclass(frozen=True, slots=True)
class StepResults:
    """The results of one step, by agent."""

    observations: dict[str, Vector]
    rewards: dict[str, float]
    terminated: bool
    """Holds for all agents at once."""
    truncated: bool
    infos: dict[str, dict[str, Any]]


class Agents(Copied):
    """The agents of one lab."""

    worked_out = ("session", "episode", "agents", "observer", "turn", "_views", "_channels")

    def __init__(
        self,
        spec: Spec | str | Path | Mapping[str, Any],
        overrides: Iterable[str] = (),
        *,
        agents: str | None = None,
        see: str | None = None,
        reward: str | None = None,
        folder: str | Path | None = None,
        step_info: bool = True,
    ) -> None:
        """Makes the agents of a network, which boots at the first episode.

        Args:
            spec: A spec file, a Spec, or a dict of its keys.
            overrides: Texts "key=value" that replace keys.
            agents: "hosts", "switches", "ports" or "flows"; None: agent.agents of the spec, or hosts if that is central.
            see: "own" or "path" (agent_observation.py); None: agent.see.
            reward: "shared" for the network's reward to all, or "own" for each agent's View; None: agent.reward_scope.
            folder: The parent of the network's own folder; None: the system's folder for temporary files.
            step_info: False leaves infos empty except in steps that begin or end an episode.
        """
        self.turn = Turn()
        full_spec = as_spec(spec, overrides)
        agent = full_spec.agent
        reward = reward or agent.reward_scope or REWARDS[0]
        if reward not in REWARDS:
            raise AgentError("reward: " + unknown("value", reward, REWARDS))
        self.who = agents or (agent.agents if agent.agents not in (None, CENTRAL) else HOSTS)
        self._see, self._own, self._step_info = see or agent.see, reward == "own", step_info
        self._folder = None if folder is None else Path(folder)
        self._work_out([full_spec])
        self.names = tuple(member.name for member in self.agents)
        self.observation_spaces = dict(zip(self.names, self.observer.spaces, strict=True))
        low, high = self.episode.action.space.low, self.episode.action.space.high
        self.action_spaces = {
            member.name: spaces.Box(low[member.values], high[member.values], dtype=np.float32) for member in self.agents
        }
        self._seeds, self.seed = Seeds(full_spec.episodes), 0

    def _work_out(self, specs: Sequence[Spec]) -> None:
        self.session = Session(specs[0], self._folder)
        spec, scene = self.session.experiment.spec, self.session.scene
        self.episode, self.agents = EpisodeTracker(spec, scene), divide(scene, self.who)
        self.observer = observer_of(self.agents, scene, spec.agent.observe, spec.agent.history, self.who, self._see)
        self._views: tuple[View, ...] = ()
        self._channels = ObservationChannels(spec.agent, spec.seed, [member.name for member in self.agents])

    def _sessions(self) -> Sequence[Session]:
        return (self.session,)

    @property
    def under_way(self) -> bool:
        """True while an episode is under way."""
        frame = self.episode.frame
        return frame is not None and frame.step < self.session.steps

    @in_turn
    def begin(self, seed: int | None = None, *, fresh: bool = False) -> StepResults:
        """Begins an episode and returns its first observations; rewards are 0.

        Args:
            seed: The seed of the episode; None: the next of the series.
            fresh: Boots a new network.
        """
        self.seed = self._seeds.take(seed)
        frame = self.session.begin(self.seed, fresh=fresh)
        self._check_senders(frame.info)
        self._channels = ObservationChannels(self.session.experiment.spec.episode(self.seed).agent, self.seed, self.names)
        self._views = tuple(View.of(self.session.scene, frame.info, agent.rows, agent.flow) for agent in self.agents)
        _, network = self.episode.begin(frame, self.seed)
        return self._turn(frame, 0.0, False, False, network)

    def _check_senders(self, info: FlowInfo) -> None:
        """Raises AgentError if a host would set a flow of another host in this episode."""
        known = self.session.scene.flow_row[: len(info)]
        if self.who == HOSTS and len(known) and (other := np.flatnonzero(known != info.first_row[: len(known)])).size:
            port = self.session.scene.ports[info.first_row[other[0]]]
            problem = f"flow{other[0]} leaves by {port} with seed {self.seed}, and by another port with the spec's"
            raise AgentError(
                f'agent.agents = "hosts": {problem}; give "flows", or a workload with the same senders for all seeds'
            )

    @in_turn
    def step(self, actions: Mapping[str, npt.ArrayLike]) -> StepResults:
        """Enforces the agents' actions, one of each, for an interval."""
        if not self.under_way:
            raise AgentError("step: there is no episode under way; reset first")
        if odd := set(actions) ^ set(self.names):
            name = min(odd)
            mistake = f"{name} has none" if name in self.names else f"{name!r} is not an agent"
            raise AgentError(f"step: {mistake}; give one action for each of {', '.join(self.names)}")
        flat = np.empty(self.episode.action.space.shape)
        for agent in self.agents:
            values = np.asarray(actions[agent.name], np.float64).reshape(-1)
            if values.shape != agent.values.shape:
                shape, expected = np.shape(actions[agent.name]), _numbers(len(agent.values))
                raise AgentError(f"step: the action of {agent.name} has shape {shape}; give {expected}")
            flat[agent.values] = values
        frame = self.session.step(self.episode.action.to_values(flat))
        _, reward, terminated, truncated, network = self.episode.advance(frame)
        return self._turn(frame, reward, terminated, truncated, network)

    @in_turn
    def close(self) -> None:
        """Ends the network. May be called twice."""
        self.session.close()
        self.episode.frame = None

    def _turn(self, frame: Frame, reward: float, terminated: bool, truncated: bool, network: dict[str, Any]) -> StepResults:
        has_infos = self._step_info or not frame.step or terminated or truncated
        rewards, infos = dict.fromkeys(self.names, reward), {name: dict[str, Any]() for name in self.names}
        for name, view in zip(self.names, self._views, strict=True):
            if not (has_infos or self._own):
                break
            own_frame = view.frame(frame)
            if has_infos:
                measures = metrics(own_frame, view.scene)
                infos[name] = {key: value for key, value in measures.items() if key not in SUMS} | {NETWORK: network}
            if self._own and frame.step:
                rewards[name] = float(self.episode.mix(own_frame, view.scene, view.scene.share(own_frame.in_force_bps)))
        observations = self._channels.deliver(self.observer.observe(frame))
        return StepResults(dict(zip(self.names, observations, strict=True)), rewards, terminated, truncated, infos)


def _numbers(count: int) -> str:
    return "one number" if count == 1 else f"{count} numbers"
