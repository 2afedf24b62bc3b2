# SPDX-License-Identifier: Apache-2.0
"""The PettingZoo environment with many agents: each host, switch, port or flow (multi_agent.py).

Importing it needs the extra `multi`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base.errors import MachineError
from dc_gym.learn.env import FRESH
from dc_gym.learn.gymnasium_parts import RENDERING, Pictures
from dc_gym.learn.multi_agent import NETWORK, Agents, StepResults
from dc_gym.run.agent.observation import Vector
from dc_gym.spec import Spec

try:
    from pettingzoo import ParallelEnv
except ImportError:
    raise MachineError("dc_gym.learn.parallel: pettingzoo is missing; pip install 'dc-gym[multi]'") from None

Actions = npt.NDArray[np.floating[Any]]


class DataCenterParallelEnv(ParallelEnv[str, Vector, Actions]):
    """One lab with many agents. All of them act from an episode's first step to its last.

    Observation: a flat float32 Box; `observation_names` names its elements. Action: a Box with one number for each value that the
    agent sets, which agent.action maps to the value, such as the rate of a host. terminated: every flow of the network has ended.
    truncated: time.duration is over. Both hold for all agents at once. info: the measurements where the agent acts, and under
    "network" the info of DataCenterEnv.
    """

    metadata: dict[str, Any] = RENDERING | {"name": "dcgym_agents_v0"}

    def __init__(
        self,
        spec: Spec | str | Path | Mapping[str, Any],
        overrides: Iterable[str] = (),
        *,
        agents: str | None = None,
        see: str | None = None,
        reward: str | None = None,
        folder: str | Path | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Makes the environment; the network boots at the first reset.

        Args:
            spec: A spec file, a Spec, or a dict of its keys.
            overrides: Texts "key=value" that replace keys.
            agents: "hosts", "switches", "ports" or "flows".
            see: "own" or "path".
            reward: "shared" or "own" (multi_agent.py).
            folder: As in DataCenterEnv.
            render_mode: As in DataCenterEnv.
        """
        self.render_mode = render_mode
        self.lab = Agents(spec, overrides, agents=agents, see=see, reward=reward, folder=folder)
        self.pictures = Pictures(render_mode, 1, self.lab.session.experiment.spec.agent.interval_ns / 1e9)
        self.possible_agents = list(self.lab.names)
        self.agents: list[str] = []
        self.observation_spaces, self.action_spaces = self.lab.observation_spaces, self.lab.action_spaces

    def observation_space(self, agent: str) -> spaces.Box:
        """Returns the agent's observation space."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Box:
        """Returns the agent's action space."""
        return self.action_spaces[agent]

    @property
    def observation_names(self) -> dict[str, tuple[str, ...]]:
        """For each agent, one name for each element of its observation, such as own/backlog."""
        return dict(zip(self.lab.names, self.lab.observer.names_of, strict=True))

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, dict[str, Any]]]:
        """Begins an episode; the network stays.

        Args:
            seed: The seed of the episode's traffic, which starts a series; None: the next of the series.
            options: {"fresh": True} boots a new network.

        Returns:
            Observations and infos, by agent.
        """
        fresh = bool((options or {}).get(FRESH))  # unknown options are ignored: PettingZoo's own test passes some
        turn = self.lab.begin(seed, fresh=fresh)
        self.agents = list(self.possible_agents)
        self._picture(turn, self.pictures.begin)
        return turn.observations, turn.infos

    def step(
        self, actions: Mapping[str, Actions]
    ) -> tuple[dict[str, Vector], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Applies an action of each agent and lets agent.interval pass.

        Args:
            actions: An action for each agent, by name.

        Returns:
            Observations, rewards, terminations, truncations and infos, by agent.
        """
        if not self.agents and not actions and self.lab.episode.frame is not None:
            return {}, {}, {}, {}, {}  # the episode is over, and no agent is left
        turn: StepResults = self.lab.step(actions)
        self._picture(turn, partial(self.pictures.add, reward=float(np.mean([*turn.rewards.values()]))))
        terminated, truncated = (dict.fromkeys(self.agents, over) for over in (turn.terminated, turn.truncated))
        if turn.terminated or turn.truncated:
            self.agents = []
        return turn.observations, turn.rewards, terminated, truncated, turn.infos

    def render(self) -> npt.NDArray[np.uint8]:
        """Returns the picture of the network's last second, [height, width, 3]. Its reward is the mean of the agents'."""
        return self.pictures.pixels()[0]

    def _picture(self, turn: StepResults, show: Callable[..., None]) -> None:
        if self.render_mode:
            show(lab=0, info=turn.infos[self.possible_agents[0]][NETWORK])

    def close(self) -> None:
        """Ends the network. May be called twice."""
        self.lab.close()
        self.agents = []
