# SPDX-License-Identifier: Apache-2.0
"""The control groups above this process, which limit its memory and its number of processes (cgroup v2 and v1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

BASE = Path("/sys/fs/cgroup")


def folders(controller: str) -> Iterator[tuple[Path, bool]]:
    """Yields the folder of each control group above this process, and whether it is of cgroup v2."""
    groups = Path("/proc/self/cgroup")
    for line in groups.read_text().splitlines() if groups.exists() else ():  # a kernel may have none
        _, controllers, group_path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = BASE / controller if controllers else BASE
        group = base / group_path.lstrip("/")
        while group.is_relative_to(base):
            yield group, not controllers
            group = group.parent
