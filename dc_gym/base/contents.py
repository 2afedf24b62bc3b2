# SPDX-License-Identifier: Apache-2.0
"""Checks files that root runs or loads against the SHA-256 that was written beside them when they were made.

The list has the format of sha256sum(1). A file is read once a process: its digest is known until the file changes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from dc_gym.base.errors import MachineError

SUMS = "SHA256SUMS"

_known: dict[tuple[int, int, int, int, int], str] = {}


def write_sums(folder: Path) -> None:
    """Writes the list of all files in a folder that has just been made."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    (folder / SUMS).write_text("".join(f"{digest_of_file(path)}  {path.relative_to(folder)}\n" for path in files))


def is_listed(folder: Path) -> bool:
    """Returns whether a folder has its list."""
    return (folder / SUMS).is_file()


def check(folder: Path, remedy: str, names: Iterable[str] | None = None) -> None:
    """Raises MachineError if a file in the folder has changed since it was made. `names`: only these are checked."""
    try:
        rows = [line.split("  ", 1) for line in (folder / SUMS).read_text().splitlines()]
        digests = {name: digest for digest, name in rows}
    except (FileNotFoundError, ValueError) as error:
        raise MachineError(f"{folder / SUMS}: cannot be read ({error}): nobody knows what root would run; {remedy}") from None
    for name in digests if names is None else names:
        if _digest_or_empty(folder / name) != digests.get(name):
            raise MachineError(f"{folder / name}: not the file that was made, by its SHA-256: root does not run it; {remedy}")


def _digest_or_empty(path: Path) -> str:
    try:
        return digest_of_file(path)
    except FileNotFoundError:
        return ""


def digest_of_file(path: Path) -> str:
    """Returns the SHA-256 of a file, which is read once in a process unless it changes."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if key not in _known:
            _known[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _known[key]
