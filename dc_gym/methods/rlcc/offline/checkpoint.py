# SPDX-License-Identifier: Apache-2.0
"""The checkpoint of RL-CC's training on labs: the weights, Adam's moments, and the curve so far."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dc_gym.methods.checkpoint import CURVE, CheckpointFormat
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.offline.gradient import Learner, LearnerSettings
from dc_gym.methods.rlcc.policy import NETWORKS
from dc_gym.nets.adam import Adam

FORMAT = CheckpointFormat("dcgym-rlcc-checkpoint", 2, "--resume needs a folder that `dcgym method rlcc train --ground lab` wrote")


def write(learner: Learner, folder: Path, depends_on: Mapping[str, Any]) -> None:
    """Writes the checkpoint into a training's folder."""
    adam = learner.adam
    arrays: dict[str, Any] = {CURVE: learner.curve}
    for name, held in (("weight", learner.net.weights), ("mean", adam.mean), ("square", adam.square)):
        arrays |= {f"{name}{number}": array for number, array in enumerate(held)}
    FORMAT.write(folder, depends_on, arrays, left=adam.left)


def read(folder: Path, depends_on: Mapping[str, Any], settings: LearnerSettings, scaling: Scaling) -> Learner:
    """Returns the learner as it was at the checkpoint. Raises UsageError as CheckpointFormat.read does."""

    def learner_of(arrays: dict[str, Any], head: Mapping[str, Any]) -> Learner:
        held = {name: _numbered(arrays, name) for name in ("weight", "mean", "square")}
        adam = Adam(held["weight"])
        adam.mean, adam.square, adam.left = list(held["mean"]), list(held["square"]), list(head["left"])
        return Learner(settings, scaling, NETWORKS[settings.net](held["weight"]), adam, arrays[CURVE])

    return FORMAT.read(folder, depends_on, learner_of)


def _numbered(arrays: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    return tuple(arrays[key] for key in sorted(arrays) if key.removeprefix(name).isdigit())
