# SPDX-License-Identifier: Apache-2.0
"""The number of processes and threads that may still be started, and the limit that leaves no more.

The kernel refuses another one with EAGAIN ("Resource temporarily unavailable"). A program in a lab then gets ENOMEM.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base import control_groups

NEEDED_BY_A_RUN = 12
"""Processes and threads of a run at least: the command, its janitor, the lab kernel and the programs in the lab."""
REMEDY = "raise it, end other processes, or run fewer at a time (--jobs)"
NEAR = 4 * NEEDED_BY_A_RUN
"""Processes and threads that may be left by the limit that a lab met: when it has ended, its own are free again."""


@dataclass(frozen=True, slots=True)
class ProcessLimit:
    """A limit on the number of processes and threads."""

    name: str
    most: int
    used: int

    @property
    def left(self) -> int:
        return max(0, self.most - self.used)

    def __str__(self) -> str:
        return f"{self.name} is {self.most:,}, of which {self.used:,} are in use"


def tightest() -> ProcessLimit | None:
    """Returns the limit that leaves the fewest further processes and threads, or None if there is no limit."""
    return min(_limits(), key=lambda limit: limit.left, default=None)


def too_few(needed: int = NEEDED_BY_A_RUN) -> str:
    """Returns one line if fewer processes and threads may be started than are needed, otherwise ''."""
    limit = tightest()
    return f"a run needs {needed} processes and threads: {limit}; {REMEDY}" if limit and limit.left < needed else ""


def is_refusal(error: BaseException) -> bool:
    """Returns True for the error of Python when the kernel refuses another process or thread."""
    if isinstance(error, OSError):
        return error.errno == errno.EAGAIN
    return isinstance(error, RuntimeError) and "can't start new thread" in str(error)


def refused() -> str:
    """Returns one line about a process or thread that the kernel has refused."""
    limit = tightest()
    return f"no further process or thread can be started: {limit or 'the machine has no room for one'}; {REMEDY}"


def explains(text: str) -> str:
    """Returns one line if the error of an ended lab shows that a limit kept a program from starting; otherwise ''.

    A program in a lab that lacks memory fails with the same error, so then a limit has to be near.
    """
    limit = tightest()
    near = limit is not None and limit.left < NEAR
    return refused() if os.strerror(errno.EAGAIN) in text or (os.strerror(errno.ENOMEM) in text and near) else ""


def _limits() -> Iterator[ProcessLimit]:
    most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if most != resource.RLIM_INFINITY and os.getuid() != 0:  # root may exceed it
        yield ProcessLimit("this user's limit RLIMIT_NPROC (ulimit -u)", most, _tasks_of(os.getuid()))
    for group, _ in control_groups.folders("pids"):
        try:
            allowed, used = (group / "pids.max").read_text().strip(), int((group / "pids.current").read_text())
        except OSError:
            continue
        if allowed != "max":
            yield ProcessLimit(f"the control group's limit {group}/pids.max", int(allowed), used)


def _tasks_of(uid: int) -> int:
    """Returns the number of processes and threads of a user."""
    return sum(_threads(folder) for folder in Path("/proc").glob("[0-9]*") if _owner(folder) == uid)


def _owner(folder: Path) -> int:
    try:
        return folder.stat().st_uid
    except OSError:
        return -1


def _threads(folder: Path) -> int:
    try:
        return sum(1 for _ in (folder / "task").iterdir())
    except OSError:
        return 0
