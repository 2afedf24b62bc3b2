# SPDX-License-Identifier: Apache-2.0
"""The ownership of a folder.

A process that works in a folder holds a lock on FOLDER/.lock. A folder without a holder is left over from an ended process. The
lock is made by flock(2). It ends with the process, however that ends, and flock(1) in the janitor's shell respects it, too. The
file's content identifies it as dc-gym's: many programs have a .lock, and dc-gym may only remove its own folders.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dc_gym.base.errors import UsageError, naming
from dc_gym.base.process_bound import this_process, unshared

LOCK = ".lock"
MARK = "dcgym"
"""The lock's content."""
PATIENCE_S = 2.0
"""The time for which a beginning waits for a removal in the same folder, and a removal for a beginning."""


def take(folder: Path) -> io.FileIO | None:
    """Returns a file that holds `folder` until it is closed, or None while another process holds it."""
    lock = folder / LOCK
    while True:
        with unshared() as keep:
            file = keep(io.FileIO(_open(lock, os.O_RDWR | os.O_CREAT), "r+"))
        try:
            with naming(lock):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is(file.fileno(), lock):
                    if not os.fstat(file.fileno()).st_size:
                        os.write(file.fileno(), f"{MARK}\n".encode())
                    return file
        except BlockingIOError:
            held = _is_locked(file.fileno())
            file.close()
            if held:
                return None
            continue  # it was is_held() of another process, which tested the lock just now
        except BaseException as error:
            if isinstance(error, OSError):
                _withdraw(lock, file.fileno())
            file.close()
            raise
        file.close()  # its last holder removed the file in the meantime


def is_held(folder: Path) -> bool:
    """Returns True if a process works in the folder, and False also where the lock cannot be read."""
    try:
        fd = _open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        return _is_locked(fd)
    finally:
        os.close(fd)


def is_ours(folder: Path) -> bool:
    """Returns True if a dc-gym process has, or had, the folder."""
    try:
        fd = _open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.read(fd, len(MARK)) == MARK.encode()
    finally:
        os.close(fd)


def holds(file: io.FileIO, folder: Path) -> bool:
    """Returns True if this file holds the folder, also if the folder got another name since."""
    return _is(file.fileno(), folder / LOCK)


def release(folder: Path, file: io.FileIO) -> None:
    """Gives up a folder that stays, and removes the lock's file."""
    (folder / LOCK).unlink(missing_ok=True)
    file.close()


@contextmanager
def held(folder: Path, work: str) -> Iterator[None]:
    """Holds `folder` for this process while the context is open. Raises UsageError where `work` already works in it."""
    owner, file = this_process(), take(folder)
    if file is None:
        raise UsageError(f"{folder}: {work} is under way here; wait for its end, or give another --out")
    try:
        yield
    finally:
        if owner.is_here():
            release(folder, file)


@contextmanager
def beginning(parent: Path) -> Iterator[None]:
    """Keeps `removing` out of a folder in which this process makes a folder and takes it.

    Both are short. In between the new folder looks like one that a killed run left.
    """
    with _shared_or_alone(parent, fcntl.LOCK_SH):
        yield


@contextmanager
def removing(parent: Path) -> Iterator[bool]:
    """Keeps `beginning` out of a folder in which this process removes folders that nobody holds. Yields False if some process
    begins there right now.
    """
    with _shared_or_alone(parent, fcntl.LOCK_EX) as held:
        yield held


@contextmanager
def _shared_or_alone(parent: Path, how: int) -> Iterator[bool]:
    """Locks the folder itself, and yields whether it could. Another user may hold it for ever, so nobody waits for ever."""
    try:
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # it may be entered, but not read
        yield True
        return
    try:
        yield within(PATIENCE_S, fd, how)
    finally:
        os.close(fd)


def within(patience_s: float, fd: int, how: int) -> bool:
    """Locks an open file or folder. Returns False if another process holds it all the time."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
        except OSError:  # a file system without such locks
            return True
        time.sleep(0.01)


def _open(lock: Path, flags: int) -> int:
    """Opens the file of a lock. Raises OSError for a link, and for whatever else is no file."""
    fd = os.open(lock, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EEXIST, "is no plain file; remove it", str(lock))


def _withdraw(lock: Path, fd: int) -> None:
    """Removes a lock without its mark, which could not be taken: its folder would look like somebody else's."""
    with suppress(OSError):
        if not os.fstat(fd).st_size:
            lock.unlink()


def _is_locked(fd: int) -> bool:
    """Returns True if a holder has the lock behind `fd`. Holders lock exclusively; tests of the lock do not."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _is(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False
