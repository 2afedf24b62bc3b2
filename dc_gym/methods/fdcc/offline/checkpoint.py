# SPDX-License-Identifier: Apache-2.0
"""The checkpoint of FDCC's training: networks, Adam's moments, replay and curve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dc_gym.methods.checkpoint import CheckpointFormat
from dc_gym.methods.fdcc.offline.presets import FdccTrainingSettings
from dc_gym.methods.fdcc.offline.trainer import Trainer

FORMAT = CheckpointFormat("dcgym-fdcc-checkpoint", 1, "--resume needs a folder that `dcgym method fdcc train` wrote")


def write(trainer: Trainer, folder: Path, depends_on: Mapping[str, Any]) -> None:
    """Writes the checkpoint into a training's folder."""
    FORMAT.write(folder, depends_on, trainer.arrays())


def read(folder: Path, depends_on: Mapping[str, Any], settings: FdccTrainingSettings) -> Trainer:
    """Returns the training as it was at the checkpoint. Raises UsageError as CheckpointFormat.read does."""
    return FORMAT.read(folder, depends_on, lambda arrays, _: Trainer.of_arrays(arrays, settings))
