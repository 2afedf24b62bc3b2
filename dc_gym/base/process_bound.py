# SPDX-License-Identifier: Apache-2.0
"""The things that belong to one process: labs, folders, locks, and the pipes whose end shows that a process is dead.

A fork copies all of a process: its objects, whose clean-up would remove files that the parent still uses, and its descriptors,
which would keep a lock or a pipe after the parent's death. So an owner of something outside of the process keeps `this_process()`
and asks it before it uses or removes the thing. A file opened `unshared()` is empty in a child.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar
from weakref import WeakSet

from dc_gym.base.errors import AgentError


class Owner:
    """A process that owns things."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def is_here(self) -> bool:
        """Returns False in a forked child of the owner."""
        return self is _here

    def require_here(self, doing: str) -> None:
        """Raises AgentError in a forked child of the owner."""
        if self is not _here:
            why = f"this lab belongs to process {self.pid}, and a lab cannot be shared by a fork"
            raise AgentError(f"{doing}: {why}; make an environment in this process ({os.getpid()})")


class OpenFile(Protocol):
    """A file or a socket."""

    def fileno(self) -> int: ...


F = TypeVar("F", bound=OpenFile)
_here = Owner()
_opening = threading.RLock()
_files: WeakSet[OpenFile] = WeakSet()


def this_process() -> Owner:
    return _here


@contextmanager
def unshared() -> Iterator[Callable[[F], F]]:
    """Yields a function for the files that are opened in the context: no child gets them. No thread forks meanwhile."""

    def keep(file: F) -> F:
        _files.add(file)
        return file

    with _opening:
        yield keep


def _empty_files() -> None:
    """Puts an empty file in the place of each unshared one. So its number stays taken until its object closes it."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for file in list(_files):
        with suppress(OSError, ValueError):  # it is closed
            os.dup2(nothing, file.fileno(), inheritable=False)
    os.close(nothing)
    _files.clear()


def _become_child() -> None:
    global _here
    _here = Owner()
    _opening.release()
    _empty_files()


os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_become_child)
