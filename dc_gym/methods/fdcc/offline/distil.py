# SPDX-License-Identifier: Apache-2.0
"""`dcgym method fdcc distil`: turns FDCC's network into oblivious trees, as RL-CC's were, and measures how far they are from it.

The network remembers, the trees do not. So they are fitted to its outputs along whole lives of flows, in the fluid model: an
observation's row has the output of a network that has followed the flow since its first decision. In the first round the network
moves the flows. In the others the trees of the round before do, so that the network is asked in states that trees bring about
(DAgger, Ross et al. 2011). The rows of all rounds count.

The network runs in the NIC's integers. So one seed gives one policy, bit for bit.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dc_gym.base.errors import UsageError
from dc_gym.base.outputs import require_place
from dc_gym.base.progress import Progress, choose
from dc_gym.base.readable import columns
from dc_gym.base.terminal import say
from dc_gym.methods.fdcc.net import FdccNet
from dc_gym.methods.fdcc.offline import model_incasts, rollouts
from dc_gym.methods.fdcc.offline.episodes import FlowPolicy
from dc_gym.methods.fdcc.offline.model_incasts import ModelIncast
from dc_gym.methods.fdcc.offline.rollouts import Follower
from dc_gym.methods.fdcc.trees import FdccTrees
from dc_gym.nets import nic_policy, trees
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.topologies.ecmp import draw

COMMAND = "dcgym method fdcc distil"
ROUNDS, EPISODES = 4, 10
BORDERS = 64
"""Parts of each input's rows, all of one size; trees may split between two."""
HELD_OUT, HELD_OUT_SEED = (4, 64, 256), 1_000_003
"""Flows of the incasts that fidelity is measured in, and their seed, which no rows are drawn by."""
CLEAR = 0.05
"""An output of this size is a clear direction: it moves the window by 2.5 %."""


@dataclass(frozen=True, slots=True)
class Distillation:
    """The settings of a distillation."""

    trees: int = 20
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.trees <= trees.MAX_TREES:
            raise UsageError(f"--trees {self.trees}: give 1 to {trees.MAX_TREES}")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}: give 0 or more")


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The distance of trees from their network in an incast of the model."""

    flows: int
    moved_by: str
    """The policy that moved the flows: the network or the trees."""
    decisions: int
    rms: float
    """Root mean square of the difference of outputs, in -1..1."""
    same: float
    """The share of decisions in which both raise the window or both cut it."""
    same_clear: float
    """The same of decisions whose outputs by the network are at least CLEAR."""
    incast: ModelIncast


def main(args: argparse.Namespace) -> int:
    how = Distillation(args.trees, args.seed)
    net = read_network(args.policy)
    require_place(args.out, nic_policy.made_alike(NicPolicy(net.policy, provenance=provenance_of(net, how))), force=args.force)
    with choose(args.quiet) as progress:
        forest = make(net, how, progress)
    forest.write(args.out)
    say(f"{args.out}: {forest.describe()}")
    report(net, forest)
    return 0


def read_network(text: str) -> NicPolicy:
    """Returns the policy of a name or a file. Raises UsageError if it is no network of FDCC."""
    policy = NicPolicy.read(nic_policy.path_of(text))
    if not isinstance(policy.policy, FdccNet):
        raise UsageError(
            f"--policy {text}: a policy of the kind {policy.kind!r} is not distilled here; give one of the kind 'fdcc'"
        )
    return policy


def provenance_of(net: NicPolicy, how: Distillation) -> dict[str, Any]:
    """Returns the provenance of trees that are distilled from a network."""
    provenance = {"command": COMMAND, "made": "distilled", "source_sha256": net.sha256(), "network": dict(net.provenance)}
    return provenance | {"seed": how.seed, "settings": asdict(how)}


def make(net: NicPolicy, how: Distillation, progress: Progress | None = None) -> NicPolicy:
    """Returns the trees of a network. The same network and the same Distillation give the same file."""
    teacher = TablePolicy(net.table())
    driver, parts, forest = teacher, [], net
    for number in range(ROUNDS):

        def random(episode: int, number: int = number) -> np.random.Generator:
            return np.random.default_rng(draw(how.seed, "fdcc distil", number * EPISODES + episode))

        parts.append(rollouts.episodes(driver, teacher, EPISODES, random))
        inputs, outputs = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        fitted = FdccTrees.fit(inputs, outputs, np.ones(len(outputs)), borders(inputs), how.trees)
        forest = NicPolicy(fitted, provenance=provenance_of(net, how))
        driver = TablePolicy(forest.table())
        if progress:
            progress.note(f"round {number + 1} of {ROUNDS}: {len(outputs):,} decisions, rms {_rms(driver, inputs, outputs):.4f}")
    return forest


def borders(inputs: Floats) -> list[Floats]:
    """Returns the borders at which trees may split each input: quantiles of its rows, between two integers of the NIC."""
    at = np.arange(1, BORDERS) / BORDERS
    return [np.unique((np.floor(np.quantile(column, at) * Q16) + 0.5) / Q16) for column in inputs.T]


def _rms(policy: FlowPolicy, inputs: Floats, outputs: Floats) -> float:
    return float(np.sqrt(np.square(policy.step(inputs, np.zeros((len(inputs), 0)))[0] - outputs).mean()))


def fidelity(net: NicPolicy, distilled: NicPolicy, flows: Sequence[int] = HELD_OUT) -> list[Fidelity]:
    """Compares trees with their network in incasts of the model, moved by the network, then by the trees."""
    network, forest = (TablePolicy(policy.table()) for policy in (net, distilled))
    fidelities = []
    for count in flows:
        for name, driver, other in (("network", network, forest), ("trees", forest, network)):
            follower = Follower(other, count)
            incast = model_incasts.run(driver, count, HELD_OUT_SEED, watch=follower)
            pair = (follower.done, follower.outputs) if driver is network else (follower.outputs, follower.done)
            fidelities.append(Fidelity(count, name, len(pair[0]), *_apart(*pair), incast))
    return fidelities


def _apart(exact: Floats, trees: Floats) -> tuple[float, float, float]:
    """Returns rms, share of the same direction, and that share among clear ones."""
    same, clear = np.sign(exact) == np.sign(trees), np.abs(exact) >= CLEAR
    rms = float(np.sqrt(np.square(trees - exact).mean()))
    return rms, float(same.mean()), float(same[clear].mean()) if clear.any() else 1.0


def report(net: NicPolicy, forest: NicPolicy) -> None:
    """Prints the fidelity."""
    lines: list[tuple[str, ...]] = [
        (
            "flows",
            "moved by",
            "decisions",
            "output off (rms)",
            "same way",
            f"of {CLEAR:g} and more",
            "link",
            "unfair",
            "queue (BDP)",
        )
    ]
    for comparison in fidelity(net, forest):
        incast = comparison.incast
        numbers = [f"{comparison.decisions:,}", f"{comparison.rms:.4f}", f"{comparison.same:.1%}", f"{comparison.same_clear:.1%}"]
        numbers += [f"{incast.used:.3f}", f"{incast.unfair:.4f}", f"{incast.queue_bdp:.2f}"]
        lines.append((str(comparison.flows), comparison.moved_by, *numbers))
    say("\nheld-out incasts of the fluid model; in each the other policy follows the flows along")
    say(columns(lines))
