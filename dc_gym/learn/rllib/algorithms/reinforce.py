# SPDX-License-Identifier: Apache-2.0
"""REINFORCE (Williams 1992; Sutton and Barto, 2nd ed., section 13.3) on RLlib's public API.

    gradient of J = mean over steps of (G_t - b) / s * gradient of log pi(a_t | o_t)

G_t is the discounted return from step t to the end of its episode; b and s are the mean and standard deviation of all returns of
the batch. This baseline needs no net. Batches are whole episodes. The policy is a diagonal Gaussian whose deviation does not
depend on the observation.
"""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME
from torch import nn

from dc_gym.learn.rllib.algorithms.nets import mlp, shape_of, width

RETURNS = "returns_to_go"


class ReinforceModule(TorchRLModule):
    """Computes mean and log deviation of each action. RLlib draws actions from them and keeps the probabilities."""

    def setup(self) -> None:
        hidden, activation = shape_of(self.model_config, "tanh")
        actions = width(self.action_space)
        self.net = mlp(width(self.observation_space), hidden, actions, activation)
        self.log_std = nn.Parameter(torch.full((actions,), float(self.model_config.get("log_std", -0.5))))

    def policy_net(self) -> nn.Sequential:
        """Returns the net from observation to action, for the export."""
        return self.net

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        mean = self.net(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: torch.cat([mean, self.log_std.expand_as(mean)], -1)}


class ReturnsToGo(ConnectorV2):
    """Adds a column of discounted returns to a batch of whole episodes."""

    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> dict[str, Any]:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            total, returns = 0.0, []
            for reward in reversed(episode.get_rewards()):
                total = float(reward) + self.gamma * total
                returns.append(total)
            self.add_n_batch_items(batch, RETURNS, returns[::-1], len(returns), episode)
        return batch


class ReinforceLearner(TorchLearner):
    """The loss: log probabilities times normalised returns, and an entropy bonus."""

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]) -> Any:
        distribution = self.module[module_id].unwrapped().get_train_action_dist_cls()
        policy = distribution.from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        returns = batch[RETURNS]
        advantages = (returns - returns.mean()) / (returns.std() + 1e-6)
        self.metrics.log_value((module_id, "return_to_go_mean"), returns.mean(), window=1)
        entropy = policy.entropy().mean()
        self.metrics.log_value((module_id, "entropy"), entropy, window=1)
        return -(policy.logp(batch[Columns.ACTIONS]) * advantages).mean() - config.entropy_coeff * entropy


class ReinforceConfig(AlgorithmConfig):
    """The configuration: batches of whole episodes."""

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class=algo_class or Reinforce)
        self.batch_mode = "complete_episodes"
        self.entropy_coeff = 0.0
        self.lr = 1e-3
        self.train_batch_size_per_learner = 2000

    def training(self, *, entropy_coeff: Any = NotProvided, **kwargs: Any) -> ReinforceConfig:
        super().training(**kwargs)
        if entropy_coeff is not NotProvided:
            self.entropy_coeff = entropy_coeff
        return self

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=ReinforceModule)

    def get_default_learner_class(self) -> type[TorchLearner]:
        return ReinforceLearner

    def build_learner_connector(self, *args: Any, **kwargs: Any) -> Any:
        pipeline = super().build_learner_connector(*args, **kwargs)
        pipeline.prepend(ReturnsToGo(self.gamma))  # before the connector that turns all columns into tensors
        return pipeline


class Reinforce(Algorithm):
    """RLlib's Algorithm of REINFORCE."""

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return ReinforceConfig()

    def training_step(self) -> None:
        """Samples, does one step of the optimizer, and sends the new weights to the sampling processes."""
        episodes, sampled = synchronous_parallel_sample(
            worker_set=self.env_runner_group,
            max_env_steps=self.config.total_train_batch_size,
            concat=True,
            sample_timeout_s=self.config.sample_timeout_s,
            _uses_new_env_runners=True,
            _return_metrics=True,
        )
        self.metrics.aggregate(sampled, key=ENV_RUNNER_RESULTS)
        steps = self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME))
        learned = self.learner_group.update(episodes=episodes, timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: steps})
        self.metrics.aggregate(learned, key=LEARNER_RESULTS)
        self.env_runner_group.sync_weights(from_worker_or_learner_group=self.learner_group, inference_only=True)
