# SPDX-License-Identifier: Apache-2.0
"""One agent a host, as RLlib's MultiAgentEnv: dc_gym.envs.multi_agent without a lab that starts when RLlib looks at the spaces.

config.environment(HostsMultiAgentEnv, env_config={"spec": "dumbbell.toml"})
config.multi_agent(policies={"host"}, policy_mapping_fn=lambda agent, episode, **_: "host")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from dc_gym.envs.env import DataCenterEnv
from dc_gym.envs.observation import Vector
from dc_gym.envs.views import HostViews

ALL, COMMON = "__all__", "__common__"
"""What RLlib calls the end of the episode, and the info that is nobody's own."""


class HostsMultiAgentEnv(MultiAgentEnv):
    """The hosts of one lab, each an agent, with the reward of the whole. `config`: spec, overrides, view, folder."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self._env = DataCenterEnv(config["spec"], config.get("overrides", ()), folder=config.get("folder"))
        self.views = HostViews(self._env.episode.observer, self._env.episode.action, config.get("view", "local"))
        self.agents = self.possible_agents = list(self.views.agents)
        self.observation_spaces = dict.fromkeys(self.agents, self.views.observation_space)
        self.action_spaces = dict.fromkeys(self.agents, self.views.action_space)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, Any]]:
        observation, info = self._env.reset(seed=seed, options=options)
        return self.views.split(observation), {COMMON: info}

    def step(self, action_dict: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        observation, reward, terminated, truncated, info = self._env.step(self.views.join(action_dict))
        rewards = dict.fromkeys(self.agents, reward)
        ends = ({**dict.fromkeys(self.agents, end), ALL: end} for end in (terminated, truncated))
        return self.views.split(observation), rewards, *ends, {COMMON: info}

    def close(self) -> None:
        self._env.close()
