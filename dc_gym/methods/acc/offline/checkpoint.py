# SPDX-License-Identifier: Apache-2.0
"""The checkpoint of ACC's offline training: nets, Adam's moments, replay and curve. It is written after each episode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dc_gym.methods.acc.offline.on_labs import AccTrainingSettings, Trainer
from dc_gym.methods.checkpoint import CheckpointFormat

FORMAT = CheckpointFormat("dcgym-acc-checkpoint", 1, "--resume needs a folder that `dcgym method acc train` wrote")


def write(trainer: Trainer, folder: Path, depends_on: Mapping[str, Any]) -> None:
    """Writes the checkpoint into a training's folder."""
    FORMAT.write(folder, depends_on, trainer.arrays())


def read(folder: Path, depends_on: Mapping[str, Any], settings: AccTrainingSettings) -> Trainer:
    """Returns the training as it was at the checkpoint. Raises UsageError as CheckpointFormat.read does."""
    return FORMAT.read(folder, depends_on, lambda arrays, _: Trainer.of_arrays(arrays, settings))
