# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc boost`: trees trained by RL-CC's eq. 3 in the fluid model, without a network (GBRL, ICML 2025).

GBRL adds an oblivious tree for each update, fitted to the gradient of eq. 3 in the actions. The flows decide by the trees so far.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.outputs import require_place
from dc_gym.base.terminal import say
from dc_gym.methods.rlcc.decision import MAX_ACTION, Scaling
from dc_gym.methods.rlcc.offline import closed_loop
from dc_gym.methods.rlcc.offline.on_fluid import Bottlenecks, FluidTrainingSettings, collect
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Floats
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.nets.trees import DEPTH, LEAVES, MAX_TREES

COMMAND = "dcgym method rlcc boost"
BATCH_SIZE = 8192
"""Decisions per tree."""
LEARNING_RATE = 0.1
"""Change of an action for an error of a target, in the first tree; it falls linearly to 0."""
STRUCTURE = {"max_depth": DEPTH, "n_bins": 256, "min_data_in_leaf": 0, "par_th": 2, "grow_policy": "oblivious"}
OPTIMIZER = {"algo": "SGD", "init_lr": 1.0, "start_idx": 0, "stop_idx": 1}
SCORE = {"split_score_func": "L2", "generator_type": "Quantile", "use_control_variates": False}
BORDER_OFFSET = 2.0**-15
"""Borders of GBRL are values of inputs. They move up by so much, so that the last bit does not decide in the NIC's integers."""
KEPT = 1.0
"""The action before the first tree."""


@dataclass(frozen=True, slots=True)
class Acting:
    """Trees where a network is expected. None: the rate is kept."""

    trees: Trees | None

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns actions for inputs [flows, 4], and the memory as it is."""
        return np.full(len(inputs), KEPT) if self.trees is None else self.trees(inputs), memory


def train(count: int, seed: int, scaling: Scaling) -> Trees:
    """Returns `count` trees. One seed gives one ensemble on a machine."""
    learner = _learner()
    settings = FluidTrainingSettings(seed=seed)
    model, acting = Bottlenecks(settings, scaling), Acting(None)
    for number in range(count):
        batch: Any = collect(model, acting, BATCH_SIZE)  # type: ignore[arg-type]  # it has no weights
        inputs, factors = batch.inputs[0], np.clip(batch.errors[0] / scaling.unit, -1.0, settings.max_error)
        actions, _ = acting.step(inputs, batch.memory)
        beyond = ((actions <= 1 / MAX_ACTION) & (factors > 0)) | ((actions >= MAX_ACTION) & (factors < 0))
        slopes = np.where(beyond, 0.0, factors) * LEARNING_RATE * (1.0 - number / count)
        learner.step(inputs.astype(np.float32), slopes.astype(np.float32)[:, None])
        acting = Acting(of_ensemble(learner._cpp_model.get_ensemble_data()))
    assert acting.trees is not None
    return acting.trees


def of_ensemble(ensemble: dict[str, Any]) -> Trees:
    """Converts the arrays of GBRL, whose leaves are subtracted, and have a direction for each level."""
    count = len(ensemble["depths"])
    assert (ensemble["depths"] == DEPTH).all(), "a tree has another depth"
    number = (np.asarray(ensemble["inequality_directions"], np.int64) << np.arange(DEPTH)).sum(axis=1)
    leaves = np.zeros((count, LEAVES))
    leaves[np.repeat(np.arange(count), LEAVES), number] = -np.asarray(ensemble["values"], np.float64)[:, 0]
    inputs = np.asarray(ensemble["feature_indices"], np.int64)
    return Trees(inputs, np.asarray(ensemble["feature_values"], np.float64) + BORDER_OFFSET, leaves, KEPT)


def _learner() -> Any:
    try:
        from gbrl.learners.gbt_learner import GBTLearner
    except ImportError:
        raise MachineError("GBRL is not installed: pip install 'dc-gym[gbrl]'") from None
    learner = GBTLearner(input_dim=4, output_dim=1, tree_struct=STRUCTURE, optimizers=OPTIMIZER, params=SCORE)
    learner.reset()
    return learner


def main(args: argparse.Namespace) -> int:
    if not 0 < args.trees <= MAX_TREES:
        raise UsageError(f"--trees {args.trees}: give 1 to {MAX_TREES}")
    scaling = Scaling()
    facts = {"command": COMMAND, "made": "trained", "seed": args.seed, "trees": args.trees}
    policy = NicPolicy(train(args.trees, args.seed, scaling), scaling, facts)
    require_place(args.out, nic_policy.made_alike(policy), force=args.force)
    policy.write(args.out)
    say(f"{args.out}: {policy.describe()}")
    for flows in closed_loop.FLOWS:
        totals = closed_loop.totals(TablePolicy(policy.table()), flows, scaling)
        say(f"{flows} flows: inflation {totals['inflation']:.3f}, {totals['inflation_over_eq_2']:.2f} of eq. 2's")
    return 0
