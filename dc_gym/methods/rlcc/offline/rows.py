# SPDX-License-Identifier: Apache-2.0
"""The rows of inputs that trees are fitted to: drawn situations, and a network's inputs in the fluid model's closed loop.

The network runs in integers there, since tanh differs between machines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.methods.rlcc.decision import MAX_ACTION, Scaling
from dc_gym.methods.rlcc.fluid import Bottleneck, Fluid, Policy
from dc_gym.methods.rlcc.offline import response
from dc_gym.nets.fixed_point import Floats
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy

LOOPS = tuple((flows, noise) for flows in (2, 6, 16, 48, 128, 400) for noise in (0.0, 0.3))
"""The bottlenecks, as (flows, noise), of the closed loop."""
STEPS_PER_RTT, ROUND_TRIPS, RECORDED_FLOWS = 4, 120, 6
"""Parts and base round trips of each bottleneck, and how many of the flows that decide together are recorded."""
FLOODS, BUFFER, FLOOD_ROUND_TRIPS = (4, 16, 64, 256), 40.0, 1500
"""The numbers of flows that begin together at line rate, and the buffer that they fill (in units of the line's bytes in a base
round trip). They are recorded until the buffer is empty, at most for FLOOD_ROUND_TRIPS."""
PERSISTENT_MIN, PERSISTENT_MAX = 2.0, 100.0
"""The range of persistent errors, in targets."""
BAND = 1.0
"""The operating band: both errors are within this many targets of 0."""
GRID_ACTIONS = np.linspace(0.8, 1.2, 1000)


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """Rows to fit trees to: a policy's inputs, and the weight of each row."""

    inputs: Floats
    """[rows, 4]"""
    weights: Floats


def model(net: NicPolicy, seed: int, count: int, near_weight: float) -> WeightedRows:
    """Returns rows of three kinds: situations of all sizes, situations close to rest, and situations of the closed loop.

    The first two kinds have `count` rows together, half each. A row close to rest has the weight `near_weight`. The closed loop
    has as much weight as all other rows.
    """
    random, half, scaling = np.random.default_rng(seed), count // 2, net.scaling
    drawn = [situations(random, half, scaling.unit).T, near_rest(random, half, scaling.unit).T]
    inputs = np.concatenate([*drawn, closed_loop_inputs(TablePolicy(net.table()), scaling, seed)])
    weights = np.concatenate([np.ones(half), np.full(half, near_weight)])
    looped = len(inputs) - len(weights)
    return WeightedRows(inputs, np.concatenate([weights, np.full(looped, float(weights.sum()) / looped)]))


def flood(net: NicPolicy, seed: int) -> WeightedRows:
    """Returns the rows of a flood, with random actions.

    The actions in a flood are all alike, and trees would take any cut or raise as the sign of a flood.
    """
    inputs = flood_inputs(TablePolicy(net.table()), net.scaling)
    inputs[:, [0, 2]] = _any_actions(np.random.default_rng(seed), (len(inputs), 2))
    return WeightedRows(inputs, np.ones(len(inputs)))


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


def near_rest(random: np.random.Generator, count: int, unit: float) -> Floats:
    """Returns inputs [4, count] within 0.6 targets of where flows rest, with small changes between the two errors."""
    spread, actions = random.random((2, count)), 1.0 + 0.04 * (random.random((2, count)) - 0.5)
    rest = response.OFFSET + 1.2 * (spread[0] - 0.5)
    return np.stack([actions[0], rest * unit, actions[1], (rest + 0.3 * (spread[1] - 0.5)) * unit])


def closed_loop_inputs(policy: Policy, scaling: Scaling, seed: int) -> Floats:
    """Returns the inputs [rows, 4] that a policy produces in the closed loop."""
    inputs = []
    for flows, noise in LOOPS:
        model = Fluid(Bottleneck(flows, steps_per_rtt=STEPS_PER_RTT, noise=noise, seed=seed), scaling)
        for step in range(STEPS_PER_RTT * ROUND_TRIPS):
            deciding_flows = model.step(policy)
            if len(deciding_flows) and step >= 2 * STEPS_PER_RTT:
                inputs.append(model.inputs[deciding_flows[:RECORDED_FLOWS]])
    return np.concatenate(inputs)


def flood_inputs(policy: Policy, scaling: Scaling) -> Floats:
    """Returns the inputs [rows, 4] that a policy produces while a flood drains: large errors that persist, rare elsewhere."""
    inputs = []
    for flows in FLOODS:
        model = Fluid(Bottleneck(flows, steps_per_rtt=STEPS_PER_RTT, buffer_bdp=BUFFER, start_rate=1.0), scaling)
        for step in range(STEPS_PER_RTT * FLOOD_ROUND_TRIPS):
            deciding_flows = model.step(policy)
            if len(deciding_flows):
                inputs.append(model.inputs[deciding_flows[:RECORDED_FLOWS]])
            if step > STEPS_PER_RTT * BUFFER and model.queue < 1.0:
                break
    return np.concatenate(inputs)


def persistent_errors(random: np.random.Generator, count: int, unit: float) -> Floats:
    """Returns inputs [count, 4] with errors of 2 to 100 targets that stay within a twentieth, and with random actions.

    Small errors are drawn more often than large ones.
    """
    part, share = random.random((2, count))
    error = PERSISTENT_MIN + (PERSISTENT_MAX - PERSISTENT_MIN) * part * part * part  # no pow(): it differs between machines
    now = np.minimum(error * (0.95 + 0.1 * share), PERSISTENT_MAX)
    actions = _any_actions(random, (2, count))
    return np.stack([actions[0], error * unit, actions[1], now * unit], axis=1)


def grid(random: np.random.Generator, count: int, unit: float) -> Floats:
    """Returns inputs [count, 4] as the artifact's script draws them.

    All are independent; half of the errors are within a target of 0, the others go up to 100 targets.
    """
    errors = np.concatenate([np.linspace(-1.0, 1.0, 5000), np.linspace(1.0, 100.0, 5000)]) * unit
    drawn = [values[random.integers(0, len(values), count)] for values in (GRID_ACTIONS, errors, GRID_ACTIONS, errors)]
    return np.stack(drawn, axis=1)


def _any_actions(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return 1.0 / MAX_ACTION + random.random(shape) * (MAX_ACTION - 1.0 / MAX_ACTION)


def near_target(inputs: Floats, unit: float) -> npt.NDArray[np.bool_]:
    """Returns which rows lie in the operating band."""
    return np.asarray((np.abs(inputs[:, [1, 3]]) <= BAND * unit).all(axis=1))
