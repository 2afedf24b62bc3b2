# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training: DIR/checkpoints/iteration-000010, each whole or not there. Old ones go."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from dc_gym.errors import UsageError
from dc_gym.folder import PARTIAL, words

FOLDER = "checkpoints"
ABOUT = "dcgym.json"
_NAME = re.compile(r"iteration-(\d{6,})")


def save(algorithm: Any, folder: Path, iteration: int, steps: int, keep: int) -> Path:
    """Of RLlib's whole state; `keep` of them stay, 0 means all."""
    final = folder / FOLDER / f"iteration-{iteration:06d}"
    partial = final.with_name(final.name + PARTIAL)
    with words("write", final):
        for old in (partial, final):
            shutil.rmtree(old, ignore_errors=True)
        partial.mkdir(parents=True)
        algorithm.save_to_path(str(partial.resolve()))
        (partial / ABOUT).write_text(json.dumps({"iteration": iteration, "steps": steps}) + "\n")
        partial.rename(final)
        for old in find(folder)[:-keep] if keep else ():
            shutil.rmtree(old)
    return final


def find(folder: Path) -> list[Path]:
    """Whole ones, the oldest first."""
    places = (folder / FOLDER).iterdir() if (folder / FOLDER).is_dir() else ()
    return sorted((each for each in places if _NAME.fullmatch(each.name)), key=iteration_of)


def iteration_of(checkpoint: Path) -> int:
    found = _NAME.fullmatch(checkpoint.name)
    if found is None:
        raise UsageError(f"{checkpoint}: is no checkpoint of a training; give its folder, or one of its checkpoints/iteration-N")
    return int(found[1])


def steps_of(checkpoint: Path) -> int:
    """Sampled until then."""
    try:
        return int(json.loads((checkpoint / ABOUT).read_text())["steps"])
    except (OSError, ValueError, KeyError):
        raise UsageError(f"{checkpoint}: is no checkpoint of a training; give its folder, or one of its checkpoints") from None


def latest(folder: Path) -> Path:
    found = find(folder)
    if not found:
        raise UsageError(f"{folder}: has no checkpoint; the training did not get as far as its first")
    return found[-1]
