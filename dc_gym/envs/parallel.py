# SPDX-License-Identifier: Apache-2.0
"""The PettingZoo environment with one agent for each host (multi_agent.py). Importing it needs the extra `multi`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base.errors import AgentError, MachineError
from dc_gym.envs.env import FRESH
from dc_gym.envs.multi_agent import Hosts, StepResults
from dc_gym.envs.observation import Vector
from dc_gym.spec import Spec

try:
    from pettingzoo import ParallelEnv
except ImportError:
    raise MachineError("dc_gym.envs.parallel: pettingzoo is missing; pip install 'dc-gym[multi]'") from None

Actions = npt.NDArray[np.floating[Any]]


class HostsParallelEnv(ParallelEnv[str, Vector, Actions]):
    """One lab with one agent for each host. All agents act from an episode's first step to its last.

    Observation: a flat float32 Box of the same size for each agent; `observation_names` names its elements. Action: a Box of one
    number, which agent.action maps to the rate of that host. terminated: every flow of the network has ended. truncated:
    time.duration is over. Both hold for all agents at once. info: what was measured of the host, and under "network" the info of
    DataCenterEnv.
    """

    metadata: dict[str, Any] = {"name": "dcgym_hosts_v0", "render_modes": []}

    def __init__(
        self,
        spec: Spec | str | Path | Mapping[str, Any],
        overrides: Iterable[str] = (),
        *,
        see: str = "path",
        reward: str = "shared",
        folder: str | Path | None = None,
        render_mode: str | None = None,
    ) -> None:
        """`see`: "own" or "path"; `reward`: "shared" or "own" (multi_agent.py). The other arguments are those of
        DataCenterEnv."""
        if render_mode is not None:
            raise AgentError(f"render_mode: {render_mode!r} is not supported; leave it out (`dcgym watch` shows a running lab)")
        self.render_mode = None
        self.hosts = Hosts(spec, overrides, see=see, reward=reward, folder=folder)
        self.possible_agents = list(self.hosts.names)
        self.agents: list[str] = []
        self.observation_spaces = dict.fromkeys(self.possible_agents, self.hosts.observer.space)
        self.action_spaces: dict[str, spaces.Box] = {name: self.hosts.action_space() for name in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Box:
        return self.action_spaces[agent]

    @property
    def observation_names(self) -> tuple[str, ...]:
        """One name for each element of every agent's observation, such as own/backlog."""
        return self.hosts.observer.names

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, dict[str, Any]]]:
        fresh = bool((options or {}).get(FRESH))  # unknown options are ignored: PettingZoo's own test passes some
        turn = self.hosts.begin(seed, fresh=fresh)
        self.agents = list(self.possible_agents)
        return turn.observations, turn.infos

    def step(
        self, actions: Mapping[str, Actions]
    ) -> tuple[dict[str, Vector], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        if not self.agents and not actions and self.hosts.episode.frame is not None:
            return {}, {}, {}, {}, {}  # the episode is over, and no agent is left
        turn: StepResults = self.hosts.step(actions)
        terminated, truncated = (dict.fromkeys(self.agents, over) for over in (turn.terminated, turn.truncated))
        if turn.terminated or turn.truncated:
            self.agents = []
        return turn.observations, turn.rewards, terminated, truncated, turn.infos

    def close(self) -> None:
        self.hosts.close()
        self.agents = []
