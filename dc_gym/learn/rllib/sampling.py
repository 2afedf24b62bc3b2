# SPDX-License-Identifier: Apache-2.0
"""Measures how fast RLlib samples from labs, and from environments with the same spaces that do nothing.

The latter rate is RLlib's own limit. Environments reach RLlib in two ways. Users have single environments, which RLlib makes into
a vector. Labs are stepped all in one call (RLlib's vector entry point), which saves RLlib most of its work.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from dc_gym.learn.rllib.environment import Task, register_environment

WARM_UP = 50
"""Steps of each environment before the timing starts."""


class InstantEnv(gymnasium.Env[Any, Any]):
    """An environment with a task's spaces that does nothing. Each episode has `horizon` steps."""

    def __init__(self, task: Task, horizon: int) -> None:
        self.observation_space, self.action_space = task.observation_space, task.action_space
        self._horizon, self._time = horizon, 0
        self._seen = np.zeros(task.observation_space.shape, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return self._seen.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        return self._seen.copy(), 0.0, False, self._time == self._horizon, {}


class InstantVectorEnv(VectorEnv[Any, Any, Any]):
    """Many environments that do nothing, stepped in one call."""

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, task: Task, horizon: int) -> None:
        self.num_envs, self._horizon, self._time = num_envs, horizon, 0
        self.single_observation_space, self.single_action_space = task.observation_space, task.action_space
        self.observation_space = batch_space(task.observation_space, num_envs)
        self.action_space = batch_space(task.action_space, num_envs)
        self._seen = np.zeros((num_envs, *task.observation_space.shape), np.float32)
        self._rewards, self._never = np.zeros(num_envs), np.zeros(num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._time = 0
        return self._seen, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        over = self._time == self._horizon
        self._time = 0 if over else self._time + 1
        ends = np.full(self.num_envs, self._time == self._horizon)
        return self._seen, self._rewards, self._never, ends, {}


def instant_task(task: Task, horizon: int = 1000) -> Task:
    """Returns a task with the same spaces that does nothing, for single environments and for vectors."""
    name = f"{task.name}-nothing"

    def make(config: Mapping[str, Any]) -> InstantEnv | InstantVectorEnv:
        return InstantVectorEnv(config["num_envs"], task, horizon) if "num_envs" in config else InstantEnv(task, horizon)

    register_environment(name, make)
    return replace(task, name=name)


def steps_per_s(task: Task, envs: int, steps: int, *, together: bool = True) -> float:
    """Returns the steps per second of one EnvRunner with PPO's default connectors and a net of 2 x 64, with exploration.

    No Ray session is needed. `together`: True if the environments come as one vector, False if RLlib makes a vector of single
    ones.
    """
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    config = PPOConfig().environment(task.name)
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT if together else gymnasium.VectorizeMode.SYNC
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=envs, gym_env_vectorize_mode=mode)
    config.rl_module(model_config={"fcnet_hiddens": [64, 64]})
    config.debugging(seed=1, log_level="ERROR")
    runner = SingleAgentEnvRunner(config=config, worker_index=0)
    try:
        runner.sample(num_timesteps=WARM_UP * envs)
        begun_s = time.perf_counter()
        sampled = sum(len(episode) for episode in runner.sample(num_timesteps=steps))
        return sampled / (time.perf_counter() - begun_s)
    finally:
        runner.stop()
