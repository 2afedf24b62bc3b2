# SPDX-License-Identifier: Apache-2.0
"""A training's checkpoint: the weights, Adam's moments, the curve so far, and everything the result depends on.

It is one file, written completely or not at all. A checkpoint is taken between two episodes. The next episode's labs, flows and
first decisions follow from the settings and the episode's number. So a resumed training ends with the same bytes as one that was
never interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base import plain_json
from dc_gym.base.errors import AgentError, UsageError
from dc_gym.base.files import machine_errors
from dc_gym.base.npz import load_arrays, write_arrays
from dc_gym.methods.rlcc.gradient import Learner, LearnerSettings
from dc_gym.nets.adam import Adam
from dc_gym.nets.decision import Scaling
from dc_gym.nets.nic_policy import RLCC_NETWORKS

NAME = "checkpoint.npz"
FORMAT, VERSION = "dcgym-rlcc-checkpoint", 2
GUIDE = "--resume needs a folder that `dcgym rlcc train --ground lab` wrote"


def write(learner: Learner, folder: Path, depends_on: Mapping[str, Any]) -> None:
    """Writes the checkpoint into a training's folder."""
    adam = learner.adam
    head = {"format": FORMAT, "version": VERSION, "left": adam.left, "depends_on": depends_on}
    arrays: dict[str, Any] = {"head": np.array(json.dumps(head, sort_keys=True)), "curve": learner.curve}
    for name, held in (("weight", learner.net.weights), ("mean", adam.mean), ("square", adam.square)):
        arrays |= {f"{name}{number}": array for number, array in enumerate(held)}
    path = folder / NAME
    with machine_errors("write", path):
        write_arrays(path, arrays)


def updates(folder: Path) -> int:
    """Returns the number of updates before the checkpoint."""
    return len(load_arrays(folder / NAME, GUIDE)["curve"])


def read(folder: Path, depends_on: Mapping[str, Any], settings: LearnerSettings, scaling: Scaling) -> Learner:
    """Returns the learner as it was at the checkpoint.

    Raises UsageError if there is none, or if its training depends on other settings or programs.
    """
    path = folder / NAME
    try:
        arrays = load_arrays(path, GUIDE)
        head = plain_json.loads(str(arrays.pop("head")[()]))
        if (head["format"], head["version"]) != (FORMAT, VERSION):
            raise UsageError(f"{path}: format {head['format']!r}, version {head['version']!r}; {GUIDE}")
        require_same(path, head["depends_on"], json.loads(json.dumps(depends_on)))
        held = {name: _numbered(arrays, name) for name in ("weight", "mean", "square")}
        adam = Adam(held["weight"])
        adam.mean, adam.square, adam.left = list(held["mean"]), list(held["square"]), list(head["left"])
        return Learner(settings, scaling, RLCC_NETWORKS[settings.net](held["weight"]), adam, arrays["curve"])
    except (AgentError, KeyError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: no checkpoint to go on from ({error}); {GUIDE}") from None


def _numbered(arrays: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    return tuple(arrays[each] for each in sorted(arrays) if each.removeprefix(name).isdigit())


def require_same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any], section: str = "") -> None:
    """Raises UsageError unless a training depends on the same as before."""
    for name in sorted({*before, *now}):
        was, found = before.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(found, dict):
            require_same(path, was, found, f"{section}{name}.")
        elif was != found:
            raise UsageError(
                f"{path}: {section}{name} was {json.dumps(was)} and is {json.dumps(found)} now; a training goes on"
                " as it began: give the same options and programs, or begin another"
            )
