# SPDX-License-Identifier: Apache-2.0
"""RLlib's form of one agent a host (dc_gym/envs/multi_agent.py): `.environment(HostsMultiAgentEnv, env_config={"spec": ...})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from gymnasium.utils import seeding

from dc_gym.envs.env import DRAWN_SEEDS, check_options
from dc_gym.envs.multi_agent import Hosts
from dc_gym.envs.observation import Vector
from dc_gym.errors import AgentError, MachineError

try:
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
except ImportError as error:
    raise MachineError(f"dc_gym.rl.multi_agent: {error}; pip install 'dc-gym[rl]'") from None

ALL = "__all__"
KEYS = ("spec", "overrides", "see", "reward", "folder")
"""Of the config: the arguments of Hosts."""


class HostsMultiAgentEnv(MultiAgentEnv):
    """One lab, an agent a host, all of them from an episode's first step to its last; spaces are the same for each.

    The config has the arguments of `Hosts`: spec, overrides, see, reward, folder. The lab boots at the first reset.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        if odd := set(config) - set(KEYS):
            raise AgentError(f"env_config: key {min(odd)!r} is unknown; there are {', '.join(KEYS)}")
        if "spec" not in config:
            raise AgentError("env_config: spec is missing; give a Spec, the path of a spec file, or a dict of its keys")
        self.hosts = Hosts(**config)
        names = self.hosts.names
        self.possible_agents = list(names)
        self.agents = list(names)
        self.observation_spaces = dict.fromkeys(names, self.hosts.observer.space)
        self.action_spaces = {name: self.hosts.action_space() for name in names}
        self._rng = seeding.np_random(None)[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, dict[str, Any]]]:
        fresh = check_options(options)
        if seed is not None:
            self._rng = seeding.np_random(seed)[0]
        drawn = int(self._rng.integers(DRAWN_SEEDS)) if seed is None else seed
        turn = self.hosts.begin(drawn, fresh=fresh)
        self.agents = list(self.possible_agents)
        return turn.observations, turn.infos

    def step(
        self, action_dict: Mapping[str, npt.ArrayLike]
    ) -> tuple[dict[str, Vector], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        turn = self.hosts.step(action_dict)
        ends = [dict.fromkeys([*self.agents, ALL], over) for over in (turn.terminated, turn.truncated)]
        return turn.observations, turn.rewards, ends[0], ends[1], turn.infos

    def close(self) -> None:
        self.hosts.close()
