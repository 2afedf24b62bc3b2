# SPDX-License-Identifier: Apache-2.0
"""Finds the labs that run below a folder: the lab of a run (by its --out, or the folder that it writes), or the labs of a
training or a sweep."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base import folder_lock
from dc_gym.base.errors import UsageError
from dc_gym.base.files import PARTIAL
from dc_gym.kernel import share
from dc_gym.learn.session import SCRATCH

__all__ = ["Place", "choose", "find", "is_awaited"]

TRAINING = "training"
DEPTH = 6
MOST_FOLDERS = 20_000
_OF_TRAINING = re.compile(rf"{SCRATCH}(?:(.+)-)?[0-9a-f]{{8}}")
_OF_FLOWS = re.compile(r"lab(\d+)")


@dataclass(frozen=True, slots=True)
class Place:
    """A lab to attach to."""

    folder: Path
    """The folder that holds the lab's socket."""
    name: str
    """The purpose of a training's lab, such as training 2 or evaluation; for others the folder of the run."""
    number: int
    """The lab's number, from 1."""
    count: int
    """The number of labs found."""
    alone: bool
    """True for a single run: when it ends, no other lab follows."""


def find(out: Path) -> list[Place]:
    """Returns all labs that run in `out` or below it. A training's own labs come before the labs of its evaluations."""
    real = out.resolve()
    for folder in (real.with_name(f"{real.name}{PARTIAL}") / ".lab" if real.name else real, real / ".lab"):
        if folder.name == ".lab" and folder.is_dir():
            return [Place(folder, _path(folder, real), 1, 1, alone=True)]
    named = _numbered(sorted(((_name(folder, real), folder) for folder in _below(real)), key=_order))
    return [Place(folder, name, number, len(named), alone=False) for number, (name, folder) in enumerate(named, 1)]


def choose(places: Sequence[Place], lab_name: str) -> Place | None:
    """Returns a lab by name or by number. A number means a training's own lab, or the position in the order of names."""
    names = (lab_name, f"{TRAINING} {lab_name}") if any(lab.name.startswith(f"{TRAINING} ") for lab in places) else (lab_name,)
    match = next((lab for lab in places if lab.name in names), None)
    if match is None and len(names) == 1:
        match = next((lab for lab in places if str(lab.number) == lab_name), None)
    return match


def is_awaited(out: Path) -> bool:
    """Returns whether a lab may still come: a process works in the folder, or is about to make a result of that name."""
    real = out.resolve()
    return any(folder_lock.is_held(folder) for folder in (real, real.with_name(f"{real.name}{PARTIAL}") if real.name else real))


def require(places: Sequence[Place], out: Path, lab_name: str | None) -> None:
    """Raises UsageError if no lab runs, or not the one that was asked for."""
    if not places:
        raise UsageError(f"{out.resolve()}: no run is under way here; give the --out of a run or a training that is")
    if lab_name is not None and choose(places, lab_name) is None:
        raise UsageError(f"--lab: {unmet(places, lab_name)}")


def unmet(places: Sequence[Place], lab_name: str) -> str:
    """Returns a text that lists the running labs, for when none is the one asked for."""
    listed = ", ".join(f"{lab.number} is {lab.name}" for lab in sorted(places, key=lambda lab: lab.number))
    return f"'{lab_name}': the labs that run here: {listed}"


def _name(folder: Path, real: Path) -> str:
    run = folder.parent
    of_training, of_flows = _OF_TRAINING.fullmatch(run.name), _OF_FLOWS.fullmatch(run.parent.name)
    if of_training and of_flows:
        return f"{TRAINING} {int(of_flows[1]) + 1}"
    return of_training[1].replace("-", " ") if of_training and of_training[1] else _path(folder, real)


def _path(folder: Path, real: Path) -> str:
    return str(folder.parent.relative_to(real.parent)).removesuffix(PARTIAL)


def _numbered(named: Sequence[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Returns the labs. A training's labs that lack a number (where hosts are agents) are numbered in their order."""
    order = itertools.count(1)
    return [(f"{name} {next(order)}" if name == TRAINING else name, folder) for name, folder in named]


def _order(named: tuple[str, Path]) -> tuple[bool, list[tuple[int, str]], Path]:
    """Returns a sort key that compares numbers as numbers and puts evaluations last."""
    name, folder = named
    return name.startswith("evaluation"), [(int(digits or 0), text) for digits, text in re.findall(r"(\d+)|(\D+)", name)], folder


def _below(real: Path) -> list[Path]:
    tops = [real, real.with_name(f"{real.name}{PARTIAL}")] if real.name else [real]
    return [folder for top in tops for folder in _search(top)]


def _search(top: Path) -> Iterator[Path]:
    """Searches level by level and within limits, since the folder may be a whole disk."""
    level, looked = [top], 0
    for _ in range(DEPTH):
        below: list[Path] = []
        for folder in level:
            looked += 1
            if looked > MOST_FOLDERS:
                return
            if (folder / ".lab" / share.NAME).is_socket():
                yield folder / ".lab"
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                below += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        level = below
