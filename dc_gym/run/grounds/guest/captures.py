# SPDX-License-Identifier: Apache-2.0
"""The capture of a run's ports (docs/capture.md): starts capd before traffic, ends it, and reads its report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dc_gym.base.errors import FabricError
from dc_gym.run.grounds.guest.programs import Companion
from dc_gym.run.grounds.guest.site import Site
from dc_gym.run.plan.plan import CAPTURED, CAPTURES, Plan

PRIORITY = 1
"""SCHED_FIFO below all other programs: at one instant, capd runs last. In a lab no time passes before it has run."""
COUNTS = ("sent", "received", "sent_later", "received_later", "lost")
"""The counts of capd for a port: frames in its file, those after the duration until the capture's end, and those lost."""


class Captures(Companion):
    """The capture of a plan; it does nothing if the plan captures no port. `terminate` ends the capture at that instant."""

    def __init__(self, plan: Plan, folder: Path, t0_ns: int, site: Site) -> None:
        """`folder` is the plan's. Frames are kept from `t0_ns` on."""
        super().__init__(None if plan.capture is None else _argv(plan, plan.capture, folder, t0_ns), PRIORITY, site.system)

    def finish(self) -> dict[str, Any]:
        """Waits for the files. Returns `capture`: the COUNTS of each port."""
        if self._program is None:
            return {}
        counts = {}
        for line in self.expect_end().splitlines():
            name, *numbers = line.split()
            if len(numbers) != len(COUNTS):
                raise FabricError(f"capd said {line!r} where a port and {len(COUNTS)} numbers were expected")
            counts[name] = dict(zip(COUNTS, map(int, numbers), strict=True))
        return {"capture": counts}


def _argv(plan: Plan, capture: Mapping[str, Any], folder: Path, t0_ns: int) -> list[str]:
    return [
        f"{plan.programs}/capd", "--ports", str(folder / CAPTURED), "--out", str(folder.parent / CAPTURES),
        "--t0", str(t0_ns), "--duration", str(plan.duration_ns), "--snap", str(capture["snap_bytes"]),
        "--direction", capture["direction"],
    ]  # fmt: skip
