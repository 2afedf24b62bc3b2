# SPDX-License-Identifier: Apache-2.0
"""The folder of a training: new, or one in which a training goes on. One process holds it at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from dc_gym.base import folder_lock, tensorboard
from dc_gym.base.errors import UsageError
from dc_gym.base.files import machine_errors
from dc_gym.base.unfinished import is_left_over
from dc_gym.methods.checkpoint import NAME as CHECKPOINT
from dc_gym.methods.episode_report import EVENTS


def open_folder(out: Path, resume: bool) -> AbstractContextManager[object]:
    """Opens the training's folder, new or to resume in, and locks it for this process."""
    if out.exists() and not resume and (not out.is_dir() or not all(_is_left_over(path) for path in out.iterdir())):
        way = "go on with --resume, or give" if (out / CHECKPOINT).is_file() else "give"
        raise UsageError(f"{out} exists; {way} another --out")
    if resume and not (out / CHECKPOINT).is_file():
        raise UsageError(f"--resume: {out} has no {CHECKPOINT}, written after the first episodes; begin without --resume")
    with machine_errors("make", out):
        out.mkdir(parents=True, exist_ok=True)
    return folder_lock.held(out, "a training")


def _is_left_over(path: Path) -> bool:
    """Returns True for a file or folder left by a training that was killed before its first checkpoint."""
    if path.name == EVENTS:
        return path.is_dir() and {entry.name for entry in path.iterdir()} <= {tensorboard.NAME}
    return is_left_over(path) or (path.name == folder_lock.LOCK and (folder_lock.is_ours(path.parent) or not path.stat().st_size))
