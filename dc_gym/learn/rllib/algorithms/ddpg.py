# SPDX-License-Identifier: Apache-2.0
"""DDPG (Lillicrap et al. 2016) on RLlib's public API. TD3 (td3.py) is this algorithm with three changes.

    critic: (Q(o, a) - y)^2 with y = r + gamma^n Q'(o', mu'(o')), actor: -Q(o, mu(o)), targets by Polyak averages.

off_policy.py does the sampling and the replay, and sets the number of updates. Exploration uses Ornstein-Uhlenbeck noise: one
process for each lab, reset to 0 at the start of each episode. Checkpoints do not contain the noise. Modules act in [-1, 1], and
RLlib maps that to the action space.
"""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.algorithms.dqn.dqn_learner import DQNLearner
from ray.rllib.algorithms.sac.sac import SACConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, TargetNetworkAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.metrics import TD_ERROR_KEY
from torch import nn

from dc_gym.learn.rllib.algorithms.nets import mlp, shape_of, shrink, width
from dc_gym.learn.rllib.algorithms.off_policy import FRAGMENT, OffPolicy

LAST_LAYER = 3e-3
"""The bound of the last layers' initial weights (Lillicrap et al., section 7)."""
PLACES = "places"
"""The key of a batch that holds the flow of each row. It is set unless the rows are the flows of all labs, in order."""
PRIORITY_EPSILON = 1e-6
"""Added so that no transition's priority is 0 (Schaul et al. 2016, section 3.3)."""


class DDPGModule(TorchRLModule, TargetNetworkAPI, InferenceOnlyAPI):
    """One actor and, on a learner, `critics` critics."""

    def setup(self) -> None:
        hidden, activation = shape_of(self.model_config, "relu")
        observed, acted = width(self.observation_space), width(self.action_space)
        self.pi = shrink(mlp(observed, hidden, acted, activation, nn.Tanh), LAST_LAYER)
        self._noise: torch.Tensor | None = None
        if not self.inference_only:
            critics = self.model_config.get("critics", 1)
            self.qs = nn.ModuleList(shrink(mlp(observed + acted, hidden, 1, activation), LAST_LAYER) for _ in range(critics))

    def policy_net(self) -> nn.Sequential:
        """Returns the net from observation to action, for the export."""
        return self.pi

    def get_non_inference_attributes(self) -> list[str]:
        return ["qs"]

    def make_target_networks(self) -> None:
        self.target_pi, self.target_qs = make_target_network(self.pi), make_target_network(self.qs)

    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        return [(self.pi, self.target_pi), (self.qs, self.target_qs)]

    def forward_target(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTIONS: self.target_pi(batch[Columns.OBS])}

    def noise(self, actions: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        """Returns the noise after the step x := x - theta x + sigma N(0, 1). Each row belongs to one lab, or to the flow that
        `places` gives."""
        theta, sigma = self.model_config.get("ou_theta", 0.15), self.model_config.get("ou_sigma", 0.2)
        rows = torch.arange(len(actions)) if places is None else places
        before = self._noise
        if before is None or (before.shape != actions.shape if places is None else int(rows.max()) >= len(before)):
            old_rows = before if before is not None and places is not None else actions[:0]
            before = torch.cat([old_rows, torch.zeros((int(rows.max()) + 1 - len(old_rows), *actions.shape[1:]))])
        before[rows] = (1 - theta) * before[rows] + sigma * torch.randn_like(actions)
        self._noise = before
        return before[rows]

    def begin_episode(self, lab: int) -> None:
        """Resets the noise of a lab."""
        if self._noise is not None and lab < len(self._noise):
            self._noise[lab] = 0

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            return {Columns.ACTIONS: self.pi(batch[Columns.OBS])}

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            actions = self.pi(batch[Columns.OBS])
            return {Columns.ACTIONS: (actions + self.noise(actions, batch.get(PLACES))).clamp(-1, 1)}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {}  # the loss calls the nets


class DDPGLearner(DQNLearner, TorchLearner):
    """The loss. The parent class updates the target nets."""

    @classmethod
    def rl_module_required_apis(cls) -> list[type]:
        return [TargetNetworkAPI]  # the parent also requires discrete Q values

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        module = self.module[module_id].unwrapped()
        for name, net, rate in (("pi", module.pi, config.actor_lr), ("qf", module.qs, config.critic_lr)):
            parameters = self.get_parameters(net)
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=torch.optim.Adam(parameters, weight_decay=config.weight_decay),
                params=parameters,
                lr_or_lr_schedule=rate,
            )

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]) -> Any:
        module = self.module[module_id].unwrapped()
        inputs = torch.cat([batch[Columns.OBS], batch[Columns.ACTIONS]], -1)
        targets = self.targets(module, config, batch)
        values = [critic(inputs).squeeze(-1) for critic in module.qs]
        loss = sum(((value - targets) ** 2 * batch["weights"]).mean() for value in values)
        if self.actor_learns(config):
            loss = loss + self.actor_loss(module, config, batch)
        errors = (values[0] - targets).abs().detach() + PRIORITY_EPSILON
        self.metrics.log_value((module_id, TD_ERROR_KEY), errors, reduce="item_series")
        self.metrics.log_value((module_id, "qf_mean"), values[0].mean(), window=1)
        return loss

    def targets(self, module: Any, config: Any, batch: dict[str, Any]) -> torch.Tensor:
        """Returns y, the target of the critics. A truncated episode counts as continuing after its last step; a terminated one
        does not."""
        with torch.no_grad():
            after = batch[Columns.NEXT_OBS]
            inputs = torch.cat([after, self.next_actions(module, config, after)], -1)
            values = torch.stack([critic(inputs) for critic in module.target_qs]).min(0).values.squeeze(-1)
            goes_on = 1 - batch[Columns.TERMINATEDS].float()
            return batch[Columns.REWARDS] + config.gamma ** batch["n_step"] * goes_on * values

    def next_actions(self, module: Any, config: Any, observations: torch.Tensor) -> torch.Tensor:
        actions: torch.Tensor = module.target_pi(observations)
        return actions

    def actor_learns(self, config: Any) -> bool:
        """Returns whether the actor learns in this update."""
        return True

    def actor_loss(self, module: Any, config: Any, batch: dict[str, Any]) -> torch.Tensor:
        """Returns -Q(o, mu(o)) with the critic as a constant function, so that one backward pass serves both losses.

        An actor whose tanh saturates has no gradient that could bring it back; preactivation_l2 keeps it away from saturation.
        """
        critic, inner = module.qs[0], module.pi[:-1](batch[Columns.OBS])
        weights = {name: parameter.detach() for name, parameter in critic.named_parameters()}
        inputs = torch.cat([batch[Columns.OBS], module.pi[-1](inner)], -1)
        loss: torch.Tensor = config.preactivation_l2 * inner.square().mean()
        return loss - torch.func.functional_call(critic, weights, (inputs,)).mean()

    def compute_gradients(self, loss_per_module: Any, **kwargs: Any) -> Any:
        """Returns the gradients that are not None. None means no update this time. Zero gradients would still move
        weights, by Adam's momentum."""
        gradients = super().compute_gradients(loss_per_module, **kwargs)
        return {name: gradient for name, gradient in gradients.items() if gradient is not None}


class DDPGConfig(SACConfig):
    """A configuration based on SAC's, which has the settings of off-policy training: next observations in batches, tau, n_step,
    replay, two learning rates."""

    module_class: type[TorchRLModule] = DDPGModule
    learner_class_: type[TorchLearner] = DDPGLearner

    def __init__(self, algo_class: type[OffPolicy] | None = None) -> None:
        super().__init__(algo_class=algo_class or DDPG)
        self.actor_lr, self.critic_lr, self.alpha_lr = 1e-4, 1e-3, None
        self.weight_decay = self.preactivation_l2 = 0.0
        self.tau = 1e-3
        self.ou_theta, self.ou_sigma = 0.15, 0.2
        self.critics = 1
        self.rollout_fragment_length = FRAGMENT
        self.replay_buffer_config = {"type": "EpisodeReplayBuffer", "capacity": 100_000}

    def training(
        self,
        *,
        weight_decay: Any = NotProvided,
        preactivation_l2: Any = NotProvided,
        ou_theta: Any = NotProvided,
        ou_sigma: Any = NotProvided,
        **kwargs: Any,
    ) -> DDPGConfig:
        super().training(**kwargs)
        self.take(weight_decay=weight_decay, preactivation_l2=preactivation_l2, ou_theta=ou_theta, ou_sigma=ou_sigma)
        return self

    def take(self, **values: Any) -> None:
        """Sets the values that were provided."""
        for name, value in values.items():
            if value is not NotProvided:
                setattr(self, name, value)

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=self.module_class)

    def get_default_learner_class(self) -> type[TorchLearner]:
        return self.learner_class_

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        settings = {"critics": self.critics, "ou_theta": self.ou_theta, "ou_sigma": self.ou_sigma}
        return super()._model_config_auto_includes | settings


class DDPG(OffPolicy):
    """RLlib's Algorithm of DDPG."""

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return DDPGConfig()
