# SPDX-License-Identifier: Apache-2.0
"""An RLModule for PPO whose weights all hosts, or all flows, share (learn/rllib/sets.py).

If nothing is observed of each, the whole is one actor that sets all values. Its policy is a Gaussian with one deviation for all
actors and observations. Its value function pools over the actors.
Keys of [model]: `hidden` (units of an actor in each layer), `log_std` (at the start), `value_scale`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn

from dc_gym.learn.rllib.algorithms.nets import width
from dc_gym.learn.rllib.sets import Layout, SharedLayer

OBSERVATION = "observation"
"""The key of the model's config for the names of the observation."""
HIDDEN, LOG_STD, VALUE_SCALE = (32, 32), -0.7, 10.0
LEAST_DEVIATION = 0.01
SMALL = 0.01
"""The factor of the policy's last weights at the start, so that all first actions are near the middle of their range."""


class SetLayer(nn.Module):
    """A layer, on [batch, actors, inputs], with what it gets of the network."""

    def __init__(self, inputs: int, units: int, network: int = 0) -> None:
        super().__init__()
        self.own, self.pooled = nn.Linear(inputs, units), nn.Linear(inputs, units, bias=False)
        self.network = nn.Linear(network, units, bias=False) if network else None

    def forward(self, x: torch.Tensor, network: torch.Tensor | None = None) -> torch.Tensor:
        context = self.pooled(x.mean(-2, keepdim=True))
        if self.network is not None and network is not None:
            context = context + self.network(network).unsqueeze(-2)
        y: torch.Tensor = self.own(x) + context
        return y

    def shared(self) -> SharedLayer:
        own, pooled, bias = (parameter.detach().numpy() for parameter in (self.own.weight, self.pooled.weight, self.own.bias))
        network = self.network.weight.detach().numpy() if self.network is not None else own[:, :0]
        return SharedLayer(own, pooled, bias, network)


class Scaled(nn.Module):
    """Features less their mean, over their deviation. Both are those of the first batch, and stay."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))

    def fit(self, x: torch.Tensor) -> None:
        if len(self.mean):
            rows = x.flatten(0, -2)
            self.mean.copy_(rows.mean(0))
            self.deviation.copy_(rows.std(0, correction=0).clamp_min(LEAST_DEVIATION))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = (x - self.mean) / self.deviation
        return y


class SetNet(nn.Module):
    """Layers with tanh between them, from an observation to `outputs` numbers for each actor."""

    def __init__(self, layout: Layout, hidden: Sequence[int], outputs: int = 1) -> None:
        super().__init__()
        self.actors, self.network = torch.from_numpy(layout.actors), torch.from_numpy(layout.network)
        self.own, self.common = Scaled(layout.actors.shape[1]), Scaled(len(layout.network))
        sizes = [layout.actors.shape[1], *hidden, outputs]
        parts = [len(layout.network), *[0] * len(hidden)]
        self.layers = nn.ModuleList(
            SetLayer(inputs, units, part) for inputs, units, part in zip(sizes, sizes[1:], parts, strict=False)
        )

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        x, network = self.own(observation[..., self.actors]), self.common(observation[..., self.network])
        for number, layer in enumerate(self.layers):
            x = layer(torch.tanh(x) if number else x, network)
        return x.flatten(-2)

    def fit(self, observation: torch.Tensor) -> None:
        """Scales what it observes by a batch."""
        self.own.fit(observation[..., self.actors])
        self.common.fit(observation[..., self.network])

    def shared(self) -> list[SharedLayer]:
        """Returns the layers for an observation that is not scaled."""
        layers: list[SharedLayer] = [layer.shared() for layer in self.layers]
        first, own, common = layers[0], self.own, self.common
        before = (first.own + first.pooled) @ (own.mean / own.deviation).numpy()
        before = before + first.network @ (common.mean / common.deviation).numpy()
        weights = {"own": first.own / own.deviation.numpy(), "pooled": first.pooled / own.deviation.numpy()}
        network = first.network / common.deviation.numpy()
        layers[0] = replace(first, bias=first.bias - before, network=network, **weights)
        return layers


class SetModule(TorchRLModule, InferenceOnlyAPI, ValueFunctionAPI):
    """The policy, and on a learner the value function."""

    def setup(self) -> None:
        names, values = self.model_config[OBSERVATION], width(self.action_space)
        self.layout = Layout.of(names, values)
        hidden = self.model_config.get("hidden", HIDDEN)
        self.pi = SetNet(self.layout, hidden, values // len(self.layout.actors))
        last = self.pi.layers[-1]
        with torch.no_grad():
            for parameter in last.parameters():
                parameter *= SMALL
        self.log_std = nn.Parameter(torch.tensor(float(self.model_config.get("log_std", LOG_STD))))
        self.value_scale = float(self.model_config.get("value_scale", VALUE_SCALE))
        self.register_buffer("fitted", torch.tensor(False))
        if not self.inference_only:
            self.vf = SetNet(self.layout, hidden)

    def policy_net(self) -> nn.Sequential:
        """Returns the dense net from observation to action, for the export."""
        layers: list[nn.Module] = []
        for number, layer in enumerate(self.pi.shared()):
            weight, bias = layer.dense(len(self.layout.actors), None if number else self.layout)
            dense = nn.Linear(weight.shape[1], weight.shape[0])
            dense.weight.data, dense.bias.data = torch.from_numpy(weight), torch.from_numpy(bias)
            layers += [nn.Tanh(), dense] if number else [dense]
        return nn.Sequential(*layers)

    def get_non_inference_attributes(self) -> list[str]:
        return ["vf"]

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        mean = self.pi(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: torch.cat([mean, self.log_std.expand_as(mean)], -1)}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if not self.fitted:
            for net in (self.pi, self.vf):
                net.fit(batch[Columns.OBS])
            self.fitted.fill_(True)
        return self._forward(batch, **kwargs)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        return self.value_scale * self.vf(batch[Columns.OBS]).mean(-1)
