# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc distil`: turns a network into oblivious trees (RL-CC sec. V) and measures how far they are from it.

The trees are fitted to rows of inputs. The sources of rows are:

- `model`: where the network is used in the fluid model, as drawn situations and in the closed loop;
- `flood`: flows in the fluid model that begin together at line rate;
- `persistent`: errors of all sizes that persist;
- a result folder: the decisions of a run (RL-CC's recorded trajectories);
- `grid`: the grid of the public artifact's script.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.errors import AgentError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.outputs import require_place
from dc_gym.base.spelling import unknown
from dc_gym.base.terminal import say
from dc_gym.methods.rlcc.mlp import Mlp
from dc_gym.methods.rlcc.offline import boosting, fidelity, recorded, response, rows
from dc_gym.methods.rlcc.offline.rows import WeightedRows
from dc_gym.methods.rlcc.policy import read_policy
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets import nic_policy, trees
from dc_gym.nets.fixed_point import Floats
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.results.results import load_result

COMMAND = "dcgym method rlcc distil"
MODEL, FLOOD, PERSISTENT, GRID = "model", "flood", "persistent", "grid"
SOURCES = (MODEL, FLOOD, PERSISTENT)
SHARES = {FLOOD: 0.1, PERSISTENT: 0.2}
"""Total weight of a source's rows; other sources have 1. Without floods, trees take twice as long as the network to leave one.
Without persistent errors, trees may raise the rate while an error of a few targets persists. More weight on either makes the
trees less accurate near the target."""
FITTERS = ("own", "catboost")
MAX_ROWS = 20_000_000
MODEL_ROWS, GRID_ROWS, PERSISTENT_ROWS = 40_000, 1_000_000, 20_000
NEAR_WEIGHT = 300.0
"""Weight of a row close to rest, where MODEL has rows made for it. With 30, flows of different rates settle side by side under
ten trees."""
SATURATED, SATURATED_TARGET = 0.8345, 0.825
"""The network's actions below SATURATED are within 0.15 % of their lowest value; trees are fitted to SATURATED_TARGET there
instead. An answer of trees below the lowest action is clipped; an answer above it makes a flood last longer."""
BORDER_OFFSET = 0.003


@dataclass(frozen=True, slots=True)
class Distillation:
    """The settings of a distillation."""

    trees: int = 10
    fitter: str = "own"
    """Which code fits the trees: one of FITTERS."""
    sources: tuple[str, ...] = SOURCES
    """The sources of rows: MODEL, FLOOD, PERSISTENT, GRID, or result folders."""
    rows: int | None = None
    """Number of rows drawn for MODEL (default 40,000) and GRID (default a million); most rows of a result (default all)."""
    near_weight: float | None = None
    """Weight factor of rows in the operating band. The default is 300 for MODEL and 1 for the other sources."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.fitter not in FITTERS:
            raise UsageError("--fitter: " + unknown("fitter", self.fitter, FITTERS))
        if not 0 < self.trees <= trees.MAX_TREES:
            raise UsageError(f"--trees {self.trees}: give 1 to {trees.MAX_TREES}")
        if self.rows is not None and not 1000 <= self.rows <= MAX_ROWS:
            raise UsageError(f"--rows {self.rows}: give 1000 to {MAX_ROWS}")
        if self.near_weight is not None and not 0 < self.near_weight <= 1e6:
            raise UsageError(f"--near-weight {self.near_weight:g}: give a factor above 0, up to a million")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}: give 0 or more")


def make(net: NicPolicy, how: Distillation, command: str = COMMAND) -> NicPolicy:
    """Returns the trees of a network. The same network and the same Distillation give the same file."""
    network = network_of(net, how.trees)
    weighted_rows = rows_of(net, how)
    provenance = provenance_of(net, command) | {"seed": how.seed}
    provenance["settings"] = asdict(how) | {"sources": [_named(source) for source in how.sources]}
    if how.fitter == "catboost":
        with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
            forest = boosting.fit(weighted_rows, network(weighted_rows.inputs), how.trees, how.seed, folder)
        provenance["versions"] = {"catboost": boosting.version()}
    else:
        actions = fit_targets(network, weighted_rows.inputs)
        forest = Trees.fit(weighted_rows.inputs, actions, weighted_rows.weights, borders(net.scaling.unit), how.trees)
    return NicPolicy(forest, net.scaling, provenance)


def provenance_of(net: NicPolicy, command: str) -> dict[str, Any]:
    """Returns the provenance of trees that a command distils from a network."""
    return {"command": command, "made": "distilled", "source_sha256": net.sha256(), "network": dict(net.provenance)}


def network_of(net: NicPolicy, count: int) -> Mlp:
    """Returns the network to distil.

    Raises AgentError if the policy is no network without memory, or if `count` is out of range.
    """
    if not isinstance(net.policy, Mlp):
        raise AgentError(
            f"a policy of the kind {net.kind!r} is not distilled to trees; give a network without a memory: rlcc-mlp"
        )
    if not 0 < count <= trees.MAX_TREES:
        raise AgentError(f"{count} trees: give 1 to {trees.MAX_TREES}")
    return net.policy


def fit_targets(net: Mlp, inputs: Floats) -> Floats:
    """Returns the actions that trees are fitted to: the network's, rounded, the lowest replaced by SATURATED_TARGET."""
    actions = np.round(net(inputs) * 2.0**30) / 2.0**30
    return np.where(actions < SATURATED, SATURATED_TARGET, actions)


def borders(unit: float) -> tuple[Floats, ...]:
    """Returns the borders at which trees may split each input; they are finer close to rest.

    No border is a round value that inputs may have, because then the last bit would decide on which side an input falls.
    """
    near = np.arange(-24, 37) / 40.0 + response.OFFSET
    wide = np.concatenate([np.arange(-9, 21) / 10.0, np.arange(5, 21) / 2.0, [15.0]]) + BORDER_OFFSET
    errors = np.unique(np.concatenate([near, wide])) * unit
    acted = np.array([0.91, 0.96, 1.04, 1.09])
    return acted, errors, acted, errors


def _named(source: str) -> str:
    """Returns the name of a source for the record. A result is named by its digest, since its folder may be anywhere."""
    return source if source in (*SOURCES, GRID) else f"run {load_result(Path(source)).digest}"


def rows_of(net: NicPolicy, how: Distillation) -> WeightedRows:
    """Returns the rows of all sources, each source with its share of the weight."""
    parts = [_rows(source, net, how) for source in how.sources]
    if len(parts) == 1:
        return parts[0]
    shares = [SHARES.get(source, 1.0) / float(part.weights.sum()) for source, part in zip(how.sources, parts, strict=True)]
    weights = np.concatenate([part.weights * share for part, share in zip(parts, shares, strict=True)])
    return WeightedRows(np.concatenate([part.inputs for part in parts]), weights / float(weights.mean()))


def _rows(source: str, net: NicPolicy, how: Distillation) -> WeightedRows:
    random, unit = np.random.default_rng(how.seed), net.scaling.unit
    if source == MODEL:
        return rows.model(net, how.seed, how.rows or MODEL_ROWS, how.near_weight or NEAR_WEIGHT)
    if source == FLOOD:
        return rows.flood(net, how.seed)
    if source == PERSISTENT:
        return WeightedRows(rows.persistent_errors(random, PERSISTENT_ROWS, unit), np.ones(PERSISTENT_ROWS))
    if source == GRID:
        inputs = rows.grid(random, how.rows or GRID_ROWS, unit)
    else:
        inputs = recorded.decisions(Path(source)).inputs
        inputs = inputs[:: max(1, -(-len(inputs) // (how.rows or len(inputs))))]
    return WeightedRows(inputs, np.where(rows.near_target(inputs, unit), how.near_weight or 1.0, 1.0))


def main(args: argparse.Namespace) -> int:
    net = read_policy(nic_policy.path_of(args.net))
    how = Distillation(args.trees, args.fitter, tuple(args.sources or SOURCES), args.rows, args.near_weight, args.seed)
    same = NicPolicy(net.policy, net.scaling, provenance_of(net, COMMAND))
    require_place(args.out, nic_policy.made_alike(same), force=args.force)
    policy = make(net, how)
    policy.write(args.out)
    say(f"{args.out}: {policy.describe()}")
    fidelity.report(net, policy)
    return 0
