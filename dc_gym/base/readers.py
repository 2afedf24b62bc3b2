# SPDX-License-Identifier: Apache-2.0
"""Readers of other tools' files, one a format. They are found by lying in a folder, and a file's format by its content.

A reader is the `READER` of a module. It has a `name`, a `title`, and `recognizes`, which gets the beginning of a file.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

__all__ = ["HEAD_BYTES", "MODEL", "head_of", "in_folder", "node_name", "place"]

HEAD_BYTES = 1 << 16
"""The size of the beginning of a file by which its format is recognized."""
MODEL = "model"
"""The module of such a folder that is no reader."""
LONGEST_NAME = 8
"""The length of a node's name with which the names of all its ports are short enough for Linux."""


@cache
def in_folder(package: str) -> tuple[Any, ...]:
    """Returns the readers of a package, by the names of their modules."""
    names = sorted(module.name for module in iter_modules(import_module(package).__path__) if module.name != MODEL)
    return tuple(import_module(f"{package}.{name}").READER for name in names)


def head_of(path: Path) -> bytes:
    """Returns the beginning of a file, or nothing if it cannot be read: whoever reads it whole says why."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def place(path: Path, line: int | None, why: str) -> str:
    """Returns what is wrong at a place in a file."""
    return f"{path}: {why}" if line is None else f"{path}: line {line}: {why}"


def node_name(text: str, letter: str) -> str:
    """Returns the name here of a node that a file names so: letters and digits, and for a number the letter before it.

    A long name keeps its beginning, and four digits of its SHA-256 take the place of the rest.
    """
    plain = re.sub(r"[^A-Za-z0-9]", "", text)
    name = plain if plain[:1].isalpha() else letter + plain
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 4] + sha256(text.encode()).hexdigest()[:4]
