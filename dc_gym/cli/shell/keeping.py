# SPDX-License-Identifier: Apache-2.0
"""Files that commands have written in a lab, and that the user keeps: `get FILE` and `--keep DIR`.

A lab gives names, sizes and bytes, and none of them is trusted. A file is created new, below the user's folder, through no link.
The size of a lab's memory bounds the bytes that it sends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from dc_gym.base.errors import UsageError
from dc_gym.base.files import machine_errors, whole
from dc_gym.base.readable import quantity

MOST_FILES = 10_000
MOST_NAMED = 5


class _GivenUp(Exception):
    """The file is given up."""


class Keeping:
    """The files that the user keeps of one lab."""

    def __init__(self, limit_bytes: int, folder: Path | None = None) -> None:
        """`limit_bytes` bounds all files together. `folder` gets everything at the end: it is made, or must be empty."""
        self._left_bytes, self._limit_bytes, self._folder = limit_bytes, limit_bytes, folder
        self._got: set[str] = set()
        self._writing, self._name, self._failed = ExitStack(), "", ""
        self._file: BinaryIO | None = None
        if folder is not None:
            with machine_errors("make", folder, "another --keep"):
                folder.mkdir(parents=True, exist_ok=True)
                if any(folder.iterdir()):
                    raise UsageError(f"--keep {folder}: the folder is not empty; give another one")

    @property
    def keeps_all(self) -> bool:
        return self._folder is not None

    def begin(self, name: str, path: Path) -> None:
        """Opens the file that gets the bytes of the lab's file `name`. Raises UsageError if it cannot be made new."""
        remedy = f"give another name after it: get {name} NAME"
        if path.exists() or path.is_symlink():
            raise UsageError(f"get {name}: {path} exists; {remedy}")
        try:
            work = self._writing.enter_context(whole(path))
            self._file = self._writing.enter_context(work.open("wb"))
        except OSError as error:
            raise UsageError(f"get {name}: {path}: {error.strerror}; {remedy}") from None
        self._name, self._failed = name, ""

    def begin_below(self, name: str) -> None:
        """Does so for a file that is kept at the end, whose name a lab gave and `names` has checked."""
        assert self._folder is not None, "the caller asks"
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.begin(name, path)

    def take(self, data: bytes) -> bool:
        """Writes the next bytes. Returns False if no more are taken."""
        if self._file is None or self._failed:
            return False
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            self._failed = f"more than {quantity(self._limit_bytes, 'bytes')}, the lab's memory, are not kept"
            return False
        try:
            self._file.write(data)
        except OSError as error:
            self._failed = str(error.strerror)
        return not self._failed

    def end(self, is_whole: bool) -> str | None:
        """Gives the file its name, or removes it unless it is whole. Returns why it is not kept, if that lies here."""
        if self._file is None:
            return None
        self._file = None
        with suppress(_GivenUp), self._writing.pop_all():
            if self._failed or not is_whole:
                raise _GivenUp
            self._got.add(self._name)
        return self._failed or None

    def names(self, listing: bytes) -> list[str]:
        """Returns the names in a lab's listing that are names of files below a folder, without files that the user has got."""
        try:
            entries = json.loads(listing)
        except ValueError:
            return []
        plain = (name for name in (entries if isinstance(entries, list) else []) if isinstance(name, str) and is_below(name))
        return [name for name in dict.fromkeys(plain) if name not in self._got][:MOST_FILES]


def is_below(name: str) -> bool:
    """Returns whether a name is a path below any folder, and can be shown as it is."""
    parts = PurePosixPath(name).parts
    short = all(len(os.fsencode(part)) <= 255 for part in parts) if name.isprintable() else False
    return bool(parts) and short and ".." not in parts and not name.startswith("/") and str(PurePosixPath(name)) == name


def lost(names: list[str]) -> Iterator[str]:
    """Yields the line that names the files that end with the network, if there are any."""
    if names:
        listed = ", ".join([*names[:MOST_NAMED], *(["..."] if len(names) > MOST_NAMED else [])])
        loss = "1 file that commands wrote ends" if len(names) == 1 else f"{len(names)} files that commands wrote end"
        yield f"{loss} with the network: {listed} (`get FILE` or --keep DIR keeps them)"
