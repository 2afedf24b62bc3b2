# SPDX-License-Identifier: Apache-2.0
"""Chooses where a lab's memory lives: in the machine's memory or, where that is too small, in a file on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dc_gym.base import control_groups
from dc_gym.base.errors import MachineError
from dc_gym.kernel.user import ENTER, ENTER_AND_WRITE, lab_user, lab_user_may

IN_MEMORY = ("tmpfs", "ramfs")
ON_DISK = ("/var/tmp", "/tmp")
"""Folders to try besides $TMPDIR."""
UNLIMITED_BYTES = 1 << 60
_NAMES_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def memory_folder(memory_bytes: int) -> Path | None:
    """Returns None if the machine has room for a lab's memory, otherwise a folder of a file system on disk that has.

    Raises MachineError if neither has room. Memory that a lab has not touched takes no room. The function looks at the room that
    is free now: labs that grow at the same time can still run out.
    """
    room = machine_room()
    if room >= memory_bytes:
        return None
    reasons = [f"the machine has {room >> 20} MiB of memory and swap left"]
    for candidate in (os.environ.get("TMPDIR", ""), *ON_DISK):
        if not candidate or not os.access(candidate, os.W_OK | os.X_OK):
            continue
        why_not = _unfit(Path(candidate), memory_bytes)
        if not why_not:
            return Path(candidate)
        reasons.append(f"{candidate} {why_not}")
    raise MachineError(
        f"no room for the lab's memory of {memory_bytes >> 20} MiB: {'; '.join(reasons)};"
        " lower lab.memory, run fewer labs at a time, or set TMPDIR to a folder on disk with room"
    )


def machine_room() -> int:
    """Returns the bytes of memory and swap that new child processes can have (proc(5), meminfo; and the control groups)."""
    return min(_meminfo_room(), *_control_group_rooms(), UNLIMITED_BYTES)


def oom_kills() -> int | None:
    """Returns how many processes the machine's kernel has killed for want of memory; None if it does not count them."""
    try:
        counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    except OSError:
        return None
    return int(counts["oom_kill"]) if "oom_kill" in counts else None


def _unfit(folder: Path, memory_bytes: int) -> str:
    """Returns why a lab's memory file cannot live in that folder, or '' if it can."""
    file_system = os.statvfs(folder)
    room = file_system.f_bavail * file_system.f_frsize
    if not _lets_in(folder):
        return f"is closed to user {lab_user()[0]}, who runs root's labs"
    if file_system.f_flag & os.ST_NOEXEC:
        return "is mounted noexec"
    if _type_of_file_system(folder) in IN_MEMORY:
        return "is memory, too"
    return f"has {room >> 20} MiB" if room < memory_bytes else ""


def _lets_in(folder: Path) -> bool:
    """Returns True if the lab's user may create files there."""
    folder = folder.resolve()
    return os.geteuid() != 0 or (
        lab_user_may(ENTER_AND_WRITE, folder) and all(lab_user_may(ENTER, parent) for parent in folder.parents)
    )


def _type_of_file_system(folder: Path) -> str:
    """Returns the file system type of the mount that holds a folder: ext4, tmpfs, ...

    In proc(5)'s list of mounts, later lines hide earlier ones.
    """
    folder, best, kind = folder.resolve(), Path("/"), ""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        mount, name = Path(line.split()[1].encode().decode("unicode_escape")), line.split()[2]
        if folder.is_relative_to(mount) and mount.is_relative_to(best):
            best, kind = mount, name
    return kind


def _meminfo_room() -> int:
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(words[1]) << 10 for words in lines if words[0] in ("MemAvailable:", "SwapFree:"))


def _control_group_rooms() -> Iterator[int]:
    """Yields the bytes that each control group above this process has left. Its file cache counts as free."""
    for group, unified in control_groups.folders("memory"):
        limit, usage, cached = ("memory.max", "memory.current", "inactive_file") if unified else _NAMES_V1
        if (room := _room_of(group, limit, usage, cached)) is not None:
            yield room


def _room_of(group: Path, limit: str, usage: str, cached: str) -> int | None:
    """Returns the bytes that one control group has left, or None if it has no limit."""
    try:
        most, used = (group / limit).read_text().strip(), int((group / usage).read_text())
        rows = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    return None if most == "max" else max(0, int(most) - used + int(rows.get(cached, 0)))
