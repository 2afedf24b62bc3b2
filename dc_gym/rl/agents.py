# SPDX-License-Identifier: Apache-2.0
"""Where each host is an agent: what RLlib is told of them. One policy serves all hosts, or each has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium

from dc_gym.rl.environment import AGENTS, Task
from dc_gym.rl.settings import Settings

SHARED = "host"
"""The policy that serves all hosts; others have their host's name."""
PREFIX = "MultiAgent"
"""RLlib has each replay buffer once more, for several agents."""


def policies(told: Settings, hosts: Sequence[str]) -> tuple[str, ...]:
    """Their names."""
    return (SHARED,) if told.policies == "shared" else tuple(hosts)


def configure(config: Any, told: Settings, task: Task) -> None:
    """An AlgorithmConfig whose environment is known."""
    shared = told.policies == "shared"

    def policy_of(agent: str, *_: Any, **__: Any) -> str:
        return SHARED if shared else agent

    config.environment(env_config=dict(config.env_config) | {AGENTS: {"see": told.see, "reward": told.reward}})
    config.env_runners(gym_env_vectorize_mode=gymnasium.VectorizeMode.SYNC)  # RLlib has no other one for several agents
    config.multi_agent(policies=policies(told, task.hosts), policy_mapping_fn=policy_of)


def replaying(config: Any) -> Any:
    """With the replay buffer for several agents in place of the one that the configuration names."""
    buffer = getattr(config, "replay_buffer_config", None) or {}
    kind = buffer.get("type")
    if isinstance(kind, str) and not kind.startswith(PREFIX):
        config.training(replay_buffer_config=buffer | {"type": PREFIX + kind})
    return config
