# SPDX-License-Identifier: Apache-2.0
"""RL-CC's analytic deterministic policy gradient (Fuhrer et al. 2023, eq. 3) on RLlib's public API.

    gradient ~ mean over decisions of delta x gradient of the policy's action

On-policy, no critic, no noise, one network for all flows. dc_gym.methods.rlcc.gradient is the same in numpy, from the same first
weights; here torch makes the gradient, and RLlib brings checkpoints, Tune, TensorBoard and a Ray cluster. delta is that of
`later` decisions on, for which docs/rlcc-policy.md has the reason, and counts up to `most_error` targets.
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
"""Column: -delta of `later` decisions on, in targets."""


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
        """The same in numpy, as a NIC's policy file has it."""
        weights = [self.net[place].weight.detach().cpu().numpy().astype(np.float64) for place in (0, 2, 4)]
        return Mlp((weights[0], weights[1], weights[2]))

    def nic_policy(self, about: dict[str, Any], steps: int) -> PolicyFile:
        """What rlcc-mlp runs, of a training that train.json tells of."""
        scaling = Scaling(**about["spec"]["scaling"])
        origin = {
            "made": f"trained on {about['spec']['ground']} by RL-CC's eq. 3",
            "by": "dcgym train --agents flows --algo RLCC",
        }
        told = {name: about[name] for name in ("algorithm", "settings", "sections", "spec", "fingerprint", "versions")}
        return PolicyFile(self.mlp(), scaling, origin | {"decisions": steps, "training": told})

    def factors(self, inputs: torch.Tensor) -> torch.Tensor:
        """The action: 1 + 0.2 o, or 1 / (1 - 0.2 o) below 0."""
        out, span = self.net(inputs)[..., 0], MOST - 1.0
        return torch.where(out >= 0, 1.0 + span * out, 1.0 / (1.0 - span * out.clamp(max=0.0)))

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTIONS: from_factors(self.factors(batch[Columns.OBS]))[..., None]}


class RlccLearner(TorchLearner):
    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]) -> Any:
        """Error times action, the error a number: its gradient is eq. 3's with the sign that an optimizer goes against."""
        errors = batch[ERRORS].detach().clamp(-1.0, config.env_config[CASE].model.most_error)
        self.metrics.log_value((module_id, "mean_abs_error_loss"), errors.abs().mean(), window=1)
        return (errors * self.module[module_id].unwrapped().factors(batch[Columns.OBS])).mean()


class RlccConfig(AlgorithmConfig):
    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class=algo_class or Rlcc)
        self.env_runner_cls = DeltaRunner
        self.train_batch_size_per_learner = 4096
        self.rollout_fragment_length = "auto"  # a sample is a batch
        self.first_lr, self.falls_over = 0.01, 0
        self.lr: Any = self.first_lr

    def plan(self, steps: int) -> None:
        """The training's length, which the rate of learning falls over."""
        self.training(falls_over=steps)

    def training(self, *, first_lr: Any = NotProvided, falls_over: Any = NotProvided, **kwargs: Any) -> RlccConfig:
        """`first_lr` falls to 0 on a straight line over `falls_over` decisions (0: it stays)."""
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
        """Sample, one step of the optimizer, new weights to those who sample."""
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
    """What runners have sampled, in their order, as a learner takes it."""
    inputs, errors = (np.concatenate([part[name] for part in parts]).astype(np.float32) for name in ("inputs", "errors"))
    columns = {Columns.OBS: torch.from_numpy(inputs), ERRORS: torch.from_numpy(errors / np.float32(unit))}
    return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(columns)}, env_steps=len(errors))
