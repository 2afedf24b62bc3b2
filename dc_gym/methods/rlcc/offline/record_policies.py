# SPDX-License-Identifier: Apache-2.0
"""Makes record-mlp, record-tree and rlcc-mlp8.

record-mlp is a 4-12-12-1 network fitted to RL-CC's response as far as it is published. record-tree is the same policy as trees.
rlcc-mlp8 is the trained network in 8 bits.

One seed gives the same bytes on every machine: random draws are uniform, sums are added in a fixed order, and no unrounded result
of exp or tanh is fed back into training.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dc_gym.methods.rlcc import mlp
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.mlp import Mlp
from dc_gym.methods.rlcc.offline import distil, importing, response, rows
from dc_gym.methods.rlcc.offline.distil import Distillation
from dc_gym.nets import nic_policy
from dc_gym.nets.adam import Adam
from dc_gym.nets.fixed_point import Floats
from dc_gym.nets.nic_policy import NicPolicy

COMMAND = "dcgym method rlcc rebuild"
FLAT = 3.5
"""Limit on the sums before tanh. All sums beyond it count as equal, since the action is then within 0.1 % of its extreme."""

SOURCE = "the response of RL-CC's public artifact as it is on record: Table VI's nine cells and seven steady errors (response.py)"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of the fit."""

    seed: int = 1
    steps: int = 4000
    rows: int = 512
    """Number of drawn situations per step."""
    learning_rate: float = 0.01
    """Initial learning rate; decays linearly to 0."""
    record_weight: float = 4.0
    """Weight of a published record; a drawn situation has 1."""


RECORD_TREES = Distillation(20, sources=(distil.MODEL,), near_weight=30.0)
"""As many trees as the artifact fits."""


def policies(recipe: Recipe | None = None) -> dict[str, NicPolicy]:
    """Returns the policies by the names that they ship under."""
    recipe, scaling = recipe or Recipe(), Scaling()
    provenance: dict[str, Any] = {"command": COMMAND, "made": "fitted, not trained", "source": SOURCE}
    provenance |= {"seed": recipe.seed, "settings": asdict(recipe)}
    net = NicPolicy(network(recipe, scaling), scaling, provenance)
    fitted_policies = {"record-mlp": net, "record-tree": distil.make(net, RECORD_TREES, COMMAND)}
    return fitted_policies | {"rlcc-mlp8": importing.in_8_bits(nic_policy.load("rlcc-mlp"), COMMAND)}


def network(recipe: Recipe, scaling: Scaling) -> Mlp:
    """Returns the network, fitted to the smooth response and to the records themselves."""
    random = np.random.default_rng(recipe.seed)
    curve, unit = response.fit_response(), scaling.unit
    points = response.records()
    exact, sums = recorded(unit), np.array([point.sum for point in points])
    exact_weight = np.array([point.weight for point in points]) * recipe.record_weight
    weights = mlp.random_network(random).weights
    adam = Adam(weights)
    for step in range(recipe.steps):
        drawn = rows.situations(random, recipe.rows, unit)
        inputs = np.concatenate([drawn, exact], axis=1)
        goal = np.concatenate([curve.sums(drawn[1] / unit, drawn[3] / unit), sums])
        weight = np.concatenate([np.ones(recipe.rows), exact_weight]) / (1.0 + goal * goal) ** 2
        outputs = mlp.layers(weights, inputs)
        miss = np.clip(outputs[2][0], -FLAT, FLAT) - np.clip(goal, -FLAT, FLAT)
        pull = np.where((np.abs(outputs[2][0]) < FLAT) | (miss * outputs[2][0] > 0), weight * miss, 0.0) / recipe.rows
        slopes = mlp.gradient(weights, inputs, outputs, pull)
        weights = adam.step(weights, slopes, recipe.learning_rate * (1.0 - step / recipe.steps))
    return Mlp(weights)


def recorded(unit: float) -> Floats:
    """Returns the published situations as inputs [4, records]: the cells of decision.cells, and the steady errors."""
    points = response.records()
    acted = [[1.1 if abs(error) == 1 and number < 9 else 1.0 for error in (p.before, p.now)] for number, p in enumerate(points)]
    return np.array([[a[0], p.before * unit, a[1], p.now * unit] for a, p in zip(acted, points, strict=True)]).T
