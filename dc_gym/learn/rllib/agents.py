# SPDX-License-Identifier: Apache-2.0
"""Configures RLlib for trainings with many agents. One policy serves all of them, or each has its own."""

from __future__ import annotations

from typing import Any

import gymnasium

from dc_gym.base.errors import UsageError
from dc_gym.learn.rllib.environment import AGENTS, Task
from dc_gym.learn.rllib.settings import TrainingSettings
from dc_gym.nets.agent_kinds import FLOWS, HOSTS, PORTS, SWITCHES

SHARED = {HOSTS: "host", SWITCHES: "switch", PORTS: "port", FLOWS: "flow"}
"""The name of the policy that serves all agents. An agent's own policy has the agent's name."""
PREFIX = "MultiAgent"
"""The prefix of RLlib's replay buffers for several agents."""


def policies(settings: TrainingSettings, task: Task) -> tuple[str, ...]:
    """Returns the names of the policies."""
    return (SHARED[task.agents],) if settings.policies == "shared" else task.hosts


def configure(config: Any, settings: TrainingSettings, task: Task) -> None:
    """Sets the policies of an AlgorithmConfig whose environment is known."""
    shared = SHARED[task.agents] if settings.policies == "shared" else ""
    if shared and not task.alike:
        raise UsageError(f"--policies shared: the {task.agents} differ in what they observe or set; give --policies own")

    def policy_of(agent: str, *_: Any, **__: Any) -> str:
        return shared or agent

    see = settings.see if task.agents == HOSTS else None
    told_agents = {"agents": task.agents, "see": see, "reward": settings.reward}
    config.environment(env_config=dict(config.env_config) | {AGENTS: told_agents})
    config.env_runners(gym_env_vectorize_mode=gymnasium.VectorizeMode.SYNC)  # the only mode that RLlib has for several agents
    config.multi_agent(policies=policies(settings, task), policy_mapping_fn=policy_of)


def replaying(config: Any) -> Any:
    """Replaces the configured replay buffer by its variant for several agents. Returns the configuration."""
    buffer = getattr(config, "replay_buffer_config", None) or {}
    kind = buffer.get("type")
    if isinstance(kind, str) and not kind.startswith(PREFIX):
        config.training(replay_buffer_config=buffer | {"type": PREFIX + kind})
    return config
