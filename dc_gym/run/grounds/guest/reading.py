# SPDX-License-Identifier: Apache-2.0
"""Finds out whether a command waits for input from its terminal, by the system calls in which its processes sleep.

Processes that read the terminal, or wait for it and other files by poll, select or epoll, wait for input. Linux on x86-64 only;
needs root.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

READ, READV, POLL, SELECT, EPOLL_WAIT, PSELECT, PPOLL, EPOLL_PWAIT, EPOLL_PWAIT2 = 0, 19, 7, 23, 232, 270, 271, 281, 441
POLLFD = struct.Struct("=ihh")
POLLIN = 1
MOST_POLLED = 1024
"""The most entries of a poll, or files of a select, that are read."""


def waits_for_input(terminal: int, device: int) -> bool:
    """Returns whether a process in the foreground of a terminal waits for its input.

    `terminal` is the master's descriptor, `device` the number of the slave.
    """
    try:
        group = os.tcgetpgrp(terminal)
    except OSError:  # the command has ended
        return False
    return any(_waits(task, device) for process in _processes(group) for task in _tasks(process))


def _processes(group: int) -> Iterator[Path]:
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                yield Path(entry.path)


def _tasks(process: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted((process / "task").iterdir())


def _waits(task: Path, device: int) -> bool:
    with suppress(OSError, struct.error):  # it has ended, or waits no more
        number, *words = (task / "syscall").read_text().split()
        if number.isdigit():
            arguments = [int(word, 16) for word in words]
            return any(_is_terminal(task, fd, device) for fd in _awaited(task, int(number), arguments))
    return False


def _awaited(task: Path, call: int, arguments: list[int]) -> Iterator[int]:
    """Yields the descriptors from which a system call wants input."""
    first, second, *_ = arguments
    if call in (READ, READV):
        yield first
    elif call in (POLL, PPOLL):
        entries = _memory(task, first, POLLFD.size * min(second, MOST_POLLED))
        yield from (fd for fd, events, _ in POLLFD.iter_unpack(entries) if events & POLLIN)
    elif call in (SELECT, PSELECT) and second:
        bits = int.from_bytes(_memory(task, second, (min(first, MOST_POLLED) + 7) // 8), "little")
        yield from (fd for fd in range(min(first, MOST_POLLED)) if bits >> fd & 1)
    elif call in (EPOLL_WAIT, EPOLL_PWAIT, EPOLL_PWAIT2):
        for line in (task / "fdinfo" / str(first)).read_text().splitlines():
            if line.startswith("tfd:"):
                _, fd, _, events, *_ = line.split()
                if int(events, 16) & POLLIN:
                    yield int(fd)


def _memory(task: Path, at: int, length: int) -> bytes:
    with (task / "mem").open("rb", buffering=0) as memory:
        return os.pread(memory.fileno(), length, at)


def _is_terminal(task: Path, fd: int, device: int) -> bool:
    with suppress(OSError):
        return (task / "fd" / str(fd)).stat().st_rdev == device
    return False
