# SPDX-License-Identifier: Apache-2.0
"""The events of a run or of an episode (docs/events.md): starts eventd before traffic, and ends it; undoes what it changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.grounds.guest.plan import EVENTS, EVENTS_DONE, OUT, PORTS, Plan
from dc_gym.grounds.guest.programs import EVENTD_PRIORITY, Program

if TYPE_CHECKING:
    from dc_gym.topologies.realize.fabric import Fabric


class Events:
    """eventd, while the context is open; nothing if no event changes the network. Each episode writes its file anew."""

    def __init__(self, plan: Plan, folder: Path, t0_ns: int) -> None:
        self._program: Program | None = None
        self.lossy: list[str] = [] if plan.events is None else plan.events["lossy"]
        """The ports that may become lossy."""
        if plan.events is not None:
            argv = [
                f"{plan.programs}/eventd", "--ports", str(folder / PORTS), "--events", str(folder / EVENTS),
                "--t0", str(t0_ns), "--out", str(folder / OUT / EVENTS_DONE),
            ]  # fmt: skip
            self._program = Program(argv, EVENTD_PRIORITY)

    def __enter__(self) -> Events:
        if self._program is not None:
            self._program.expect_ready()
        return self

    def __exit__(self, *error: object) -> None:
        if self._program is not None:
            self._program.__exit__(*error)

    def finish(self) -> None:
        """Ends it. What it has done is written then."""
        if self._program is not None:
            self._program.terminate()
            self._program.expect_end()


def undo(plan: Plan, fabric: Fabric) -> None:
    """Gives the network back what events have changed."""
    if plan.events is not None:
        fabric.restore(plan.events["cables"], plan.events["queues"])
