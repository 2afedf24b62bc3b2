# SPDX-License-Identifier: Apache-2.0
"""RLlib's SAC, with the tanh of the policy also where it does not explore.

In Ray 2.60 the deterministic form of the squashed Gaussian is its mean without the tanh, so that an evaluation acts on clip(mean)
where the training learned tanh(mean).
"""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.sac.sac import SACConfig as RLlibConfig
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.distribution.torch.torch_distribution import TorchDeterministic, TorchSquashedGaussian
from ray.rllib.core.rl_module.rl_module import RLModuleSpec


class Squashed(TorchSquashedGaussian):
    def to_deterministic(self) -> Any:
        return TorchDeterministic(loc=self._squash(self.loc))


class SACModule(DefaultSACTorchRLModule):
    def get_inference_action_dist_cls(self) -> type[Squashed]:
        return Squashed


class SACConfig(RLlibConfig):
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=SACModule)
