# SPDX-License-Identifier: Apache-2.0
"""The capture of a run's ports (docs/capture.md): starts capd before traffic, ends it, and reads what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dc_gym.base.errors import FabricError
from dc_gym.grounds.guest.plan import CAPTURED, CAPTURES, Plan
from dc_gym.grounds.guest.programs import Program

PRIORITY = 1
"""SCHED_FIFO below all other programs: at one instant, capd runs last. In a lab no time passes before it has run."""


class Captures:
    """The capture of a plan; it does nothing if the plan captures no port."""

    def __init__(self, plan: Plan, folder: Path, t0_ns: int) -> None:
        """`folder` is the plan's. Frames are kept from `t0_ns` on."""
        self._program: Program | None = None
        if plan.capture is None:
            return
        argv = [
            f"{plan.programs}/capd", "--ports", str(folder / CAPTURED), "--out", str(folder.parent / CAPTURES),
            "--t0", str(t0_ns), "--snap", str(plan.capture["snap_bytes"]), "--direction", plan.capture["direction"],
        ]  # fmt: skip
        self._program = Program(argv, PRIORITY)

    def __enter__(self) -> Captures:
        if self._program is not None:
            self._program.expect_ready()
        return self

    def __exit__(self, *error: object) -> None:
        if self._program is not None:
            self._program.__exit__(*error)

    def end(self) -> None:
        """Ends the capture at this instant. The files are complete after `finish`."""
        if self._program is not None:
            self._program.terminate()

    def finish(self) -> dict[str, Any]:
        """Waits for the files. Returns `capture`: for each port the frames in its file, sent and received, and those lost."""
        if self._program is None:
            return {}
        found = {}
        for line in self._program.expect_end().splitlines():
            name, *numbers = line.split()
            if len(numbers) != 3:
                raise FabricError(f"capd said {line!r} where a port and three numbers were expected")
            found[name] = dict(zip(("sent", "received", "lost"), map(int, numbers), strict=True))
        return {"capture": found}
