# SPDX-License-Identifier: Apache-2.0
"""Single files while they are written: NAME.dcgym-RANDOMCHECK.partial.

Nobody can predict the name before the file is there. CHECK follows from the rest of the name, so no file of anybody else is taken
for one of dc-gym's. The writer holds a lock on the file (flock(2)), which ends with the process: a file without one is left over.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PARTIAL", "created", "is_left_over", "remove_left_over", "require_same"]

PARTIAL = ".partial"
"""Ending of the name of a file or folder while it is written."""
_FORM = re.compile(rf"(.+)\.dcgym-([0-9a-f]{{8}})[0-9a-f]{{8}}{re.escape(PARTIAL)}", re.DOTALL)


@contextlib.contextmanager
def created(path: Path) -> Iterator[tuple[Path, int]]:
    """Creates the file that gets the name `path` when it is whole. Yields its path for now, and a descriptor."""
    work, fd = _create(path)
    try:
        yield work, fd
    finally:
        os.close(fd)


def require_same(work: Path, fd: int) -> None:
    """Raises OSError if the path leads to another file than the descriptor."""
    if not _is_same(work, fd):
        raise OSError(errno.EEXIST, "somebody else has replaced it; choose a folder that others may not write", str(work))


def is_left_over(path: Path) -> bool:
    """Returns True for a file that a process was writing when it was killed."""
    with _left_over(path) as left_over:
        return left_over


def remove_left_over(path: Path) -> bool:
    """Removes an unfinished file, and returns whether it was one."""
    with _left_over(path) as left_over:
        if left_over:
            path.unlink(missing_ok=True)
        return left_over


def _create(path: Path) -> tuple[Path, int]:
    while True:
        work = path.with_name(_name(path.name, secrets.token_hex(4)))
        fd = os.open(work, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            if _is_same(work, fd):
                return work, fd
        except OSError:
            os.close(fd)
            work.unlink(missing_ok=True)
            raise
        os.close(fd)  # `dcgym clean` removed it before it was locked


def _name(name: str, random: str) -> str:
    return f"{name}.dcgym-{random}{zlib.crc32(os.fsencode(f'{name} {random}')):08x}{PARTIAL}"


@contextlib.contextmanager
def _left_over(path: Path) -> Iterator[bool]:
    """Yields whether nobody writes this file of dc-gym's any more. Nobody begins to while the context is open."""
    form = _FORM.fullmatch(path.name)
    if form is None or path.name != _name(*form.groups()):
        yield False
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # a link, another user's, or just finished
        yield False
        return
    try:
        yield stat.S_ISREG(os.fstat(fd).st_mode) and _is_free(fd)
    finally:
        os.close(fd)


def _is_free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its writer lives, or the file system has no locks
        return False
    return True


def _is_same(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except FileNotFoundError:
        return False
