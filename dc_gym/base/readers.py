# SPDX-License-Identifier: Apache-2.0
"""Readers of other tools' files, one a format. They are found by lying in a folder, and a file's format by its content.

A reader is the `READER` of a module. It has a `title`, and `recognizes`, which gets the beginning of a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from dc_gym.base.errors import UsageError, with_remedy

__all__ = ["HEAD_BYTES", "PLACED", "Formats", "head_of", "node_name"]

HEAD_BYTES = 1 << 16
"""The size of the beginning of a file by which its format is recognized."""
PLACED = "placed"
"""An attribute of errors whose texts begin with their place, so that nobody adds that of the spec."""
MODEL = "model"
"""The module of such a folder that is no reader."""
LONGEST_WORD = 80
LONGEST_NAME = 8
"""The length of a node's name with which the names of all its ports are short enough for Linux."""


class Formats:
    """The formats of a folder."""

    def __init__(self, package: str, error: type[UsageError], read: Callable[[Path], Any]) -> None:
        """Makes them: `read` returns what a file holds, `error` is the class of the errors about it."""
        self._package, self._error = package, error
        self._read = lru_cache(maxsize=4)(lambda path, mtime_ns, size_bytes: read(path))  # a run needs it several times

    @cached_property
    def readers(self) -> tuple[Any, ...]:
        """The readers of all formats, by the names of their modules."""
        names = sorted(module.name for module in iter_modules(import_module(self._package).__path__) if module.name != MODEL)
        return tuple(import_module(f"{self._package}.{name}").READER for name in names)

    @property
    def titles(self) -> str:
        """The tools whose files can be read."""
        return "; ".join(reader.title for reader in self.readers)

    def fault(self, path: Path, line: int | None, why: str) -> UsageError:
        """Returns an error about a place in a file: what is wrong there, and the remedy. Long words are shortened."""
        why = re.sub(rf"(\S{{{LONGEST_WORD}}})\S+?([;:,]?(?=\s|$))", r"\1...\2", why)
        here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        error = self._error(f"{here}: {why}" if line is None else f"{here}: line {line}: {why}")
        setattr(error, PLACED, True)
        return error

    def find(self, head: str | bytes) -> Any:
        """Returns the reader of the files that begin so, or None."""
        return next((reader for reader in self.readers if reader.recognizes(head)), None)

    def require(self, path: Path, head: str | bytes) -> Any:
        """Returns the reader of a file that begins so. Raises an error if there is none."""
        if (reader := self.find(head)) is None:
            raise self.fault(path, None, f"is in no known format; give a file of one of these: {self.titles}")
        return reader

    def read(self, path: Path) -> Any:
        """Returns what a file holds. Raises an error in one line."""
        try:
            status = path.stat()
            return self._read(path, status.st_mtime_ns, status.st_size)
        except (OSError, UnicodeDecodeError) as error:
            raise self.fault(path, None, f"cannot read it: {with_remedy(error, 'give another file')}") from None


def head_of(path: Path) -> bytes:
    """Returns the beginning of a file, or nothing if it cannot be read: whoever reads it whole says why."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def node_name(text: str, letter: str) -> str:
    """Returns the name here of a node that a file names so: letters and digits, and for a number the letter before it.

    A long name keeps its beginning, and four digits of its SHA-256 take the place of the rest.
    """
    plain = re.sub(r"[^A-Za-z0-9]", "", text)
    name = plain if plain[:1].isalpha() else letter + plain
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 4] + sha256(text.encode()).hexdigest()[:4]
