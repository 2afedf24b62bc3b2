# SPDX-License-Identifier: Apache-2.0
"""The files that commands of a shell have written in a lab: their list, and their contents."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

OWN = "dcgym-"
"""Beginning of the names in /tmp that are dc-gym's own."""


def listing(upper: Path | None, most_bytes: int) -> bytes:
    """Returns the names of plain files below the upper layer of a folder, as many as fit."""
    names: list[str] = []
    room = most_bytes - 2
    for name in _names(upper) if upper is not None else ():
        room -= len(json.dumps(name)) + 2
        if room < 0:
            break
        names.append(name)
    return json.dumps(names).encode()


def _names(upper: Path) -> Iterator[str]:
    for path, folders, files in os.walk(upper):
        folders.sort()
        for name in sorted(files):
            file = Path(path, name)
            if stat.S_ISREG(file.lstat().st_mode) and not (inner_path := str(file.relative_to(upper))).startswith(OWN):
                yield inner_path


def pieces(path: Path, length: int) -> Iterator[bytes]:
    """Yields the contents of a plain file. Raises OSError if there is none."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is no plain file", str(path))
        while data := file.read(length):
            yield data
