# SPDX-License-Identifier: Apache-2.0
"""Counts the work of one process: the instructions of its user mode, or its CPU time where they cannot be counted.

A lab's kernel is one process, and everything that its links, switches and queues do is work in its user mode. Many virtual
machines have no hardware counters; CPU time depends on caches and on other load, so it has to be compared in pairs, many times.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path

NR_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
PERF_FLAG_FD_CLOEXEC = 8
ATTRIBUTES = struct.Struct("=IIQQQQQ16x")  # struct perf_event_attr, version 0: type, size, config, ..., flags
FLAGS = 1 << 2 | 1 << 5 | 1 << 6  # pinned, so that the counter is never taken away; exclude_kernel; exclude_hv
CPU_TIME = "ns of CPU time"
TOTAL = struct.Struct("=Q")
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """An event that perf_event_open(2) counts: values of struct perf_event_attr, and the unit of its total."""

    kind: int
    config: int
    unit: str


INSTRUCTIONS = PerfEvent(0, 1, "instructions")
"""PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS."""


@dataclass(frozen=True, slots=True)
class WorkCounter:
    """A counter of one process' work."""

    unit: str
    read: Callable[[], int]
    """Returns the work so far."""


@contextmanager
def counted(pid: int, event: PerfEvent = INSTRUCTIONS) -> Iterator[WorkCounter]:
    """Counts the work of the first thread of a process: the event where it can be counted, else CPU time."""
    file = _open(pid, event) if _counts(event) else None
    if file is None:
        yield WorkCounter(CPU_TIME, partial(cpu_ns, pid))
        return
    with file:
        yield WorkCounter(event.unit, partial(_read, file))


def cpu_ns(pid: int) -> int:
    """Returns the CPU time of the first thread of a process, in ns. It is exact while the thread waits."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def _counts(event: PerfEvent) -> bool:
    """Returns whether the event is counted here: this process counts its own. Some machines have a counter that stays 0."""
    file = _open(0, event)
    if file is None:
        return False
    with file, suppress(OSError):
        sum(range(10_000))
        return _read(file) > 0
    return False


def _open(pid: int, event: PerfEvent) -> FileIO | None:
    """Returns a counter as a file; None if there is none here, or if it is not permitted."""
    number = NR_PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return None
    attributes = ATTRIBUTES.pack(event.kind, ATTRIBUTES.size, event.config, 0, 0, 0, FLAGS)
    fd = int(_libc.syscall(number, attributes, pid, -1, -1, PERF_FLAG_FD_CLOEXEC))
    return None if fd < 0 else FileIO(fd)


def _read(file: FileIO) -> int:
    """Returns the total of a counter. Raises OSError if the machine has given the counter to somebody else."""
    data = file.read(TOTAL.size)
    if len(data) < TOTAL.size:
        raise OSError("perf_event_open: the counter was taken away; end other users of perf on this machine")
    return int(TOTAL.unpack(data)[0])
