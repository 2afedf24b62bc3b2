# SPDX-License-Identifier: Apache-2.0
"""The processes of this machine: who they are, their children, their CPU time, and whether they still run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Values of /proc/PID/stat (proc(5))."""

    state: str
    """Z: it has ended, and its parent has not yet asked for its status."""
    parent: int
    cpu_s: float
    """CPU time that it has used so far, in s."""
    ended_children_cpu_s: float
    """CPU time, in s, of its children that have ended and whose status it has read."""
    start: int
    """Start time in clock ticks since boot."""

    @classmethod
    def of(cls, pid: int) -> ProcessStat | None:
        """Returns the values of a process. None: there is no such process."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        used_s, ended = (sum(map(int, fields[at : at + 2])) / os.sysconf("SC_CLK_TCK") for at in (11, 13))
        return cls(fields[0], int(fields[1]), used_s, ended, int(fields[19]))


@dataclass(frozen=True, slots=True)
class Process:
    """One process for all time: a number may be used again, but not with the same start time."""

    pid: int
    start: int
    """Start time in clock ticks since boot. 0: the process had already ended."""

    @classmethod
    def of(cls, pid: int) -> Process:
        stat = ProcessStat.of(pid)
        return cls(pid, 0 if stat is None else stat.start)

    def alive(self) -> bool:
        """Returns whether the process still runs. A zombie does not."""
        stat = ProcessStat.of(self.pid)
        return self.start != 0 and stat is not None and stat.state != "Z" and stat.start == self.start

    @property
    def name(self) -> str:
        """The name of its program."""
        try:
            return Path(f"/proc/{self.pid}/comm").read_text().strip()
        except OSError:
            return "a process that had ended"


def all_stats() -> Iterator[tuple[int, ProcessStat]]:
    """Yields every process of this machine: its number and its values."""
    for folder in Path("/proc").glob("[0-9]*"):
        if stat := ProcessStat.of(int(folder.name)):
            yield int(folder.name), stat


def children(pid: int) -> dict[int, ProcessStat]:
    """Returns the children of a process, zombies included."""
    return {child: stat for child, stat in all_stats() if stat.parent == pid}


def tree_cpu_s(pid: int) -> float:
    """Returns the CPU time, in s, of a process and its descendants, including ended ones that were waited for. A kernel that does
    not list the children of a process (CONFIG_PROC_CHILDREN) gives the time of the process alone."""
    stat = ProcessStat.of(pid)
    if stat is None:
        return 0.0
    return stat.cpu_s + stat.ended_children_cpu_s + sum(map(tree_cpu_s, _children_of_threads(pid)))


def _children_of_threads(pid: int) -> list[int]:
    """Returns the numbers of the processes that a process' threads started; none of a thread or a process that has ended."""
    pids: list[int] = []
    with contextlib.suppress(OSError):  # the process ends between its name and its threads
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has ended
                pids += map(int, (thread / "children").read_text().split())
    return pids


def descendants(pid: int) -> list[Process]:
    """Returns the process and all its descendants, except zombies."""
    stats = dict(all_stats())
    below: dict[int, list[int]] = {}
    for number, stat in stats.items():
        below.setdefault(stat.parent, []).append(number)
    processes, todo = [], [pid]
    while todo:
        number = todo.pop()
        todo += below.get(number, [])
        if number in stats and stats[number].state != "Z":
            processes.append(Process(number, stats[number].start))
    return processes


def cpu_s(pid: int) -> float:
    """Returns the CPU time that a process has used so far, in s; 0 if it has ended."""
    stat = ProcessStat.of(pid)
    return stat.cpu_s if stat else 0.0
