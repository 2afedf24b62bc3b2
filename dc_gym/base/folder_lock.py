# SPDX-License-Identifier: Apache-2.0
"""Whose folder is it? A process that works in a folder holds a lock on FOLDER/.lock; a folder without a holder is litter.

The lock is flock(2)'s: it ends with the process, however that ends, and flock(1) in the janitor's shell knows it, too.
The file says that it is ours: many a program has a .lock, and only what we made may be removed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dc_gym.base.errors import UsageError

LOCK = ".lock"
MARK = "dcgym"
"""The lock's content."""


def take(folder: Path) -> int | None:
    """A descriptor that holds `folder` until it is closed; None while another process holds it."""
    lock = folder / LOCK
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(fd, lock):
                if not os.fstat(fd).st_size:
                    _mark(fd, lock)
                return fd
        except BlockingIOError:
            held = _is_locked(fd)
            os.close(fd)
            if held:
                return None
            continue  # it was is_held() of another process that looked just now
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # its last holder has removed the file in between


def is_held(folder: Path) -> bool:
    """Says whether a process works there; False, too, where the lock cannot be read."""
    try:
        fd = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _is_locked(fd)
    finally:
        os.close(fd)


def is_ours(folder: Path) -> bool:
    """Whether a process of ours has, or had, the folder."""
    try:
        with (folder / LOCK).open("rb") as file:
            return file.read(len(MARK)) == MARK.encode()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False


def release(folder: Path, fd: int) -> None:
    """Gives up a folder that stays: the lock's file goes."""
    (folder / LOCK).unlink(missing_ok=True)
    os.close(fd)


@contextmanager
def held(folder: Path, who: str) -> Iterator[None]:
    """While open, `folder` is this process'; UsageError where `who` is at work there already."""
    fd = take(folder)
    if fd is None:
        raise UsageError(f"{folder}: {who} is under way here; wait for its end, or give another --out")
    try:
        yield
    finally:
        release(folder, fd)


def _mark(fd: int, lock: Path) -> None:
    """Says that the lock is ours; where there is no room for that, there is no lock either."""
    try:
        os.write(fd, f"{MARK}\n".encode())
    except OSError as error:
        lock.unlink()
        raise OSError(error.errno, error.strerror, str(lock)) from None


def _is_locked(fd: int) -> bool:
    """Says whether a holder has the lock behind `fd`: holders lock exclusively, those who only look do not."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _is(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
