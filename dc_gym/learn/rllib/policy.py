# SPDX-License-Identifier: Apache-2.0
"""Writes the policy of an RLModule to a file that numpy alone evaluates (docs/policy-file.md).

The net is read layer by layer. This works for RLlib's own modules (PPO, APPO, SAC, DQN), and for any module with `policy_net()`,
which returns an nn.Sequential from observation to action. The result is compared with the module itself before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from torch import nn

from dc_gym.base.errors import TestbedError
from dc_gym.learn.rllib.agents import SHARED
from dc_gym.learn.rllib.manifest import Manifest
from dc_gym.nets.agent_kinds import CENTRAL
from dc_gym.nets.agent_policy import ARGMAX, AgentPolicy

BETWEEN = {nn.Tanh: "tanh", nn.ReLU: "relu", nn.SiLU: "silu", nn.ELU: "elu"}
TOLERANCE = 1e-5
SAMPLES = 64


class NotExportable(TestbedError):
    """The error for a net that a policy file cannot hold."""


def module_of(about: Manifest) -> str:
    """Returns RLlib's name of the policy that a file can hold."""
    settings = about["settings"]
    if settings["agents"] == CENTRAL:
        return "default_policy"
    if settings["policies"] != "shared":
        raise NotExportable("each agent has a policy of its own, and a file holds one (--policies shared trains one for all)")
    return SHARED[settings["agents"]]


def write(module: Any, about: Manifest, steps: int, target: Path, **facts: Any) -> None:
    """Writes the policy of an RLModule whose training train.json describes, with further facts on its provenance."""
    policy = read(module, about, steps)
    replace(policy, provenance={**policy.provenance, **facts}).write(target)


def read(module: Any, about: Manifest, steps: int) -> AgentPolicy:
    """Returns the policy, after checking on samples that it acts as the module does."""
    policy = policy_of(module, about, steps)
    ends = ("clip", "tanh") if policy.output == "clip" else (policy.output,)  # a distribution may squash the net's output
    off = {end: difference(replace(policy, output=end), module) for end in ends}
    best = min(ends, key=lambda end: off[end])
    if not off[best] <= TOLERANCE:
        raise NotExportable(f"its layers alone act differently (by {off[best]:.2g} of the range); its policy has more than them")
    return replace(policy, output=best)


def policy_of(module: Any, about: Manifest, steps: int) -> AgentPolicy:
    spaces, settings = about["spaces"], about["settings"]
    levels = spaces["action"].get("discrete", 0)
    layers, activation, last = read_layers(list(_flat(_net(module))))
    if last not in (("",) if levels else ("", "tanh")):
        raise NotExportable(f"its net ends in {last}, and a policy file in nothing or tanh")
    low, high = (np.asarray(spaces["action"][end], np.float32) for end in ("low", "high"))
    outputs = levels or len(low)
    weights = [layer.weight.detach().cpu().numpy() for layer in layers]
    biases = [layer.bias.detach().cpu().numpy() for layer in layers]
    weights[-1], biases[-1] = weights[-1][:outputs], biases[-1][:outputs]  # the rows after the means are log deviations
    return AgentPolicy(
        tuple(weights),
        tuple(biases),
        low,
        high,
        tuple(spaces["observation"]),
        tuple(spaces["hosts"]),
        activation,
        ARGMAX if levels else last or "clip",
        agents=settings["agents"],
        settings=about["environment"],
        provenance={
            "command": "dcgym train",
            "algorithm": about["algorithm"],
            "seed": settings["seed"],
            "steps": steps,
            "fingerprint": about["fingerprint"],
            "versions": about["versions"],
        },
    )


def difference(policy: AgentPolicy, module: Any) -> float:
    """Returns the largest difference between file and module on random observations, as a share of the range."""
    generator = np.random.default_rng(0)
    observations = generator.uniform(-1, 1, (SAMPLES, len(policy.observation))).astype(np.float32)
    actions = np.stack([policy.act(observation) for observation in observations])
    return float(np.abs(actions - actions_of(module, observations, policy)).max() / (policy.high - policy.low).max())


def actions_of(module: Any, observations: Any, policy: AgentPolicy) -> Any:
    """Returns RLlib's actions without exploration, in the environment's own range."""
    with torch.no_grad():
        out = module.forward_inference({Columns.OBS: torch.as_tensor(observations)})
        if Columns.ACTIONS in out:
            acted = out[Columns.ACTIONS]
        else:
            distribution = module.get_inference_action_dist_cls().from_logits(out[Columns.ACTION_DIST_INPUTS])
            acted = distribution.to_deterministic().sample()
    y = np.clip(acted.numpy(), -1, 1)
    if policy.output == ARGMAX:
        y = 2 * acted.numpy()[:, None] / (len(policy.biases[-1]) - 1) - 1
    return policy.low + (y + 1) * (policy.high - policy.low) / 2


def read_layers(modules: list[nn.Module]) -> tuple[list[nn.Linear], str, str]:
    """Returns the dense layers, the activation between them, and the one after the last ("" if there is none)."""
    layers: list[nn.Linear] = []
    kinds: list[str] = []
    for module in modules:
        if isinstance(module, nn.Linear):
            layers.append(module)
            kinds.append("")
        elif type(module) in BETWEEN and layers and not kinds[-1]:
            kinds[-1] = BETWEEN[type(module)]
        elif not isinstance(module, nn.Identity):
            raise NotExportable(f"its net has a {type(module).__name__}, and a policy file holds dense layers alone")
    if not layers or len(set(kinds[:-1])) > 1 or "" in kinds[:-1]:
        raise NotExportable("its net does not have one activation between all dense layers")
    if any(layer.bias is None for layer in layers):
        raise NotExportable("its net has layers without bias")
    return layers, kinds[0] if len(layers) > 1 else "linear", kinds[-1]


def _net(module: Any) -> list[nn.Module]:
    """Returns the modules from observation to action, in order."""
    if hasattr(module, "policy_net"):
        return [module.policy_net()]
    if hasattr(module, "pi_encoder"):  # SAC
        return [module.pi_encoder, module.pi]
    if hasattr(module, "pi") and hasattr(module, "encoder"):  # PPO, APPO
        encoder = module.encoder
        return [getattr(encoder, "actor_encoder", None) or encoder.encoder, module.pi]
    if hasattr(module, "af") and hasattr(module, "encoder"):  # DQN: dueling adds the same to all values, so the choice is equal
        return [module.encoder, module.af]
    raise NotExportable(f"{type(module).__name__} has no policy_net(); docs/extending.md says what that is")


def _flat(modules: list[nn.Module]) -> Iterator[nn.Module]:
    """Yields the modules without submodules, in the order of their creation. RLlib's nets and nn.Sequential run them in that
    order."""
    for module in modules:
        parts = list(module.children())
        if parts:
            yield from _flat(parts)
        elif not isinstance(module, nn.Sequential):
            yield module
