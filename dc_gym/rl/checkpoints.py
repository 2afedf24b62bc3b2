# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training: DIR/checkpoints/iteration-000010, each whole or not there. Old ones go."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.base.files import PARTIAL, words

FOLDER = "checkpoints"
ABOUT = "dcgym.json"
_NAME = re.compile(r"iteration-(\d{6,})")


@dataclass(frozen=True, slots=True)
class Held:
    """A training between two iterations, in memory: the next one may be interrupted anywhere, and leave weights half moved."""

    iteration: int
    steps: int
    state: bytes
    """RLlib's whole state, pickled: its arrays are those that the learner goes on with."""

    @classmethod
    def of(cls, algorithm: Any, iteration: int, steps: int) -> Held:
        from ray import cloudpickle

        return cls(iteration, steps, cloudpickle.dumps(algorithm.get_state()))


def save(algorithm: Any, held: Held, folder: Path, keep: int) -> Path:
    """The checkpoint of what is held, which may be there already; `keep` of them stay, 0 means all."""
    final = folder / FOLDER / f"iteration-{held.iteration:06d}"
    if final.exists():
        return final
    partial = final.with_name(final.name + PARTIAL)
    with words("write", final):
        for left in final.parent.glob(f"*{PARTIAL}"):  # by one that was killed
            shutil.rmtree(left)
        partial.mkdir(parents=True)
        algorithm.save_to_path(str(partial.resolve()), state=pickle.loads(held.state))
        (partial / ABOUT).write_text(json.dumps({"iteration": held.iteration, "steps": held.steps}) + "\n")
        partial.rename(final)
        for old in find(folder)[:-keep] if keep else ():
            shutil.rmtree(old.rename(old.with_name(old.name + PARTIAL)))
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


def name_of(checkpoint: Path) -> str:
    """In words."""
    return f"iteration {iteration_of(checkpoint)} ({steps_of(checkpoint):,} steps)"


def latest(folder: Path) -> Path:
    found = find(folder)
    if not found:
        raise UsageError(f"{folder}: has no checkpoint; the training did not get as far as its first")
    return found[-1]
