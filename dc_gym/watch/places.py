# SPDX-License-Identifier: Apache-2.0
"""Which labs run below a folder: a run's (by its --out, or the folder that it writes), or those of a training or a sweep."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dc_gym.errors import UsageError
from dc_gym.folder import PARTIAL
from dc_gym.kernel import share

__all__ = ["Place", "find"]

DEPTH = 6
MOST_FOLDERS = 20_000


@dataclass(frozen=True, slots=True)
class Place:
    """A lab to attach to."""

    folder: Path
    """The one that holds its socket."""
    name: str
    number: int
    """From 1."""
    count: int
    """Of the labs there."""
    alone: bool
    """It is a run of its own: when it ends, nothing follows."""


def find(out: Path, number: int = 1) -> Place:
    """Lab `number` of those that run in `out` or below it; UsageError when there are not so many."""
    real = out.resolve()
    for folder in (real.with_name(f"{real.name}{PARTIAL}") / ".lab" if real.name else real, real / ".lab"):
        if folder.name == ".lab" and folder.is_dir():
            return _choose([folder], real, number, alone=True)
    return _choose(_below(real), real, number, alone=False)


def _below(real: Path) -> list[Path]:
    """In the order of their names, numbers as numbers."""
    tops = [real, real.with_name(f"{real.name}{PARTIAL}")] if real.name else [real]
    found = [folder for top in tops for folder in _search(top)]
    return sorted(found, key=lambda path: [(int(digits or 0), text) for digits, text in re.findall(r"(\d+)|(\D+)", str(path))])


def _search(top: Path) -> Iterator[Path]:
    """Level by level; somebody may ask for a whole disk."""
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


def _choose(folders: list[Path], real: Path, number: int, *, alone: bool) -> Place:
    if not folders:
        raise UsageError(f"{real}: no run is under way here; give the --out of a run or a training that is")
    names = [str(folder.parent.relative_to(real.parent)).removesuffix(PARTIAL) for folder in folders]
    if not 1 <= number <= len(folders):
        listed = ", ".join(f"{i} is {name}" for i, name in enumerate(names, 1))
        raise UsageError(f"--lab: '{number}': the labs that run here: {listed}")
    return Place(folders[number - 1], names[number - 1], number, len(folders), alone)
