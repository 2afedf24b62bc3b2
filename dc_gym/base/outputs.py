# SPDX-License-Identifier: Apache-2.0
"""Places for a command's output files. No existing file is lost unless the user asks for it.

A file identifies itself by a mark in its bytes, which names the command and its inputs, or by its content. The same command
renews files that it made of the same inputs. Any other file stays, unless the user gives --force.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dc_gym.base import plain_json
from dc_gym.base.errors import UsageError

__all__ = ["Mine", "free_place", "is_json_of", "is_marked", "is_table_of", "mark_of", "require_place"]

Mine = Callable[[Path], bool]
"""A test of whether an existing file is the command's own, made of the same inputs."""
REMEDY = "replace it with --force, or give another --out"
DIGITS = 16


def mark_of(command: str, sources: Iterable[Path | str], target: Path) -> str:
    """Returns the mark of a file at `target`: the command, and a hash over its inputs.

    A source is a path, taken relative to `target`, or a name.
    """
    start = os.path.realpath(target.absolute().parent)
    paths = sorted(
        {source if isinstance(source, str) else os.path.relpath(os.path.realpath(source), start) for source in sources}
    )
    return f"dcgym {command} {hashlib.sha256(json.dumps(paths).encode()).hexdigest()[:DIGITS]}"


def is_marked(mark: str) -> Mine:
    """Recognizes a file by its mark."""

    def is_own(path: Path) -> bool:
        if not path.is_file() or not path.stat().st_size:
            return False
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(mark.encode()) >= 0

    return is_own


def is_json_of(**fields: object) -> Mine:
    """Recognizes a JSON object by some of its values."""

    def is_own(path: Path) -> bool:
        try:
            content = plain_json.read(path) if path.is_file() else None  # a device may have no end
        except (OSError, ValueError):
            return False
        return isinstance(content, dict) and all(name in content and content[name] == value for name, value in fields.items())

    return is_own


def is_table_of(columns: Sequence[str]) -> Mine:
    """Recognizes a table of comma-separated values by its first line."""

    def is_own(path: Path) -> bool:
        try:
            if not path.is_file():
                return False
            with path.open(encoding="utf-8") as file:
                header = ",".join(columns)
                return file.readline(len(header) + 1).rstrip("\n") == header
        except (OSError, UnicodeDecodeError):
            return False

    return is_own


def free_place(path: Path, is_own: Mine) -> Path:
    """Returns `path` or, if somebody else's file is there, NAME-2, NAME-3, ...

    It serves for files that the user has not named.
    """
    numbers = itertools.count(2)
    candidate = path
    while os.path.lexists(candidate) and not is_own(candidate):
        candidate = path.with_name(f"{path.stem}-{next(numbers)}{path.suffix}")
    return candidate


def require_place(path: Path, is_own: Mine, *, force: bool = False, remedy: str = REMEDY) -> None:
    """Raises UsageError if a file at `path` would be lost: it is not the command's own, and --force was not given."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the name of a file")
    if not force and os.path.lexists(path) and not is_own(path):
        raise UsageError(f"{path} exists, and this command did not make it from the same inputs; {remedy}")
