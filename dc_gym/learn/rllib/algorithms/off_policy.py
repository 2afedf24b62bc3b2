# SPDX-License-Identifier: Apache-2.0
"""The training loop that DDPG, TD3 and SAC share: sample a few steps, then update from a replay buffer.

An update costs the same as in the papers' loop (one after every few steps), but updates come in bundles: eight steps of every
lab, then `training_intensity` x steps / batch updates (None: one). The sampling processes get new weights once for each bundle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.dqn.dqn import DQN
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME, TD_ERROR_KEY

from dc_gym.learn.rllib.algorithms.replay import Array, Replay

FRAGMENT = 8
"""Steps of each lab between two bundles of updates. A sample and new weights cost RLlib itself 5 ms."""


class OffPolicy(DQN):
    """An Algorithm for learners that take RLlib's columns of single transitions."""

    def setup(self, config: Any) -> None:
        super().setup(config)
        self._owed = 0.0
        """The number of updates that are due, with its fraction."""

    def _create_local_replay_buffer_if_necessary(self, config: Any) -> Replay:
        buffer_config, n_step = self.config.replay_buffer_config, self.config.n_step
        if not isinstance(n_step, int):
            raise ValueError(f"n_step = {n_step!r} is not one number")
        prioritized = "Prioritized" in buffer_config["type"]
        alpha, beta = (buffer_config.get("alpha", 0.6), buffer_config.get("beta", 0.4)) if prioritized else (0.0, 0.0)
        return Replay(buffer_config["capacity"], n_step, self.config.gamma, alpha, beta)

    def training_step(self) -> None:
        episodes, sampled = synchronous_parallel_sample(
            worker_set=self.env_runner_group,
            concat=True,
            sample_timeout_s=self.config.sample_timeout_s,
            _uses_new_env_runners=True,
            _return_metrics=True,
        )
        self.metrics.aggregate(sampled, key=ENV_RUNNER_RESULTS)
        fresh = self.local_replay_buffer.add(episodes)
        total = self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0)
        if fresh and total >= self.config.num_steps_sampled_before_learning_starts:
            self._learn(self._due(fresh), {NUM_ENV_STEPS_SAMPLED_LIFETIME: total})

    def _due(self, fresh: int) -> int:
        """Returns the number of updates for `fresh` new steps."""
        intensity = self.config.training_intensity
        if not intensity:
            return 1
        self._owed += intensity * fresh / self.config.total_train_batch_size
        due = int(self._owed)
        self._owed -= due
        return due

    def _learn(self, updates: int, timesteps: dict[str, Any]) -> None:
        if not updates:
            return
        drawn = [self.local_replay_buffer.sample(self.config.total_train_batch_size) for _ in range(updates)]
        results: list[Any] = []
        for number, batch in enumerate(drawn, 1):
            silent = number < updates  # logged values are collected, and read once after the last update
            results = self.learner_group.update(batch=batch_of(batch), timesteps=timesteps, _no_metrics_reduce=silent)
        self._prioritize(drawn, results)
        self.metrics.aggregate(results, key=LEARNER_RESULTS)
        self.env_runner_group.sync_weights(from_worker_or_learner_group=self.learner_group, inference_only=True)

    def _prioritize(self, drawn: list[dict[str, tuple[Array, Any]]], results: list[Any]) -> None:
        """Sets the priorities from the errors that each learner found, in the order in which the learners share a batch."""
        for module in drawn[0]:
            shares = [one[module].pop(TD_ERROR_KEY).peek() for one in results]
            for number, batch in enumerate(drawn):
                errors = np.concatenate([np.asarray(share[number]) for share in shares])
                self.local_replay_buffer.prioritize(module, batch[module][0], errors)


def batch_of(drawn: dict[str, tuple[Array, dict[str, Array]]]) -> MultiAgentBatch:
    """Returns the drawn transitions in the form that a learner takes."""
    tensors = {
        module: SampleBatch({name: torch.from_numpy(values) for name, values in columns.items()})
        for module, (_, columns) in drawn.items()
    }
    return MultiAgentBatch(tensors, env_steps=max(len(rows) for rows in tensors.values()))
