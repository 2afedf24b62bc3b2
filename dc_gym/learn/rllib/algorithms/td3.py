# SPDX-License-Identifier: Apache-2.0
"""TD3 (Fujimoto et al. 2018) on RLlib's public API.

It is DDPG with three changes: the smaller value of two critics, a smoothed target action, and an actor that is updated less
often. Exploration uses white noise, as in that paper.
"""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided

from dc_gym.learn.rllib.algorithms.ddpg import DDPGConfig, DDPGLearner, DDPGModule
from dc_gym.learn.rllib.algorithms.off_policy import OffPolicy

NOISE_CLIP = 0.5


class TD3Module(DDPGModule):
    """DDPG's module with white noise."""

    def noise(self, actions: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        return float(self.model_config.get("noise", 0.1)) * torch.randn_like(actions)


class TD3Learner(DDPGLearner):
    """DDPG's learner with a smoothed target action and a delayed actor."""

    updates = 0

    def next_actions(self, module: Any, config: Any, observations: torch.Tensor) -> torch.Tensor:
        actions = super().next_actions(module, config, observations)
        noise = (config.target_noise * torch.randn_like(actions)).clamp(-NOISE_CLIP, NOISE_CLIP)
        return (actions + noise).clamp(-1, 1)

    def actor_learns(self, config: Any) -> bool:
        self.updates += 1
        return self.updates % int(config.policy_delay) == 0

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return super().get_state(*args, **kwargs) | {"td3_updates": self.updates}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self.updates = state.get("td3_updates", self.updates)


class TD3Config(DDPGConfig):
    """DDPG's configuration with two critics and the settings of TD3's noises and delay."""

    module_class = TD3Module
    learner_class_ = TD3Learner

    def __init__(self, algo_class: type[OffPolicy] | None = None) -> None:
        super().__init__(algo_class=algo_class or TD3)
        self.actor_lr = self.critic_lr = 1e-3
        self.tau = 5e-3
        self.critics = 2
        self.noise, self.target_noise, self.policy_delay = 0.1, 0.2, 2

    def training(
        self, *, noise: Any = NotProvided, target_noise: Any = NotProvided, policy_delay: Any = NotProvided, **kwargs: Any
    ) -> TD3Config:
        super().training(**kwargs)
        self.take(noise=noise, target_noise=target_noise, policy_delay=policy_delay)
        return self

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {"noise": self.noise}


class TD3(OffPolicy):
    """RLlib's Algorithm of TD3."""

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return TD3Config()
