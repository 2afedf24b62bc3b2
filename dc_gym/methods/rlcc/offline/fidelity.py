# SPDX-License-Identifier: Apache-2.0
"""Measures how far trees are from the network that they were distilled from: row by row, and in the fluid model's closed loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dc_gym.base.readable import columns
from dc_gym.base.terminal import say
from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.offline import rows
from dc_gym.methods.rlcc.policy import network_of
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets.fixed_point import Floats
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.nets.trees import DEPTH

FLOWS = (2, 8, 64, 512, 2048)
FLOOD_FLOWS, MAX_ROUND_TRIPS = 64, 10_000
"""The number of flows that begin together at line rate, and how many base round trips they are watched at most."""
STEPS_PER_RTT, ROUND_TRIPS = 8, 600
"""Parts of the model with a feedback delay of one round trip, and its length in base round trips."""
TEST_ROWS, TEST_SEED = 200_000, 1_000_003
"""Test rows; they are drawn separately from all rows that trees were fitted to."""


@dataclass(frozen=True, slots=True)
class ActionDeviation:
    """The difference between the table's actions and the network's actions in floats."""

    where: str
    rows: int
    rms: float
    most: float


@dataclass(frozen=True, slots=True)
class ClosedLoops:
    """The same flows under network and trees, in the model without and with a feedback delay of one round trip."""

    flows: int
    law: float
    """The inflation by eq. 2."""
    plain: tuple[fluid.SettledState, fluid.SettledState]
    """The outcomes of the network and of the trees, without the delay."""
    lagging: tuple[fluid.SettledState, fluid.SettledState]

    @property
    def inflation(self) -> float:
        """Inflation with the trees relative to the network's, less 1, with the delay."""
        return self.lagging[1].inflation / self.lagging[0].inflation - 1.0


def differences(net: NicPolicy, forest: NicPolicy) -> list[ActionDeviation]:
    """Compares actions inside and outside the operating band, for errors that persist, and on the network's own closed loop."""
    drawn = rows.grid(np.random.default_rng(TEST_SEED), TEST_ROWS, net.scaling.unit)
    inside = rows.near_target(drawn, net.scaling.unit)
    looped = rows.closed_loop_inputs(TablePolicy(net.table()), net.scaling, TEST_SEED)
    persistent = rows.persistent_errors(np.random.default_rng(TEST_SEED), TEST_ROWS, net.scaling.unit)
    parts = {"in the band, drawn": drawn[inside], "out of it, drawn": drawn[~inside]}
    parts |= {"an error that stays, drawn": persistent, "in the closed loop": looped}
    return [_apart(where, inputs, net, forest) for where, inputs in parts.items()]


def _apart(where: str, inputs: Floats, net: NicPolicy, forest: NicPolicy) -> ActionDeviation:
    miss = TablePolicy(forest.table())(inputs) - network_of(net)(inputs)
    return ActionDeviation(where, len(inputs), float(np.sqrt((miss * miss).mean())), float(np.abs(miss).max()))


def closed_loops(net: NicPolicy, forest: NicPolicy, flows: Sequence[int] = FLOWS) -> list[ClosedLoops]:
    """Runs the integer tables of both in the closed loop."""
    both, scaling, loops = [TablePolicy(policy.table()) for policy in (net, forest)], net.scaling, []
    for count in flows:
        plain = [fluid.settle(policy, fluid.Bottleneck(count), scaling) for policy in both]
        lagging = [fluid.settle(policy, fluid.Bottleneck(count, STEPS_PER_RTT), scaling, ROUND_TRIPS) for policy in both]
        pairs = (plain[0], plain[1]), (lagging[0], lagging[1])
        loops.append(ClosedLoops(count, float(scaling.inflation(count)), *pairs))
    return loops


def flood_duration(file: NicPolicy, flows: int = FLOOD_FLOWS) -> float:
    """Returns the base round trips until flows that begin together at line rate have drained the queue that they filled.

    The queue counts as drained when it is at most a quarter longer than where flows settle. Returns inf if it never is.
    """
    settled = 1.25 * (float(file.scaling.inflation(flows)) - 1.0)
    model, policy = (
        fluid.Fluid(fluid.Bottleneck(flows, STEPS_PER_RTT, rows.BUFFER, start_rate=1.0), file.scaling),
        TablePolicy(file.table()),
    )
    for step in range(STEPS_PER_RTT * MAX_ROUND_TRIPS):
        model.step(policy)
        if step > STEPS_PER_RTT * rows.BUFFER and model.queue < settled:
            return step / STEPS_PER_RTT
    return float("inf")


def report(net: NicPolicy, forest: NicPolicy) -> None:
    """Prints the report."""
    assert isinstance(forest.policy, Trees)
    count, size = len(forest.policy.inputs), forest.policy.packed_bytes()
    say(f"a decision: {count * DEPTH} comparisons, {count} additions of a leaf")
    say(f"tables: {size} bytes packed, {4 * len(forest.table())} as they are kept here\n")
    lines: list[tuple[str, ...]] = [("actions off the network's", "rows", "rms", "most")]
    lines += [(error.where, f"{error.rows:,}", f"{error.rms:.4f}", f"{error.most:.4f}") for error in differences(net, forest)]
    say(columns(lines))
    say("\nclosed loop in the fluid model: network, trees; then with the lag of a round trip (standard deviation)")
    table: list[tuple[str, ...]] = [
        ("flows", "eq. 2", "network", "trees", "network, lag", "trees, lag", "off", "sum of rates", "slowest/fastest")
    ]
    for loop in closed_loops(net, forest):
        (net_plain, plain), (net_lag, lag) = loop.plain, loop.lagging
        numbers = [f"{loop.law:.3f}", f"{net_plain.inflation:.3f}", f"{plain.inflation:.3f}"]
        numbers += [f"{state.inflation:.3f} ({state.inflation_std:.3f})" for state in (net_lag, lag)]
        table.append(
            (str(loop.flows), *numbers, f"{loop.inflation:+.1%}", f"{lag.sum_of_rates:.4f}", f"{lag.slowest_over_fastest:.3f}")
        )
    say(columns(table))
    first, second = flood_duration(net), flood_duration(forest)
    say(f"\na flood of {FLOOD_FLOWS} new flows is over after {first:,.0f} base round trips, with trees after {second:,.0f}")
