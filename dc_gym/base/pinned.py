# SPDX-License-Identifier: Apache-2.0
"""Folders by descriptor: an operation on a pinned folder reaches that folder, whatever its name leads to meanwhile.

Somebody else who may write the folder above could put a link in its place. Root would then remove, or give away, the link's
target.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["open_folder", "pinned"]


def open_folder(folder: Path) -> int:
    """Returns a descriptor of a folder. Raises OSError if the path is a link, or anything else."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


@contextmanager
def pinned(folder: Path) -> Iterator[Path]:
    """Yields a path by which this process reaches the folder itself as long as the context is open."""
    fd = open_folder(folder)
    try:
        yield Path(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
