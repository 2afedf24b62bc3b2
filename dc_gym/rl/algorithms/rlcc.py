# SPDX-License-Identifier: Apache-2.0
"""RL-CC's analytic deterministic policy gradient (Fuhrer et al. 2023, eq. 3) on RLlib's public API.

    gradient ~ mean over decisions of delta x gradient of the policy's action

The method is on-policy, without a critic and without noise, and has one network for all flows. dc_gym.methods.rlcc.gradient is
the same method in numpy, with the same initial weights. Here torch computes the gradient, and RLlib adds checkpoints, Tune,
TensorBoard and Ray clusters. delta is taken `later` decisions after the action (docs/rlcc.md gives the reason), and counts
up to `most_error` targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME
from torch import nn

from dc_gym.nets.decision import MOST, Scaling
from dc_gym.nets.mlp import SHAPES, Mlp, start
from dc_gym.nets.policy_file import PolicyFile
from dc_gym.rl.flow_runners import DeltaRunner, Rows, from_factors
from dc_gym.rl.flows import CASE

ERRORS = "errors"
"""A column: -delta `later` decisions after the action, in units of the target."""


class RlccModule(TorchRLModule):
    """The net of RL-CC's artifact: 4-12-12-1, ReLU, ReLU, tanh, no biases."""

    def setup(self) -> None:
        layers = [nn.Linear(inputs, outputs, bias=False) for outputs, inputs in SHAPES]
        self.net = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2], nn.Tanh())
        first = start(np.random.default_rng(self.model_config.get("seed") or 0)).weights
        with torch.no_grad():
            for layer, weight in zip(layers, first, strict=True):
                layer.weight.copy_(torch.from_numpy(weight))

    def mlp(self) -> Mlp:
        """Returns the same net in numpy, as a NIC's policy file holds it."""
        weights = [self.net[place].weight.detach().cpu().numpy().astype(np.float64) for place in (0, 2, 4)]
        return Mlp((weights[0], weights[1], weights[2]))

    def nic_policy(self, about: dict[str, Any], steps: int) -> PolicyFile:
        """Returns the policy file that rlcc-mlp runs. `about` is the train.json of the training."""
        scaling = Scaling(**about["spec"]["scaling"])
        origin = {
            "made": f"trained on {about['spec']['ground']} by RL-CC's eq. 3",
            "by": "dcgym train --agents flows --algo RLCC",
        }
        told = {name: about[name] for name in ("algorithm", "settings", "sections", "spec", "fingerprint", "versions")}
        return PolicyFile(self.mlp(), scaling, origin | {"decisions": steps, "training": told})

    def factors(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the actions: 1 + 0.2 o, or 1 / (1 - 0.2 o) for o below 0."""
        out, span = self.net(inputs)[..., 0], MOST - 1.0
        return torch.where(out >= 0, 1.0 + span * out, 1.0 / (1.0 - span * out.clamp(max=0.0)))

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTIONS: from_factors(self.factors(batch[Columns.OBS]))[..., None]}


class RlccLearner(TorchLearner):
    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]) -> Any:
        """Returns the mean of error times action, with the error as a constant. Its gradient is that of eq. 3 with the sign that
        an optimizer descends."""
        errors = batch[ERRORS].detach().clamp(-1.0, config.env_config[CASE].model.most_error)
        self.metrics.log_value((module_id, "mean_abs_error_loss"), errors.abs().mean(), window=1)
        return (errors * self.module[module_id].unwrapped().factors(batch[Columns.OBS])).mean()


class RlccConfig(AlgorithmConfig):
    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class=algo_class or Rlcc)
        self.env_runner_cls = DeltaRunner
        self.train_batch_size_per_learner = 4096
        self.rollout_fragment_length = "auto"  # one sample is one batch
        self.first_lr, self.falls_over = 0.01, 0
        self.lr: Any = self.first_lr

    def plan(self, steps: int) -> None:
        """Sets the training's length, over which the learning rate decays."""
        self.training(falls_over=steps)

    def training(self, *, first_lr: Any = NotProvided, falls_over: Any = NotProvided, **kwargs: Any) -> RlccConfig:
        """`first_lr`: the initial learning rate; it decays linearly to 0 over `falls_over` decisions (0: it stays constant)."""
        super().training(**kwargs)
        self.first_lr = self.first_lr if first_lr is NotProvided else first_lr
        self.falls_over = self.falls_over if falls_over is NotProvided else falls_over
        self.lr = [[0, self.first_lr], [self.falls_over, 0.0]] if self.falls_over else self.first_lr
        return self

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=RlccModule)

    def get_default_learner_class(self) -> type[TorchLearner]:
        return RlccLearner

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {"seed": self.seed}


class Rlcc(Algorithm):
    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return RlccConfig()

    def training_step(self) -> None:
        """Samples, does one step of the optimizer, and sends the new weights to the sampling processes."""
        parts, sampled = synchronous_parallel_sample(
            worker_set=self.env_runner_group,
            max_env_steps=self.config.total_train_batch_size,
            concat=False,
            sample_timeout_s=self.config.sample_timeout_s,
            _uses_new_env_runners=True,
            _return_metrics=True,
        )
        self.metrics.aggregate(sampled, key=ENV_RUNNER_RESULTS)
        if not parts:
            return
        steps = self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME))
        batch = batch_of(parts, self.config.env_config[CASE].scaling.unit)
        learned = self.learner_group.update(batch=batch, timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: steps})
        self.metrics.aggregate(learned, key=LEARNER_RESULTS)
        self.env_runner_group.sync_weights(from_worker_or_learner_group=self.learner_group, inference_only=True)


def batch_of(parts: list[Rows], unit: float) -> MultiAgentBatch:
    """Returns the samples of the runners, in the runners' order, in the form that a learner takes."""
    inputs, errors = (np.concatenate([part[name] for part in parts]).astype(np.float32) for name in ("inputs", "errors"))
    columns = {Columns.OBS: torch.from_numpy(inputs), ERRORS: torch.from_numpy(errors / np.float32(unit))}
    return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(columns)}, env_steps=len(errors))
