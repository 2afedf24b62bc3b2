# SPDX-License-Identifier: Apache-2.0
"""Executes a plan on a ground: its phases go to the clock and the user, its other lines to a log, and its end is checked."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from dc_gym.base import process_room
from dc_gym.base.errors import LabError, MachineError, TestbedError, naming
from dc_gym.base.process_bound import unshared
from dc_gym.base.processes import tree_cpu_s
from dc_gym.base.progress import Progress
from dc_gym.run.grounds.ground import Driver, Ground
from dc_gym.run.plan.plan import REASON, Plan

KEPT_LOG_LINES, KEPT_LOG_CHARS = 100_000, 32_000_000
"""The most that is kept of a ground's output. A program there may print without end."""


@dataclass(slots=True)
class Clock:
    """Wall-clock seconds, and CPU seconds of this process and its descendants, by phase."""

    wall_s: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    _phase: str = ""
    _since: tuple[float, float] = (0.0, 0.0)

    def phase(self, name: str) -> None:
        now = time.perf_counter(), tree_cpu_s(os.getpid())
        if self._phase:
            for spent, at in ((self.wall_s, 0), (self.cpu_s, 1)):
                spent[self._phase] = spent.get(self._phase, 0.0) + now[at] - self._since[at]
        self._phase, self._since = name, now


def execute(
    ground: Ground,
    name: str,
    folder: Path,
    plan: Callable[[], Plan],
    clock: Clock,
    progress: Progress,
    driver: Driver | None = None,
) -> None:
    """Runs the plan that `plan` writes to `folder`/.lab on the ground of this name, and leaves its log in `folder`.

    Raises TestbedError if it fails.
    """
    log = folder / f"{name}.log"
    with unshared() as keep:
        file = keep(log.open("w"))
    try:
        status = ground.run(folder, plan, _log_to(file, clock, progress), progress, driver)
    except LabError as error:
        if why := process_room.explains(str(error)):
            raise MachineError(why) from error
        raise
    finally:
        with naming(log):
            file.close()
    _check_end(status, log, name)


def _log_to(log: TextIO, clock: Clock, progress: Progress) -> Callable[[str], None]:
    """Returns the function for the lines that a ground prints: phases go to the clock and the user, all others to the log."""
    kept = kept_chars = 0

    def on_line(line: str) -> None:
        nonlocal kept, kept_chars
        if line.startswith("::phase "):
            name = line.removeprefix("::phase ")
            clock.phase(name)
            progress.phase(name)
        elif kept < KEPT_LOG_LINES and kept_chars + len(line) < KEPT_LOG_CHARS:
            kept, kept_chars = kept + 1, kept_chars + len(line)
            with naming(log.name):
                log.write(line + "\n")

    return on_line


def _check_end(status: int, log: Path, ground: str) -> None:
    if status == 0:
        return
    lines = log.read_text(errors="replace").splitlines()
    reasons = [line.removeprefix(REASON) for line in lines if line.startswith(REASON)]
    tail = [line for line in lines if not line.startswith(REASON)][-15:]
    reason = reasons[-1] if reasons else f"what ran in the {ground} ended with status {status}"
    if any(os.strerror(full) in line for full in (errno.ENOSPC, errno.EDQUOT) for line in lines):
        raise MachineError(f"{log.parent}: no room for what the run writes; free some, or give another --out ({reason})")
    if why := process_room.explains("\n".join(lines)):
        raise MachineError(why)
    raise TestbedError("\n".join([reason, *(f"  {ground}: {line}" for line in tail)]))
