# SPDX-License-Identifier: Apache-2.0
"""Discrete actions: a choice among a number of allocations, each the same for all hosts, from the lowest action to the
highest."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Levels(gymnasium.ActionWrapper[Any, Any, Any]):
    """Gives one lab discrete actions."""

    def __init__(self, env: gymnasium.Env[Any, Any], levels: int) -> None:
        super().__init__(env)
        self._table = table_of(env.action_space, levels)
        self.action_space = spaces.Discrete(levels)

    def action(self, action: Any) -> Any:
        return self._table[int(action)]


class VectorLevels(gymnasium.vector.VectorActionWrapper):
    """Gives a vector of labs discrete actions."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], levels: int) -> None:
        super().__init__(env)
        self._table = table_of(env.single_action_space, levels)
        self.single_action_space = spaces.Discrete(levels)
        self.action_space = spaces.MultiDiscrete([levels] * env.num_envs)

    def actions(self, actions: Any) -> Any:
        return self._table[np.asarray(actions, int)]


def table_of(space: spaces.Space[Any], levels: int) -> Any:
    """Returns the action of each level, as [levels, hosts]."""
    assert isinstance(space, spaces.Box)
    return np.linspace(space.low, space.high, levels, dtype=space.dtype)
