# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a lab: hosts share a link; the best rates are equal and add up to its capacity. A step takes microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

STEPS = 32


class ToyLink(gymnasium.Env):
    """Observation: queue, capacity, then the rates of the step before. Action: a rate of each host in [0, 1]."""

    def __init__(self, hosts: int = 2, horizon: int = STEPS, levels: int = 0) -> None:
        self.hosts, self.horizon = hosts, horizon
        self.observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2 + hosts,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(levels) if levels else gymnasium.spaces.Box(0.0, 1.0, (hosts,), np.float32)
        self.levels = levels
        self.time, self.queue, self.capacity, self.total_queue = 0, 0.0, 1.0, 0.0
        self.rates = np.zeros(hosts, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.total_queue = 0, 0.0
        self.queue = float(self.np_random.uniform(0, 1))
        self.capacity = float(self.np_random.uniform(0.5, 0.6 * self.hosts))
        self.rates = np.zeros(self.hosts, np.float32)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.levels:
            action = np.full(self.hosts, action / (self.levels - 1))
        self.rates = np.asarray(action, np.float32)
        load = float(self.rates.sum())
        self.queue = min(5.0, max(0.0, self.queue + load - self.capacity))
        self.total_queue += self.queue
        self.time += 1
        reward = min(load, self.capacity) / self.capacity - 0.5 * self.queue - float(self.rates.std())
        over = self.time >= self.horizon
        info = (
            {"episode_totals": {"switch_queue_bytes_longest": self.total_queue / self.time, "capacity": self.capacity}}
            if over
            else {}
        )
        return self._observation(), reward, False, over, info

    def _observation(self) -> Any:
        return np.array([self.queue, self.capacity, *self.rates], np.float32)


def make(config: Mapping[str, Any]) -> gymnasium.Env | VectorEnv:
    """Makes one environment, or a vector of config["num_envs"], as RLlib's vector entry point requires."""
    settings = {key: value for key, value in config.items() if key in ("hosts", "horizon", "levels")}
    if "num_envs" not in config:
        return ToyLink(**settings)
    return SyncVectorEnv([lambda: ToyLink(**settings)] * config["num_envs"])
