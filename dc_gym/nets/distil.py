# SPDX-License-Identifier: Apache-2.0
"""Trees that imitate a network (RL-CC sec. V), fitted to the inputs where the network is used.

There are three kinds of rows: situations of all sizes; situations close to rest, which decide where flows settle; and situations
that the network itself produces in the closed loop, which decide how flows get there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dc_gym.base.errors import AgentError
from dc_gym.nets import response, trees
from dc_gym.nets.decision import Floats, Scaling
from dc_gym.nets.fluid import Bottleneck, Fluid, Policy
from dc_gym.nets.mlp import Mlp
from dc_gym.nets.nic_policy import Deployed, NicPolicy

LOOPS = tuple((flows, noise) for flows in (2, 6, 16, 48, 128, 400) for noise in (0.0, 0.3))
"""The bottlenecks, as (flows, noise), on which the network is watched."""
ENDS, BEYOND = 0.8345, 0.825
"""The network's actions below ENDS are within 0.15 % of their lowest value; trees are fitted to BEYOND there instead. What trees
answer below the lowest action is clipped; an answer above it makes a flood last longer."""
ASIDE = 0.003
PARTS, ROUND_TRIPS, WATCHED = 4, 120, 6
"""Parts and base round trips of each bottleneck, and how many of the flows that decide together are recorded."""


FLOODS, BUFFER, FLOOD_ROUND_TRIPS = (4, 16, 64, 256), 40.0, 1500
"""The numbers of flows that begin together at line rate, and the buffer that they fill (in units of what the line sends in a base
round trip). They are watched until the buffer is empty, at most for FLOOD_ROUND_TRIPS."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a distillation."""

    seed: int = 1
    trees: int = 20
    rows: int = 40_000
    """Number of rows of the first two kinds together; each kind has half."""
    close_weight: float = 30.0
    """Weight of a row close to rest."""
    loop_weight: float = 1.0
    """Total weight of the closed loop's rows, relative to that of all other rows."""


def situations(random: np.random.Generator, count: int, unit: float) -> Floats:
    """Returns inputs [4, count] that a flow may meet. Most errors are within a few targets and near one another."""
    kind, spread, at = random.random(count), random.random((2, count)), random.random((2, count))
    old = np.where(kind < 0.5, 3.0 * spread[0] - 1.0, np.where(kind < 0.7, 2.0 * spread[0] - 1.0, 9.0 * spread[0] - 1.0))
    new = np.where(kind < 0.5, old + 3.0 * spread[1] - 1.5, np.where(kind < 0.7, 2.0 * spread[1] - 1.0, 9.0 * spread[1] - 1.0))
    far = kind > 0.9
    old = np.where(far, 101.0 * spread[0] * spread[0] * spread[0] - 1.0, old)
    new = np.where(far, 101.0 * spread[1] * spread[1] * spread[1] - 1.0, new)
    near = random.random((2, count)) < 0.5
    actions = 1.0 + np.where(near, 0.04, 0.4) * (at - 0.5)
    return np.stack([actions[0], np.maximum(old, -1.0) * unit, actions[1], np.maximum(new, -1.0) * unit])


def close(random: np.random.Generator, count: int, unit: float) -> Floats:
    """Returns inputs [4, count] within 0.6 targets of where flows rest, with small changes between the two errors."""
    spread, actions = random.random((2, count)), 1.0 + 0.04 * (random.random((2, count)) - 0.5)
    rest = response.OFFSET + 1.2 * (spread[0] - 0.5)
    return np.stack([actions[0], rest * unit, actions[1], (rest + 0.3 * (spread[1] - 0.5)) * unit])


def watched(policy: Policy, scaling: Scaling, seed: int) -> Floats:
    """Returns the inputs [rows, 4] that a policy produces in the closed loop."""
    seen = []
    for flows, noise in LOOPS:
        model = Fluid(Bottleneck(flows, parts=PARTS, noise=noise, seed=seed), scaling)
        for step in range(PARTS * ROUND_TRIPS):
            who = model.step(policy)
            if len(who) and step >= 2 * PARTS:
                seen.append(model.inputs[who[:WATCHED]])
    return np.concatenate(seen)


def flooded(policy: Policy, scaling: Scaling) -> Floats:
    """Returns the inputs [rows, 4] that a policy produces while a flood drains: large lasting errors, rare elsewhere."""
    seen = []
    for flows in FLOODS:
        model = Fluid(Bottleneck(flows, parts=PARTS, buffer=BUFFER, start=1.0), scaling)
        for step in range(PARTS * FLOOD_ROUND_TRIPS):
            who = model.step(policy)
            if len(who):
                seen.append(model.inputs[who[:WATCHED]])
            if step > PARTS * BUFFER and model.queue < 1.0:
                break
    return np.concatenate(seen)


def borders(unit: float) -> tuple[Floats, ...]:
    """Returns the borders at which trees may split each input; they are finer close to rest.

    No border is a round value that inputs may have, because then the last bit would decide on which side an input falls.
    """
    near = np.arange(-24, 37) / 40.0 + response.OFFSET
    wide = np.concatenate([np.arange(-9, 21) / 10.0, np.arange(5, 21) / 2.0, [15.0]]) + ASIDE
    errors = np.unique(np.concatenate([near, wide])) * unit
    acted = np.array([0.91, 0.96, 1.04, 1.09])
    return acted, errors, acted, errors


@dataclass(frozen=True, slots=True)
class Rows:
    """The inputs that trees are fitted to, with their weights."""

    inputs: Floats
    """[rows, 4]"""
    weights: Floats


def rows(net: NicPolicy, recipe: Recipe) -> Rows:
    """Returns rows of all three kinds. The network is watched in integers, since tanh differs between machines."""
    random, half, scaling = np.random.default_rng(recipe.seed), recipe.rows // 2, net.scaling
    drawn = [situations(random, half, scaling.unit).T, close(random, half, scaling.unit).T]
    inputs = np.concatenate([*drawn, watched(Deployed(net.table()), scaling, recipe.seed)])
    weights = np.concatenate([np.ones(half), np.full(half, recipe.close_weight)])
    looped = len(inputs) - len(weights)
    weights = np.concatenate([weights, np.full(looped, recipe.loop_weight * float(weights.sum()) / looped)])
    return Rows(inputs, weights)


def aims(net: Mlp, inputs: Floats) -> Floats:
    """Returns the actions that trees are fitted to: the network's, rounded, with those near the lowest replaced by BEYOND."""
    actions = np.round(net(inputs) * 2.0**30) / 2.0**30
    return np.where(actions < ENDS, BEYOND, actions)


def network_of(net: NicPolicy, count: int) -> Mlp:
    """Returns the network to distil.

    Raises AgentError if the policy is no network without memory, or if `count` is out of range.
    """
    if not isinstance(net.policy, Mlp):
        raise AgentError(
            f"a policy of the kind {net.kind!r} is not distilled to trees; give a network without a memory: rlcc-mlp"
        )
    if not 0 < count <= trees.MOST_TREES:
        raise AgentError(f"{count} trees: give 1 to {trees.MOST_TREES}")
    return net.policy


def tree_file(net: NicPolicy, recipe: Recipe | None = None, given: Rows | None = None) -> NicPolicy:
    """Returns a network's policy as trees, fitted to `given` or, by default, to `rows`."""
    recipe = recipe or Recipe()
    network, found = network_of(net, recipe.trees), given or rows(net, recipe)
    made = trees.Fit(recipe.trees)(found.inputs, aims(network, found.inputs), found.weights, borders(net.scaling.unit))
    provenance = distilled_from(net, "dcgym nic fit") | {"seed": recipe.seed, "settings": asdict(recipe)}
    return NicPolicy(made, net.scaling, provenance)


def distilled_from(net: NicPolicy, command: str) -> dict[str, Any]:
    """Returns the provenance of trees that a command distils from a network."""
    return {"command": command, "made": "distilled", "source_sha256": net.sha256(), "network": dict(net.provenance)}
