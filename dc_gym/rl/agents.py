# SPDX-License-Identifier: Apache-2.0
"""Configures RLlib for trainings in which each host is an agent. One policy serves all hosts, or each host has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium

from dc_gym.rl.environment import AGENTS, Task
from dc_gym.rl.settings import TrainingSettings

SHARED = "host"
"""The name of the policy that serves all hosts. A host's own policy has the host's name."""
PREFIX = "MultiAgent"
"""The prefix of RLlib's replay buffers for several agents."""


def policies(told: TrainingSettings, hosts: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the policies."""
    return (SHARED,) if told.policies == "shared" else tuple(hosts)


def configure(config: Any, told: TrainingSettings, task: Task) -> None:
    """Sets the policies of an AlgorithmConfig whose environment is known."""
    shared = told.policies == "shared"

    def policy_of(agent: str, *_: Any, **__: Any) -> str:
        return SHARED if shared else agent

    config.environment(env_config=dict(config.env_config) | {AGENTS: {"see": told.see, "reward": told.reward}})
    config.env_runners(gym_env_vectorize_mode=gymnasium.VectorizeMode.SYNC)  # the only mode that RLlib has for several agents
    config.multi_agent(policies=policies(told, task.hosts), policy_mapping_fn=policy_of)


def replaying(config: Any) -> Any:
    """Replaces the configured replay buffer by its variant for several agents. Returns the configuration."""
    buffer = getattr(config, "replay_buffer_config", None) or {}
    kind = buffer.get("type")
    if isinstance(kind, str) and not kind.startswith(PREFIX):
        config.training(replay_buffer_config=buffer | {"type": PREFIX + kind})
    return config
