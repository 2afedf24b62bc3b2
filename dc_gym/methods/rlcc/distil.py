# SPDX-License-Identifier: Apache-2.0
"""`dcgym rlcc distil`: turns a network into oblivious trees (RL-CC sec. V) and measures how far they are from it.

The trees are fitted to rows of inputs. The sources of rows are:

- `model`: where the network is used in the fluid model, as drawn situations and in the closed loop;
- `flood`: flows in the fluid model that begin together at line rate;
- `lasting`: errors of all sizes that persist;
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

from dc_gym.base.errors import UsageError
from dc_gym.base.files import scratch
from dc_gym.base.outputs import require_place
from dc_gym.base.spelling import unknown
from dc_gym.methods.rlcc import boosting, recorded
from dc_gym.methods.rlcc.policy_cli import describe
from dc_gym.nets import distil, nic_policy, trees
from dc_gym.nets.decision import MOST, Floats
from dc_gym.nets.distil import Rows
from dc_gym.nets.nic_policy import Deployed, NicPolicy
from dc_gym.records.results import load_result

COMMAND = "dcgym rlcc distil"
MODEL, FLOOD, LASTING, GRID = "model", "flood", "lasting", "grid"
SOURCES = (MODEL, FLOOD, LASTING)
SHARES = {FLOOD: 0.1, LASTING: 0.2}
"""Total weight of a source's rows; other sources have 1. Without floods, trees take twice as long as the network to leave one.
Without lasting errors, trees may raise the rate while an error of a few targets persists. More weight on either makes the trees
less accurate near the target."""
MAKERS = ("own", "catboost")
MOST_ROWS = 20_000_000
GRID_ACTIONS = np.linspace(0.8, 1.2, 1000)
LASTING_ROWS, LEAST_LASTING, MOST_LASTING = 20_000, 2.0, 100.0
"""The number of rows for LASTING, and the range of their errors in targets."""
BAND = 1.0
"""The operating band: both errors are within this many targets of 0."""


@dataclass(frozen=True, slots=True)
class Distillation:
    """The settings of a distillation."""

    trees: int = 20
    by: str = "own"
    """Which code fits the trees: one of MAKERS."""
    sources: tuple[str, ...] = SOURCES
    """The sources of rows: COMMAND = "dcgym rlcc distil"
MODEL, FLOOD, LASTING, GRID, or result folders."""
    rows: int | None = None
    """Number of rows drawn for MODEL (default 40,000) and GRID (default a million); most rows of a result (default all)."""
    band: float | None = None
    """Weight factor of rows in the operating band. The default is 30 for MODEL and 1 for the other sources."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.by not in MAKERS:
            raise UsageError("--by: " + unknown("maker", self.by, MAKERS))
        if not 0 < self.trees <= trees.MOST_TREES:
            raise UsageError(f"--trees {self.trees}: give 1 to {trees.MOST_TREES}")
        if self.rows is not None and not 1000 <= self.rows <= MOST_ROWS:
            raise UsageError(f"--rows {self.rows}: give 1000 to {MOST_ROWS}")
        if self.band is not None and not 0 < self.band <= 1e6:
            raise UsageError(f"--band {self.band:g}: give a factor above 0, up to a million")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}: give 0 or more")


def make(net: NicPolicy, how: Distillation) -> NicPolicy:
    """Returns the trees of a network. The same network and the same Distillation give the same file."""
    network = distil.network_of(net, how.trees)
    found = rows(net, how)
    provenance = distil.distilled_from(net, COMMAND) | {"seed": how.seed}
    provenance["settings"] = asdict(how) | {"sources": [_named(source) for source in how.sources]}
    if how.by == "catboost":
        with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
            made = boosting.fit(found, network(found.inputs), how.trees, how.seed, folder)
        provenance["versions"] = {"catboost": boosting.version()}
    else:
        actions = distil.aims(network, found.inputs)
        made = trees.Fit(how.trees)(found.inputs, actions, found.weights, distil.borders(net.scaling.unit))
    return NicPolicy(made, net.scaling, provenance)


def _named(source: str) -> str:
    """Returns the name of a source for the record. A result is named by its digest, since its folder may be anywhere."""
    return source if source in (*SOURCES, GRID) else f"run {load_result(Path(source)).digest}"


def rows(net: NicPolicy, how: Distillation) -> Rows:
    """Returns the rows of all sources, each source with its share of the weight."""
    parts = [_of(source, net, how) for source in how.sources]
    if len(parts) == 1:
        return parts[0]
    shares = [SHARES.get(source, 1.0) / float(part.weights.sum()) for source, part in zip(how.sources, parts, strict=True)]
    weights = np.concatenate([part.weights * share for part, share in zip(parts, shares, strict=True)])
    return Rows(np.concatenate([part.inputs for part in parts]), weights / float(weights.mean()))


def _of(source: str, net: NicPolicy, how: Distillation) -> Rows:
    if source == MODEL:
        own = distil.Recipe()
        recipe = distil.Recipe(how.seed, how.trees, how.rows or own.rows, how.band or own.close_weight)
        return distil.rows(net, recipe)
    if source == FLOOD:
        return _flood(net, how.seed)
    if source == LASTING:
        return Rows(lasting(np.random.default_rng(how.seed), LASTING_ROWS, net.scaling.unit), np.ones(LASTING_ROWS))
    if source == GRID:
        inputs = grid(np.random.default_rng(how.seed), how.rows or 1_000_000, net.scaling.unit)
    else:
        inputs = recorded.decisions(Path(source)).inputs
        inputs = inputs[:: max(1, -(-len(inputs) // (how.rows or len(inputs))))]
    weights = np.where(in_band(inputs, net.scaling.unit), how.band or 1.0, 1.0)
    return Rows(inputs, weights)


def _flood(net: NicPolicy, seed: int) -> Rows:
    """Returns the rows of a flood, with random actions.

    The actions in a flood are all alike, and trees would take any cut or raise as the sign of a flood.
    """
    inputs = distil.flooded(Deployed(net.table()), net.scaling)
    inputs[:, [0, 2]] = _any_actions(np.random.default_rng(seed), (len(inputs), 2))
    return Rows(inputs, np.ones(len(inputs)))


def lasting(random: np.random.Generator, count: int, unit: float) -> Floats:
    """Returns inputs [count, 4] with errors of 2 to 100 targets that stay within a twentieth, and with random actions.

    Small errors are drawn more often than large ones.
    """
    part, share = random.random((2, count))
    error = LEAST_LASTING + (MOST_LASTING - LEAST_LASTING) * part * part * part  # no pow(): it differs between machines
    now = np.minimum(error * (0.95 + 0.1 * share), MOST_LASTING)
    actions = _any_actions(random, (2, count))
    return np.stack([actions[0], error * unit, actions[1], now * unit], axis=1)


def _any_actions(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return 1.0 / MOST + random.random(shape) * (MOST - 1.0 / MOST)


def grid(random: np.random.Generator, count: int, unit: float) -> Floats:
    """Returns inputs [count, 4] as the artifact's script draws them.

    All are independent; half of the errors are within a target of 0, the others go up to 100 targets.
    """
    errors = np.concatenate([np.linspace(-1.0, 1.0, 5000), np.linspace(1.0, 100.0, 5000)]) * unit
    drawn = [values[random.integers(0, len(values), count)] for values in (GRID_ACTIONS, errors, GRID_ACTIONS, errors)]
    return np.stack(drawn, axis=1)


def in_band(inputs: Floats, unit: float) -> Any:
    return (np.abs(inputs[:, [1, 3]]) <= BAND * unit).all(axis=1)


def main(args: argparse.Namespace) -> int:
    from dc_gym.methods.rlcc import fidelity

    net = NicPolicy.read(nic_policy.path_of(args.net))
    how = Distillation(args.trees, args.by, tuple(args.sources or SOURCES), args.rows, args.band, args.seed)
    same = NicPolicy(net.policy, net.scaling, distil.distilled_from(net, COMMAND))
    require_place(args.out, nic_policy.is_like(same), force=args.force)
    made = make(net, how)
    made.write(args.out)
    print(f"{args.out}: {describe(made)}")
    fidelity.tell(net, made)
    return 0
