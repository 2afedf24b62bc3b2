# SPDX-License-Identifier: Apache-2.0
"""The toy of toy_link.py where each host is an agent, in place of a spec's environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import toy_link
from gymnasium import spaces
from ray import cloudpickle
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from dc_gym.learn.multi_agent import NETWORK
from dc_gym.learn.rllib.environment import STREAM, Task, register_environment
from dc_gym.learn.rllib.multi_agent import ALL
from dc_gym.learn.rllib.seeds import EpisodeSeeds
from dc_gym.learn.rllib.settings import TrainingSettings
from dc_gym.spec import Spec

HOSTS = ("h1", "h2")
BEGUN: list[int] = []
"""Seeds of all episodes of trainings in this process."""


class ToyHosts(MultiAgentEnv):
    """Each host sees queue, capacity and its own rate of the step before; its reward is that of the network."""

    def __init__(self, stream: Any = None, levels: int = 0) -> None:
        super().__init__()
        self.link, self.levels = toy_link.ToyLink(len(HOSTS)), levels
        self.possible_agents = self.agents = list(HOSTS)
        self.observation_spaces = dict.fromkeys(HOSTS, spaces.Box(-10.0, 10.0, (3,), np.float32))
        acting = spaces.Discrete(levels) if levels else spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_spaces = dict.fromkeys(HOSTS, acting)
        self.series = EpisodeSeeds(stream) if stream else None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        if self.series:
            drawn = self.series.take(seed, 1)
            seed = drawn[0] if drawn else None
            BEGUN.extend(drawn or ())
        observation, _ = self.link.reset(seed=seed)
        return self._each(observation), {name: {} for name in HOSTS}

    def step(self, actions: Mapping[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        rates = [np.asarray(actions[name]).item() for name in HOSTS]
        if self.levels:
            rates = [rate / (self.levels - 1) for rate in rates]
        observation, reward, _, over, info = self.link.step(rates)
        never, ends = (dict.fromkeys([*HOSTS, ALL], flag) for flag in (False, over))
        return self._each(observation), dict.fromkeys(HOSTS, reward), never, ends, {name: {NETWORK: info} for name in HOSTS}

    def _each(self, observation: Any) -> dict[str, Any]:
        return {name: np.array([*observation[:2], observation[2 + index]], np.float32) for index, name in enumerate(HOSTS)}


def register(spec: Spec, settings: TrainingSettings) -> Task:
    cloudpickle.register_pickle_by_value(toy_link)

    def make(config: Any) -> ToyHosts:
        stream = (*config[STREAM], config.worker_index) if "seeds" not in config else None
        return ToyHosts(stream, config["levels"])

    register_environment("toy-hosts", make)
    bare = ToyHosts()
    features, box = ("path/queue", "path/capacity", "own/rate"), spaces.Box(0.0, 1.0, (1,), np.float32)
    about = {"observe": "toy", "history": 1, "action": "linear", "see": settings.see}
    return Task("toy-hosts", bare.observation_spaces["h1"], box, features, HOSTS, about, settings.agents, levels=settings.levels)
