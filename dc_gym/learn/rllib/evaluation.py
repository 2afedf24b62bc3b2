# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a frozen policy: episodes without exploration, with seeds that no training has.

The episodes use the training's spec and others. The policy runs in an EnvRunner of its own, with all of RLlib's connectors.
If the training samples in separate processes, the evaluation does so too (one lab for each spec, counted as one).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from ray.rllib.core import COMPONENT_ENV_TO_MODULE_CONNECTOR, COMPONENT_LEARNER, COMPONENT_MODULE_TO_ENV_CONNECTOR
from ray.rllib.core import COMPONENT_RL_MODULE as MODULE
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from dc_gym.learn.rllib.callbacks import TOTALS, last_info, numbers, return_of
from dc_gym.learn.rllib.environment import ROLE, SEEDS, Task
from dc_gym.learn.rllib.ray_session import LAB

OWN, EVALUATION = "train", "evaluation"
"""OWN is the name of the training's own spec among the evaluated specs; EVALUATION labels the labs of evaluations."""
RESTARTS = 3
"""The number of restarts of an examiner whose process dies."""


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """The results of one episode."""

    spec: str
    seed: int
    reward: float
    steps: int
    totals: dict[str, float]


class Evaluator:
    """Runs the evaluation episodes of one spec."""

    def __init__(self, config: Any, spec: str, seeds: Sequence[int]) -> None:
        self._runner = (MultiAgentEnvRunner if config.is_multi_agent else SingleAgentEnvRunner)(config=config, worker_index=0)
        self._spec, self._seeds = spec, seeds

    def run(self, state: dict[str, Any]) -> list[EpisodeResult]:
        self._runner.set_state(state)
        episodes = self._runner.sample(num_episodes=len(self._seeds), explore=False)
        self._runner.get_metrics()  # clears the metrics
        return [
            EpisodeResult(self._spec, seed, return_of(episode), len(episode), dict(numbers(last_info(episode).get(TOTALS, {}))))
            for seed, episode in zip(self._seeds, episodes, strict=True)
        ]

    def close(self) -> None:
        self._runner.stop()


class Evaluation:
    """The examiners of all specs. Their labs boot at the first evaluation and stay."""

    def __init__(self, ray: Any, config: Any, tasks: dict[str, Task], seeds: Sequence[int]) -> None:
        remote = config.num_env_runners > 0
        again = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS}  # an evaluation does not depend on earlier ones
        actor = ray.remote(num_cpus=1, resources={LAB: 1}, **again)(Evaluator) if remote else None
        self._ray, self._remote = ray, remote
        self._evaluators: list[Any] = []
        for name, task in tasks.items():
            own_config = _config_for(config, name, task, seeds)
            self._evaluators.append(actor.remote(own_config, name, seeds) if actor else Evaluator(own_config, name, seeds))

    def run(self, algorithm: Any) -> list[EpisodeResult]:
        """Evaluates the policy as it is now and returns the episodes."""
        state = state_of(algorithm)
        if self._remote:
            parts = self._ray.get([evaluator.run.remote(state) for evaluator in self._evaluators])
        else:
            parts = [evaluator.run(state) for evaluator in self._evaluators]
        return [episode for part in parts for episode in part]

    def close(self) -> None:
        for evaluator in self._evaluators:
            if self._remote:
                self._ray.get(evaluator.close.remote())
                self._ray.kill(evaluator)
            else:
                evaluator.close()


def _config_for(config: Any, name: str, task: Task, seeds: Sequence[int]) -> Any:
    evaluator_config = config.copy(copy_frozen=False)
    role = EVALUATION if name == OWN else f"{EVALUATION}-{re.sub(r'[^A-Za-z0-9.]+', '-', name)}"
    evaluator_config.environment(task.name, env_config=dict(evaluator_config.env_config) | {SEEDS: tuple(seeds), ROLE: role})
    evaluator_config.env_runners(
        num_env_runners=0,
        num_envs_per_env_runner=1,
        gym_env_vectorize_mode=gymnasium.VectorizeMode.SYNC,
        explore=False,
    )
    evaluator_config.in_evaluation = True
    evaluator_config.freeze()
    return evaluator_config


def state_of(algorithm: Any) -> dict[str, Any]:
    """Returns the weights, and the state of connectors that learn (none of the default ones does)."""
    weights = algorithm.learner_group.get_state(components=f"{COMPONENT_LEARNER}/{MODULE}", inference_only=True)
    local = algorithm.env_runner
    return {
        MODULE: weights[COMPONENT_LEARNER][MODULE],
        **local.get_state(components=[COMPONENT_ENV_TO_MODULE_CONNECTOR, COMPONENT_MODULE_TO_ENV_CONNECTOR]),
    }
