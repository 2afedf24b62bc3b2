# SPDX-License-Identifier: Apache-2.0
"""RLlib's SAC with the sampling and replay of off_policy.py, and with the policy's tanh also applied when it does not explore.

In Ray 2.60 the deterministic form of the squashed Gaussian is its mean without the tanh. An evaluation would therefore act on
clip(mean), where the training learned tanh(mean).
"""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.sac.sac import SAC as RLlibSAC
from ray.rllib.algorithms.sac.sac import SACConfig as RLlibConfig
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.distribution.torch.torch_distribution import TorchDeterministic, TorchSquashedGaussian
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from dc_gym.learn.rllib.algorithms.off_policy import FRAGMENT, OffPolicy


class Squashed(TorchSquashedGaussian):
    """A squashed Gaussian whose deterministic form is tanh(mean)."""

    def to_deterministic(self) -> Any:
        return TorchDeterministic(loc=self._squash(self.loc))


class SACModule(DefaultSACTorchRLModule):
    """RLlib's module, which acts by Squashed when it does not explore."""

    def get_inference_action_dist_cls(self) -> type[Squashed]:
        return Squashed


class SACConfig(RLlibConfig):
    """RLlib's configuration, with the sampling of off_policy.py."""

    def __init__(self, algo_class: type[OffPolicy] | None = None) -> None:
        super().__init__(algo_class=algo_class or SAC)
        self.rollout_fragment_length = FRAGMENT

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=SACModule)


class SAC(OffPolicy, RLlibSAC):
    """RLlib's Algorithm of SAC, on the replay of off_policy.py."""

    @classmethod
    def get_default_config(cls) -> SACConfig:
        return SACConfig()
