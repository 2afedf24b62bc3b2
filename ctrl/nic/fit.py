# SPDX-License-Identifier: Apache-2.0
"""The policies that ship: a 4-12-12-1 network fitted to RL-CC's response as far as it is on record, and trees distilled from it.

They are stand-ins with the published response, not trained ones. One seed gives the same bytes on every machine: draws are
uniform, sums are made in a fixed order, and nothing that training feeds back goes through exp or tanh.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from dc_gym.ctrl.nic import response, trees
from dc_gym.ctrl.nic.adam import Adam
from dc_gym.ctrl.nic.mlp import SHAPES, Mlp, gradient, layers
from dc_gym.ctrl.nic.observation import Floats, Scaling
from dc_gym.ctrl.nic.policy_file import PolicyFile

FLAT = 3.5
"""Sums beyond it are all the same: the action is within 0.1 % of its end."""

SOURCE = "the response of RL-CC's public artifact as it is on record: Table VI's nine cells and seven steady errors (response.py)"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the shipped policies are made."""

    seed: int = 1
    steps: int = 4000
    rows: int = 512
    """Situations a step."""
    rate: float = 0.01
    """Of learning, at first; it falls to 0 on a straight line."""
    record_weight: float = 4.0
    """Of a record, in situations."""
    distil_rows: int = 40_000
    """Situations that trees are fitted to."""
    close_weight: float = 10.0
    """Of a situation close to rest among them."""
    trees: int = 10


def policies(recipe: Recipe | None = None) -> dict[str, PolicyFile]:
    """Both, by the algorithm that runs them."""
    recipe, scaling = recipe or Recipe(), Scaling()
    origin = {"made": "fitted, not trained", "from": SOURCE, "by": "dcgym nic fit", "recipe": _of_network(recipe)}
    net = PolicyFile(network(recipe, scaling), scaling, origin)
    return {"rlcc-mlp": net, "rlcc-tree": tree_file(net, recipe)}


def tree_file(net: PolicyFile, recipe: Recipe) -> PolicyFile:
    """A network's policy as trees."""
    assert isinstance(net.policy, Mlp)
    how = {name: value for name, value in asdict(recipe).items() if name not in _of_network(recipe) or name == "seed"}
    origin = {"made": "distilled", "from sha256": net.sha256(), "recipe": how, "network": dict(net.origin)}
    return PolicyFile(distilled(net.policy, recipe, net.scaling), net.scaling, origin)


def _of_network(recipe: Recipe) -> dict[str, float]:
    return {name: getattr(recipe, name) for name in ("seed", "steps", "rows", "rate", "record_weight")}


def situations(random: np.random.Generator, count: int, unit: float) -> Floats:
    """Inputs [4, count] that a flow may meet: mostly within a few targets, where both errors are near one another."""
    kind, spread, at = random.random(count), random.random((2, count)), random.random((2, count))
    old = np.where(kind < 0.5, 3.0 * spread[0] - 1.0, np.where(kind < 0.7, 2.0 * spread[0] - 1.0, 9.0 * spread[0] - 1.0))
    new = np.where(kind < 0.5, old + 3.0 * spread[1] - 1.5, np.where(kind < 0.7, 2.0 * spread[1] - 1.0, 9.0 * spread[1] - 1.0))
    far = kind > 0.9
    old = np.where(far, 101.0 * spread[0] * spread[0] * spread[0] - 1.0, old)
    new = np.where(far, 101.0 * spread[1] * spread[1] * spread[1] - 1.0, new)
    near = random.random((2, count)) < 0.5
    actions = 1.0 + np.where(near, 0.04, 0.4) * (at - 0.5)
    return np.stack([actions[0], np.maximum(old, -1.0) * unit, actions[1], np.maximum(new, -1.0) * unit])


def network(recipe: Recipe, scaling: Scaling) -> Mlp:
    """The network, fitted to the smooth response and to the records themselves."""
    random = np.random.default_rng(recipe.seed)
    curve, unit = response.fitted(), scaling.unit
    points = response.records()
    exact, sums = recorded(unit), np.array([point.sum for point in points])
    exact_weight = np.array([point.weight for point in points]) * recipe.record_weight
    weights = start(random)
    adam = Adam(weights)
    for step in range(recipe.steps):
        drawn = situations(random, recipe.rows, unit)
        inputs = np.concatenate([drawn, exact], axis=1)
        goal = np.concatenate([curve.sums(drawn[1] / unit, drawn[3] / unit), sums])
        weight = np.concatenate([np.ones(recipe.rows), exact_weight]) / (1.0 + goal * goal) ** 2
        given = layers(weights, inputs)
        miss = np.clip(given[2][0], -FLAT, FLAT) - np.clip(goal, -FLAT, FLAT)
        pull = np.where((np.abs(given[2][0]) < FLAT) | (miss * given[2][0] > 0), weight * miss, 0.0) / recipe.rows
        weights = adam.step(weights, gradient(weights, inputs, given, pull), recipe.rate * (1.0 - step / recipe.steps))
    return Mlp(weights)


def recorded(unit: float) -> Floats:
    """The situations on record as inputs [4, records]: the nine cells as observation.cells, steady ones with actions of 1."""
    points = response.records()
    acted = [[1.1 if abs(e) == 1 and number < 9 else 1.0 for e in (p.before, p.now)] for number, p in enumerate(points)]
    return np.array([[a[0], p.before * unit, a[1], p.now * unit] for a, p in zip(acted, points, strict=True)]).T


def start(random: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Random weights, uniform within sqrt(3 / inputs)."""
    drawn = [(2.0 * random.random(shape) - 1.0) * np.sqrt(3.0 / shape[1]) for shape in SHAPES]
    return drawn[0], drawn[1], drawn[2]


def rows_to_distil(random: np.random.Generator, recipe: Recipe, unit: float) -> tuple[Floats, Floats]:
    """Inputs [rows, 4] and weights: the situations above, and as many close to where flows rest, which count more."""
    half = recipe.distil_rows // 2
    wide = situations(random, half, unit)
    spread, actions = random.random((2, half)), 1.0 + 0.04 * (random.random((2, half)) - 0.5)
    rest = response.OFFSET + 1.2 * (spread[0] - 0.5)
    close = np.stack([actions[0], rest * unit, actions[1], (rest + 0.3 * (spread[1] - 0.5)) * unit])
    weights = np.concatenate([np.ones(half), np.full(half, recipe.close_weight)])
    return np.ascontiguousarray(np.concatenate([wide, close], axis=1).T), weights


def borders(unit: float) -> tuple[Floats, ...]:
    """Where trees may cut each input: finer, the closer to rest."""
    close = np.arange(-24, 37) / 40.0 + response.OFFSET
    wide = np.concatenate([np.arange(-9, 21) / 10.0, np.arange(5, 21) / 2.0, [15.0, 25.0, 50.0]])
    errors = np.unique(np.concatenate([close, wide])) * unit
    acted = np.array([0.9, 0.95, 1.05, 1.1])
    return acted, errors, acted, errors


def distilled(net: Mlp, recipe: Recipe, scaling: Scaling) -> trees.Trees:
    """Trees that answer as the network does; actions are rounded, so that no machine's tanh matters."""
    inputs, weights = rows_to_distil(np.random.default_rng(recipe.seed), recipe, scaling.unit)
    actions = np.round(net(inputs) * 2.0**30) / 2.0**30
    return trees.Fit(recipe.trees)(inputs, actions, weights, borders(scaling.unit))
