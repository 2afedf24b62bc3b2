# SPDX-License-Identifier: Apache-2.0
"""A policy as a plug-in that learns while the run goes on: each switch port tries a few thresholds and keeps to the best.

Each port is an agent of its own (agent.agents = "ports"), with a Bandit, random numbers and a memory of its own. The result keeps
the memories in learned.npz.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dc_gym.base.key import COUNT, NUMBER, key
from dc_gym.run.agent import policies
from dc_gym.run.agent.frame import Floats, Frame
from dc_gym.run.agent.observation import Vector
from dc_gym.run.agent.policies import PolicyContext


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditKeys:
    """Keys of policy `bandit`."""

    thresholds: int = key(COUNT, 6, low=2, high=100, help="number of thresholds, from a full frame to a quarter of the buffer")
    explore: float = key(NUMBER, 0.8, low=0, high=1, help="share of steps that try any threshold, at first")
    half_life: int = key(COUNT, 100, low=1, help="number of steps after which that share is half as much")
    gain: float = key(NUMBER, 0.1, low=0, high=1, help="weight of a step's reward in the value of its threshold")


class Bandit:
    """An epsilon-greedy bandit at one port."""

    def __init__(self, context: PolicyContext, keys: BanditKeys) -> None:
        self._keys, self._random = keys, np.random.default_rng(context.seed)
        self._value, self._tries = np.zeros(keys.thresholds), np.zeros(keys.thresholds, np.int64)
        self._chosen = 0
        (rows,) = context.scene.actuated
        _, _, pmax_ppm = context.scene.start
        sizes = np.geomspace(rows.low[0, 0], rows.high[0, 0] / 4, keys.thresholds)
        self._actions = [context.action.from_values([size, size, pmax_ppm]) for size in sizes]

    def act(self, observation: Vector, frame: Frame) -> Floats:
        explore = self._keys.explore * 0.5 ** (self._tries.sum() / self._keys.half_life)
        tries = self._random.random() < explore
        self._chosen = int(self._random.integers(len(self._value)) if tries else self._value.argmax())
        return self._actions[self._chosen]

    def observe(self, reward: float, observation: Vector) -> None:
        self._tries[self._chosen] += 1
        self._value[self._chosen] += self._keys.gain * (reward - self._value[self._chosen])

    def state(self) -> Mapping[str, Any]:
        return {"value": self._value, "tries": self._tries}


policies.register("bandit", Bandit, BanditKeys)
