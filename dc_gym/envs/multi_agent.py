# SPDX-License-Identifier: Apache-2.0
"""One agent a host, as a PettingZoo ParallelEnv (extra `rl`). RLlib's form is dc_gym/rl/multi_agent.py.

    env = HostsEnv("dumbbell.toml", ["agent.reward=goodput - queueing_delay"])
    observations, infos = env.reset(seed=1)

It is DataCenterEnv with its observation cut up and its action put together (views.py): the same lab, the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gymnasium import spaces

from dc_gym.envs.env import FRESH, DataCenterEnv
from dc_gym.envs.observation import Vector
from dc_gym.envs.views import HostViews
from dc_gym.spec import Spec

try:
    from pettingzoo import ParallelEnv
except ImportError:
    raise ImportError("dc_gym.envs.multi_agent needs PettingZoo; install the extra `rl` of dc-gym") from None

Answer = tuple[dict[str, Vector], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class HostsEnv(ParallelEnv):
    """The hosts of one lab, each an agent. All get the reward of the whole; an episode ends for all at once.

    Observation: Box, float32, the same for all agents (`view`, and `names` says what each element is). Action: Box of one number,
    which agent.action maps to the host's rate. Info: that of DataCenterEnv, the same for all. `state`: the central observation.
    """

    metadata: dict[str, Any] = {"name": "dcgym_hosts_v0", "render_modes": []}

    def __init__(
        self,
        spec: Spec | str | Path | Mapping[str, Any],
        overrides: Iterable[str] = (),
        *,
        view: str = "local",
        folder: str | Path | None = None,
    ) -> None:
        self._env = DataCenterEnv(spec, overrides, folder=folder)
        self.views = HostViews(self._env.episode.observer, self._env.episode.action, view)
        self.possible_agents = list(self.views.agents)
        self.agents: list[str] = []
        self.render_mode = None
        self._spaces = self.views.observation_space, self.views.action_space
        self._state: Vector = self._env.episode.observer.space.low

    def observation_space(self, agent: str) -> spaces.Box:
        return self._spaces[0]

    def action_space(self, agent: str) -> spaces.Box:
        return self._spaces[1]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, dict[str, Any]]]:
        """As of DataCenterEnv; PettingZoo has environments leave options that they do not know alone."""
        known = {name: value for name, value in (options or {}).items() if name == FRESH}
        self._state, info = self._env.reset(seed=seed, options=known)
        self.agents = list(self.possible_agents)
        return self.views.split(self._state), dict.fromkeys(self.agents, info)

    def step(self, actions: Mapping[str, Any]) -> Answer:
        if not self.agents:  # the episode is over, and nobody is left to answer
            return {}, {}, {}, {}, {}
        self._state, reward, terminated, truncated, info = self._env.step(self.views.join(actions))
        agents = self.possible_agents
        self.agents = [] if terminated or truncated else list(agents)
        each = dict.fromkeys
        return (
            self.views.split(self._state),
            each(agents, reward),
            each(agents, terminated),
            each(agents, truncated),
            each(agents, info),
        )

    def state(self) -> Vector:
        return self._state

    def close(self) -> None:
        self._env.close()
