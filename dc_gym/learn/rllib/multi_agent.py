# SPDX-License-Identifier: Apache-2.0
"""The RLlib environment with many agents: each host, switch or port (dc_gym/learn/multi_agent.py).

Use it with `.environment(DataCenterMultiAgentEnv, env_config={"spec": ...})`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base.errors import AgentError, LabError, MachineError, UnfitError
from dc_gym.base.spelling import unknown
from dc_gym.learn.env import check_options
from dc_gym.learn.multi_agent import NETWORK, Agents, StepResults
from dc_gym.learn.rllib.levels import table_of
from dc_gym.learn.rllib.seeds import EpisodeSeeds
from dc_gym.run.agent.observation import Vector

try:
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
except ImportError as error:
    raise MachineError(f"dc_gym.learn.rllib.multi_agent: {error}; pip install 'dc-gym[rl]'") from None

ALL = "__all__"
STREAM, LEVELS = "stream", "levels"
KEYS = ("spec", "overrides", "agents", "see", "reward", "folder", "step_info")
"""The config's keys that are arguments of Agents. The other keys are STREAM and LEVELS."""


class DataCenterMultiAgentEnv(MultiAgentEnv):
    """One lab with many agents. All of them act from an episode's first step to its last.

    The config has the arguments of `Agents`: spec, overrides, agents, see, reward, folder, step_info. With `stream`, a list of
    numbers, episodes are drawn from these numbers and the seed that RLlib gives. Labs and runners then have different episodes,
    and a seed given again continues with the next episode. `levels`: discrete actions, this many from the lowest to the highest.

    The lab boots at the first reset. If it dies or hangs, its episode ends as truncated, with `lab_died` in the network's info,
    and the next reset boots another lab. A lab that dies in a reset is replaced at once, unless the reset reports that the
    episode before it was unfit: that error is raised.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        if odd := set(config) - {*KEYS, STREAM, LEVELS}:
            raise AgentError("env_config: " + unknown("key", min(odd), (*KEYS, STREAM, LEVELS)))
        if "spec" not in config:
            raise AgentError("env_config: spec is missing; give a Spec, the path of a spec file, or a dict of its keys")
        self.lab = Agents(**{key: value for key, value in config.items() if key in KEYS})
        names, boxes = self.lab.names, self.lab.action_spaces
        levels = config.get(LEVELS, 0)
        self._tables = {name: table_of(boxes[name], levels) for name in names} if levels else None
        self.possible_agents, self.agents = list(names), list(names)
        self.observation_spaces = dict(self.lab.observation_spaces)
        action_spaces: dict[str, spaces.Space[Any]] = {name: spaces.Discrete(levels) if levels else boxes[name] for name in names}
        self.action_spaces = action_spaces
        worker = getattr(config, "worker_index", 0)  # an attribute of RLlib's EnvContext
        self._series = EpisodeSeeds((*config[STREAM], worker)) if STREAM in config else None
        self._observed: dict[str, Vector] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, dict[str, Any]]]:
        fresh = check_options(options)
        if self._series is not None:
            drawn = self._series.take(seed, 1)
            seed = drawn[0] if drawn else None
        try:
            turn = self.lab.begin(seed, fresh=fresh)
        except UnfitError:
            raise
        except LabError:
            turn = self.lab.begin(self.lab.seed)
        self.agents, self._observed = list(self.possible_agents), turn.observations
        return turn.observations, turn.infos

    def step(
        self, action_dict: Mapping[str, npt.ArrayLike]
    ) -> tuple[dict[str, Vector], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        actions = action_dict
        if (tables := self._tables) is not None:
            actions = {name: tables[name][int(np.asarray(level).item())] for name, level in action_dict.items()}
        try:
            turn = self.lab.step(actions)
        except LabError as error:
            turn = self._died(error)
        self._observed = turn.observations
        ends = [dict.fromkeys([*self.agents, ALL], over) for over in (turn.terminated, turn.truncated)]
        return turn.observations, turn.rewards, ends[0], ends[1], turn.infos

    def _died(self, error: LabError) -> StepResults:
        """Returns the Turn of a dead lab, with its last observations."""
        info = {NETWORK: {"lab_died": str(error).splitlines()[0]}}
        return StepResults(self._observed, dict.fromkeys(self.agents, 0.0), False, True, dict.fromkeys(self.agents, info))

    def close(self) -> None:
        self.lab.close()
