# SPDX-License-Identifier: Apache-2.0
"""The checkpoints of a training: DIR/checkpoints/iteration-000010.

Each is complete or absent, also after a power failure. Older ones are removed when a new one is on disk.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dc_gym.base import folder_lock, plain_json, trusted
from dc_gym.base.bounded import sha256_of
from dc_gym.base.errors import UsageError
from dc_gym.base.files import PARTIAL, machine_errors, sync, sync_tree
from dc_gym.base.trusted import Item, Kind

FOLDER = "checkpoints"
INFO_FILE = "dcgym.json"
_NAME = re.compile(r"iteration-(\d{6,})")


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The state of a training between two iterations, in memory. The next iteration may be interrupted anywhere and leave weights
    half updated."""

    iteration: int
    steps: int
    state: bytes
    """RLlib's whole state. It is pickled because the learner goes on changing its arrays."""

    @classmethod
    def of(cls, algorithm: Any, iteration: int, steps: int) -> TrainingState:
        from ray import cloudpickle

        return cls(iteration, steps, cloudpickle.dumps(algorithm.get_state()))


def require_trusted(checkpoint: Path, *, trust: bool) -> list[str]:
    """Checks that a checkpoint may be read: RLlib reads it by pickle, which runs code.

    Raises UsageError if the user's list lacks it and `trust` is False. With `trust` it returns lines for the user to see, and the
    list has it afterwards.
    """
    item = item_of(checkpoint)
    if not checkpoint.is_dir() or not trusted.missing([item]):
        return []
    if not trust:
        risk = "its checkpoints are pickles, which run code of whoever wrote them"
        raise UsageError(f"{checkpoint}: {risk}, and {trusted.why_missing()}; add --trust if you trust them")
    unkept = trusted.remember([item])
    return [f"reads {checkpoint} (SHA-256 {item.sha256[:16]}...), which can run code", *([unkept] if unkept else [])]


def item_of(checkpoint: Path) -> Item:
    """Returns the names and contents of all files of a checkpoint as one item. A link counts as a link: RLlib writes none."""
    digest = hashlib.sha256()
    for path in sorted(checkpoint.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISDIR(mode):
            row = [str(path.relative_to(checkpoint)), stat.S_IFMT(mode), sha256_of(path) if stat.S_ISREG(mode) else ""]
            digest.update(json.dumps(row).encode() + b"\n")
    return Item(Kind.CHECKPOINT, digest.hexdigest(), str(checkpoint))


def save(
    algorithm: Any, training: TrainingState, folder: Path, keep: int, note: Callable[[str], object] = lambda line: None
) -> Path:
    """Writes the state as a checkpoint, unless that exists already, and returns its path. The last `keep` checkpoints stay;
    0 keeps all. It enters the user's list before it gets its name; `note` receives the reason if it cannot."""
    final = folder / FOLDER / f"iteration-{training.iteration:06d}"
    if final.exists():
        return final
    partial = final.with_name(final.name + PARTIAL)
    with machine_errors("write", final):
        for left in final.parent.glob(f"*{PARTIAL}"):  # left by a training that was killed
            shutil.rmtree(left)
        final.parent.mkdir(parents=True, exist_ok=True)
        with folder_lock.beginning(final.parent):  # `dcgym clean` takes an empty folder for one that a killed run left
            partial.mkdir()
            (partial / INFO_FILE).write_text(json.dumps({"iteration": training.iteration, "steps": training.steps}) + "\n")
        algorithm.save_to_path(str(partial.resolve()), state=pickle.loads(training.state))
        sync_tree(partial)
        if why := trusted.remember([replace(item_of(partial), name=str(final.absolute()))]):
            note(why)
        partial.rename(final)
        sync(final.parent)
        for old in find(folder)[:-keep] if keep else ():
            shutil.rmtree(old.rename(old.with_name(old.name + PARTIAL)))
    return final


def find(folder: Path) -> list[Path]:
    """Returns the complete checkpoints, the oldest first."""
    places = (folder / FOLDER).iterdir() if (folder / FOLDER).is_dir() else ()
    return sorted((path for path in places if _NAME.fullmatch(path.name)), key=iteration_of)


def iteration_of(checkpoint: Path) -> int:
    match = _NAME.fullmatch(checkpoint.name)
    if match is None:
        raise UsageError(f"{checkpoint}: is not a checkpoint of a training; give its folder, or a checkpoints/iteration-N")
    return int(match[1])


def steps_of(checkpoint: Path) -> int:
    """Returns the number of steps sampled until then."""
    try:
        return int(plain_json.read(checkpoint / INFO_FILE)["steps"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise UsageError(f"{checkpoint}: is not a checkpoint of a training; give its folder, or one of its checkpoints") from None


def describe(checkpoint: Path) -> str:
    """Returns the checkpoint's name in words."""
    return f"iteration {iteration_of(checkpoint)} ({steps_of(checkpoint):,} steps)"


def latest(folder: Path) -> Path:
    checkpoints = find(folder)
    if not checkpoints:
        raise UsageError(f"{folder}: has no checkpoint; the training did not get as far as its first")
    return checkpoints[-1]
