# SPDX-License-Identifier: Apache-2.0
"""The processes of this machine: their descendants, their CPU time, and whether they still run."""

from __future__ import annotations

import os
from pathlib import Path

Process = tuple[int, str]
"""Process id and start time, which together identify a process uniquely."""


def descendants(pid: int) -> list[Process]:
    """Returns the process and all its descendants, except zombies."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        each = todo.pop()
        todo += children.get(each, [])
        if (stat := _stat(each)) and stat[0] != "Z":
            found.append((each, stat[19]))
    return found


def alive(process: Process) -> bool:
    """Returns whether a process still runs."""
    stat = _stat(process[0])
    return stat is not None and stat[0] != "Z" and stat[19] == process[1]


def cpu_s(pid: int) -> float:
    """Returns the CPU time that a process has used so far, in seconds; 0 if it has ended."""
    stat = _stat(pid)
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") if stat else 0.0


def name_of(process: Process) -> str:
    """Returns the name of a process's program."""
    try:
        return Path(f"/proc/{process[0]}/comm").read_text().strip()
    except OSError:
        return "a process that had ended"


def _stat(pid: int) -> list[str] | None:
    """Returns the fields of /proc/PID/stat after the name."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
