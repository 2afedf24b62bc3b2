# SPDX-License-Identifier: Apache-2.0
"""The policies of a run's agents: one for a central agent, or one for each host, switch, port or flow
(agent.agents).

Each step is one call of `observe` and, unless the episode is over, one of `act`. A policy that learns during the run receives in
`observe` the results of its last action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.run.agent import policies
from dc_gym.run.agent.action import Action
from dc_gym.run.agent.agent_observation import AgentObserver, observer_of
from dc_gym.run.agent.agents import CENTRAL, AgentRows, divide
from dc_gym.run.agent.channel import ObservationChannels
from dc_gym.run.agent.file_policy import FilePolicy
from dc_gym.run.agent.frame import Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import Policy, PolicyContext
from dc_gym.run.agent.policy_selection import PolicyForm, policy_of
from dc_gym.run.agent.reward import WeightedReward
from dc_gym.run.agent.view import View
from dc_gym.spec import AgentSpec
from dc_gym.topologies.ecmp import draw

OWN = "own"


class Actors:
    """The policies of all agents of one network."""

    def __init__(self, policy: PolicyForm, context: PolicyContext, agent: AgentSpec) -> None:
        """`context` is a central agent's. `policy` takes the forms of controller.policy."""
        agent_kind = agent.agents or CENTRAL
        self._scene, self._action_shape = context.scene, context.action.space.shape
        self._agents: tuple[AgentRows, ...] = ()
        self._observer: AgentObserver | None = None
        self._views: tuple[View, ...] = ()
        self._mix = WeightedReward.of(agent.reward) if agent.reward_scope == OWN else None
        self._seen: Sequence[Vector] = ()
        self._channels = ObservationChannels(agent, context.seed, ())
        context = replace(context, agents=agent_kind, observation=context.observer.names)
        if agent_kind == CENTRAL or str(policy).endswith(policies.SUFFIX):  # a policy file itself names its agents
            self.policies: tuple[Policy, ...] = (policy_of(policy, context),)
            if self.file is not None:
                self.file.open(agent, context.seed)
            return
        self._agents = divide(context.scene, agent_kind)
        self._observer = observer_of(self._agents, context.scene, agent.observe, agent.history, agent_kind, agent.see)
        self._channels = ObservationChannels(agent, context.seed, [member.name for member in self._agents])
        named_agents = zip(self._agents, self._observer.names_of, strict=True)
        self.policies = tuple(policy_of(policy, _own_context(context, agent_rows, names)) for agent_rows, names in named_agents)

    def observe(self, frame: Frame, observation: Vector, reward: float) -> None:
        """Takes a step's frame, observation and reward of the whole network."""
        rewards: Sequence[float] = [reward] * len(self.policies)
        self._seen = [observation]
        if self._observer is not None:
            self._seen = self._channels.deliver(self._observer.observe(frame))
            if self._mix is not None:
                rewards = self._own_rewards(frame, self._mix)
        if frame.step:
            for policy, agent_observation, agent_reward in zip(self.policies, self._seen, rewards, strict=True):
                if (policy_observe := getattr(policy, "observe", None)) is not None:
                    policy_observe(agent_reward, agent_observation)

    def act(self, frame: Frame) -> npt.NDArray[np.floating]:
        """Returns the action of all agents for the frame observed last, in the action space of the whole network."""
        if not self._agents:
            return self.policies[0].act(self._seen[0], frame)
        action = np.empty(self._action_shape)
        for agent, policy, observation in zip(self._agents, self.policies, self._seen, strict=True):
            action[agent.values] = policies.checked_action(policy.act(observation, frame), agent.name, len(agent.values))
        return action

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the states of the policies, as arrays by name. Of many agents, a name begins with the agent's name."""
        prefixes = [f"{agent.name}." for agent in self._agents] or [""]
        states: dict[str, npt.NDArray[Any]] = {}
        for prefix, policy in zip(prefixes, self.policies, strict=True):
            if (state := getattr(policy, "state", None)) is not None:
                states |= {f"{prefix}{name}": array for name, array in policies.checked_state(state()).items()}
        return states

    @property
    def file(self) -> FilePolicy | None:
        """The policy, if it comes from a file."""
        first = self.policies[0]
        return first if isinstance(first, FilePolicy) else None

    def _own_rewards(self, frame: Frame, mix: WeightedReward) -> list[float]:
        if frame.step == 0:
            self._views = tuple(View.of(self._scene, frame.info, agent.rows, agent.flow) for agent in self._agents)
            return [0.0] * len(self._agents)
        rewards = []
        for view in self._views:
            agent_frame = view.frame(frame)
            rewards.append(float(mix(agent_frame, view.scene, view.scene.share(agent_frame.in_force_bps))))
        return rewards


def _own_context(context: PolicyContext, agent: AgentRows, names: tuple[str, ...]) -> PolicyContext:
    agent_scene, seed = agent.scene(context.scene), draw(context.seed, "agent", agent.name)
    action = Action(agent_scene, context.action.name)
    return replace(context, scene=agent_scene, action=action, seed=seed, name=agent.name, observation=names)
