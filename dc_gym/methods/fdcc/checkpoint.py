# SPDX-License-Identifier: Apache-2.0
"""The checkpoint of FDCC's training: networks, Adam's moments, replay and curve, and everything that the result depends on.

It is one file, written completely or not at all. The next episode follows from the seed and its number, so a training that was
killed and goes on ends with the same bytes.
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
from dc_gym.methods.fdcc.presets import FdccTrainingSettings
from dc_gym.methods.fdcc.trainer import Trainer
from dc_gym.methods.rlcc.checkpoint import NAME, require_same

FORMAT, VERSION = "dcgym-fdcc-checkpoint", 1
GUIDE = "--resume needs a folder that `dcgym fdcc train` wrote"


def write(trainer: Trainer, folder: Path, depends_on: Mapping[str, Any]) -> None:
    """Writes the checkpoint into a training's folder."""
    head = {"format": FORMAT, "version": VERSION, "depends_on": depends_on}
    path = folder / NAME
    with machine_errors("write", path):
        write_arrays(path, {"head": np.array(json.dumps(head, sort_keys=True))} | trainer.arrays())


def episodes(folder: Path) -> int:
    """Returns the number of episodes before the checkpoint."""
    return len(load_arrays(folder / NAME, GUIDE)["curve"])


def read(folder: Path, depends_on: Mapping[str, Any], settings: FdccTrainingSettings) -> Trainer:
    """Returns the training as it was at the checkpoint.

    Raises UsageError if there is none, or if its training depends on other settings or versions.
    """
    path = folder / NAME
    try:
        arrays = load_arrays(path, GUIDE)
        head = plain_json.loads(str(arrays.pop("head")[()]))
        if (head["format"], head["version"]) != (FORMAT, VERSION):
            raise AgentError(f"format {head['format']!r}, version {head['version']!r}")
        require_same(path, head["depends_on"], json.loads(json.dumps(depends_on)))
        return Trainer.of_arrays(arrays, settings)
    except (AgentError, KeyError, ValueError, TypeError, IndexError) as error:
        raise UsageError(f"{path}: no checkpoint to go on from ({error}); {GUIDE}") from None
