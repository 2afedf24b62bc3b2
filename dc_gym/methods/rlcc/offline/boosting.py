# SPDX-License-Identifier: Apache-2.0
"""Fits oblivious trees with CatBoost and converts them to Trees. The parameters come from RL-CC's artifact (git benja263/rl-cc).

The artifact fits 20 trees where the paper has at most 10. It scores them on the last fifth of its rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.errors import AgentError, MachineError
from dc_gym.methods.rlcc.offline.rows import WeightedRows
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets.fixed_point import Floats
from dc_gym.nets.trees import DEPTH, LEAVES

PARAMETERS: dict[str, Any] = {
    "loss_function": "RMSE",
    "max_depth": DEPTH,
    "learning_rate": 1.0,
    "l2_leaf_reg": 1.0,
    "min_data_in_leaf": 1,
    "early_stopping_rounds": 50,
    "feature_weights": [1.0, 1.0, 0.05, 1.0],
}
"""The artifact's parameters. The third input is the latest action; hardly any tree uses it."""
FITTED_SHARE = 0.8
"""Share of the rows, in their order, that trees are fitted to. The other rows decide when to stop."""
NEVER = 2.0**14 - 1
"""A border that no input exceeds, for the missing levels of trees with a smaller depth."""


def fit(rows: WeightedRows, actions: Floats, count: int, seed: int, folder: Path) -> Trees:
    """Fits at most `count` trees, fewer if more do not help. It uses one thread, so that a seed always gives the same bytes."""
    catboost = _catboost()
    fitted_count = round(FITTED_SHARE * len(actions))
    options = {"iterations": count, "random_seed": seed, "thread_count": 1, "task_type": "CPU"}
    model = catboost.CatBoostRegressor(**PARAMETERS, **options, allow_writing_files=False, verbose=False)
    weights = rows.weights / float(rows.weights.mean())  # the unit of the leaves' regularization
    parts = [
        catboost.Pool(rows.inputs[at], actions[at], weight=weights[at], thread_count=1)
        for at in (slice(fitted_count), slice(fitted_count, None))
    ]
    model.fit(parts[0], eval_set=parts[1])
    path = folder / "model.json"
    model.save_model(str(path), format="json")
    trees = of_json(json.loads(path.read_text()))
    _hold(trees, rows.inputs[:2000], model)
    return trees


def of_json(model: dict[str, Any]) -> Trees:
    """Converts a model as CatBoost writes it. There, too, the first split is the lowest bit of a leaf's number."""
    scale, (bias,) = model["scale_and_bias"]
    inputs, borders, leaves = [], [], []
    for tree in model["oblivious_trees"]:
        splits = tree["splits"] or []
        missing = DEPTH - len(splits)
        inputs.append([split["float_feature_index"] for split in splits] + [0] * missing)
        borders.append([split["border"] for split in splits] + [NEVER] * missing)
        values = np.array(tree["leaf_values"]) * scale
        leaves.append(np.concatenate([values, np.zeros(LEAVES - len(values))]))
    return Trees(np.array(inputs, np.int64), np.array(borders, np.float64), np.array(leaves), float(bias))


def _hold(trees: Trees, inputs: Floats, model: Any) -> None:
    """Checks the trees against CatBoost's own evaluation, which rounds inputs to 32 bits."""
    narrow = inputs.astype(np.float32).astype(np.float64)
    predictions = np.clip(model.predict(narrow, thread_count=1), 1.0 / 1.2, 1.2)
    if (apart := float(np.abs(trees(narrow) - predictions).max())) > 1e-9:
        raise AgentError(f"CatBoost's model says other actions than its trees, by {apart:.2g}; try catboost 1.2.10")


def version() -> str:
    return str(_catboost().__version__)


def _catboost() -> Any:
    try:
        import catboost
    except ImportError:
        raise MachineError("CatBoost is not installed: pip install 'dc-gym[distil]'; or leave --fitter catboost out") from None
    return catboost
