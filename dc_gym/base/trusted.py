# SPDX-License-Identifier: Apache-2.0
"""The user's list of code that may run again: code that this user ran, or made, from a path that the user named.

A result holds code, and a training holds pickles. A user who unpacks, clones or copies one becomes the owner of its files, so
neither owner nor place shows who wrote them. Their content does. The list is a text file in the user's folder for configuration,
a line for each item: SHA-256, kind, day, name. Only the first two count. A list that is not the caller's alone counts as empty.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Self

from dc_gym.base import folder_lock
from dc_gym.base.terminal import visible

__all__ = ["Item", "Kind", "list_path", "missing", "remember", "why_missing"]

MOST_BYTES = 16 << 20
"""The bytes of the list that are read, from its end: the items of a hundred thousand runs."""
LONGEST_NAME = 200


class Kind(StrEnum):
    CODE = "code"
    """A Python file, or the header of a NIC algorithm."""
    MODULE = "module"
    """The name of an installed module."""
    COMMAND = "command"
    """The text of a command of workload.exec."""
    PROGRAM = "program"
    """A file that a command names by its path."""
    CHECKPOINT = "checkpoint"
    """The files of a training's checkpoint."""
    KERNEL = "kernel"
    """A lab kernel that the user gave."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something that runs, known by its content."""

    kind: Kind
    sha256: str
    name: str = field(compare=False)
    """Its name for the list's reader."""

    @classmethod
    def of(cls, kind: Kind, content: bytes, name: str) -> Self:
        return cls(kind, hashlib.sha256(content).hexdigest(), name)

    def line(self) -> str:
        name = " ".join(visible(self.name).split())[:LONGEST_NAME]  # a name must not end the line: the next one would count
        return f"{self.sha256} {self.kind} {datetime.now(UTC):%Y-%m-%d} {name}\n"


class _NoList(Exception):
    """The list does not count; the text gives the reason."""


_note_shown = False
"""True if the user knows that the list cannot be written."""


def list_path() -> Path:
    """Returns the list's path. It is relative if the user has no home."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(base) if base.startswith("/") else Path("~/.config").expanduser()
    except RuntimeError:  # nobody knows this user
        folder = Path()
    return folder / "dcgym" / "trusted"


def missing(items: Iterable[Item]) -> list[Item]:
    """Returns the items that are not in the list, in their order. All are missing if the list does not count."""
    try:
        with _opened(os.O_RDONLY) as fd:
            listed = _keys(_end_of(fd))
    except (_NoList, OSError):
        listed = set()
    return [item for item in dict.fromkeys(items) if (item.sha256, item.kind) not in listed]


def why_missing() -> str:
    """Returns why something is missing: it has never run here, or the list does not count."""
    try:
        with _opened(os.O_RDONLY):
            pass
    except FileNotFoundError:
        pass
    except (_NoList, OSError) as error:
        return f"{list_path()}, the list of what you ran, does not count: {_words(error)}"
    return f"{list_path()}, the list of what you ran, does not have it"


def remember(items: Iterable[Item]) -> str | None:
    """Adds items to the list.

    Returns None or, the first time in this process, a line with the reason why it cannot. The caller goes on without the list.
    """
    global _note_shown
    new_items = missing(items)
    if not new_items:
        return None
    try:
        _make_folder()
        with _opened(os.O_RDWR | os.O_CREAT | os.O_APPEND) as fd:
            _add(fd, new_items)
    except (_NoList, OSError) as error:
        first, _note_shown = not _note_shown, True
        note = f"{list_path()} cannot keep what you ran: {_words(error)}; its code runs again only with --trust"
        return note if first else None
    return None


def _add(fd: int, items: list[Item]) -> None:
    """Appends the missing items, in one write. Another process that adds its own waits meanwhile, but not for ever."""
    folder_lock.within(folder_lock.PATIENCE_S, fd, fcntl.LOCK_EX)
    content = _end_of(fd)
    listed = _keys(content)
    lines = [item.line() for item in items if (item.sha256, item.kind) not in listed]
    if lines:
        is_whole = not content or content.endswith(b"\n")  # a full disk may have cut the last line short
        added = ("" if is_whole else "\n").encode() + "".join(lines).encode()
        if os.write(fd, added) < len(added):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _keys(content: bytes) -> set[tuple[str, str]]:
    """Returns SHA-256 and kind of each line. Any other line matches no item."""
    rows = (line.split(b" ", 2) for line in content.split(b"\n"))
    return {(words[0].decode(errors="replace"), words[1].decode(errors="replace")) for words in rows if len(words) > 1}


def _end_of(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return os.pread(fd, MOST_BYTES, max(0, size - MOST_BYTES))


@contextmanager
def _opened(flags: int) -> Iterator[int]:
    """Opens the list. Raises OSError if that fails, and _NoList if somebody else could have written it."""
    path = list_path()
    if not path.is_absolute():
        raise _NoList("you have no home folder; set XDG_CONFIG_HOME")
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _require_own(folder, path.parent, stat.S_ISDIR)
        fd = os.open(path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        _require_own(fd, path, stat.S_ISREG)
        yield fd
    finally:
        os.close(fd)


def _make_folder() -> None:
    """Makes the list's folder, unless the place is somebody else's, such as the caller's home under `sudo -E`."""
    folder = list_path().parent
    if not folder.is_absolute():
        return
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if nearest.lstat().st_uid not in (0, os.geteuid()):
        raise _NoList(f"{nearest} belongs to {_user(nearest.lstat().st_uid)}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _require_own(fd: int, path: Path, is_kind: Callable[[int], bool]) -> None:
    """Raises _NoList unless the file is of the right kind, and nobody but the caller may write it."""
    status = os.fstat(fd)
    if not is_kind(status.st_mode):
        raise _NoList(f"{path} is not a plain file")
    if status.st_uid != os.geteuid():
        raise _NoList(f"{path} belongs to {_user(status.st_uid)}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _NoList(f"others may write {path}; remove it")


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _words(error: Exception) -> str:
    """Returns the reason in words. Links are not followed: to open one is an error about loops, and as a folder it is none."""
    if not isinstance(error, OSError):
        return str(error)
    links = [path for path in (list_path().parent, list_path()) if _is_link(path)]
    if links and error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EEXIST):
        return f"{links[0]} is a symbolic link"
    return str(error.strerror)


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:
        return False
