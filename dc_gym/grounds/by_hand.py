# SPDX-License-Identifier: Apache-2.0
"""Carries out a plan in a lab from outside, by the hand in it (hand.py): no Python starts there."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dc_gym.base.errors import FabricError, LabError
from dc_gym.base.package import PROGRAMS
from dc_gym.grounds.guest import main
from dc_gym.grounds.guest.plan import Plan
from dc_gym.grounds.guest.site import LAB_DEVICE, LabSite
from dc_gym.grounds.hand import AT, PROGRAM, Back, Call, Hand, LostLab
from dc_gym.kernel.channel import LabState
from dc_gym.kernel.lab import Lab
from dc_gym.kernel.user import let_lab_read
from dc_gym.topologies.graph import Graph

__all__ = ["ARGV", "LostLab", "run"]

NAME_BYTES, FLOW_BYTES, HEAD_BYTES = 32, 64, 4096
"""SM_NAME_LEN of monitors/state_matrix.h, the size of its struct sm_flow, and more than what comes before the rows."""
ARGV = [str(PROGRAMS / PROGRAM)]
NOT_UNDERSTOOD = (ValueError, LookupError, OverflowError, struct.error)


class HandSite(LabSite):
    """A lab, seen from outside."""

    def __init__(self, hand: Hand, on_line: Callable[[str], None]) -> None:
        self.system = self._hand = hand
        self._on_line = on_line

    def phase(self, name: str) -> None:
        self._on_line(f"::phase {name}")

    def hand_over(self, folder: Path, name: str, content: bytes) -> Path:
        (path := folder / name).write_bytes(content)
        let_lab_read(folder)
        return path

    def name_hosts(self, graph: Graph, folder: Path) -> None:
        """Does nothing: there are no programs in hosts, which alone ask for names."""

    def _tell(self, request: int, value: int) -> int:
        _, told, _ = self._hand.make(
            Call.of("open", LAB_DEVICE, os.O_WRONLY),
            Call.of("ioctl", Back(1), request, struct.pack("<Q", value), may_fail=True),
            Call.of("close", Back(2)),
        )
        return -told.result


def run(
    lab: Lab, plan: Plan, folder: Path, on_line: Callable[[str], None], on_progress: Callable[[LabState], None]
) -> dict[str, Any]:
    """Carries out the plan of a folder in a lab that has booted with ARGV. Returns what was counted, when the lab is to end.

    Raises TestbedError as the same plan's program in a ground does, and LostLab.
    """
    _check_room(plan)
    hand = Hand(lab, on_progress)
    try:
        counts = main.run(plan, folder, HandSite(hand, on_line))
    except NOT_UNDERSTOOD as error:  # whatever reads what a lab gives back, a lab that lies ends the run in one line
        raise LostLab(LabError(f"the lab gave back what cannot be read ({type(error).__name__}: {error})")) from error
    assert counts is not None, "it is no shell"
    hand.end()
    return counts


def _check_room(plan: Plan) -> None:
    """Raises FabricError unless the state matrix ends below what the hand uses of the region."""
    from dc_gym.monitors.state_matrix import COLUMNS  # imports numpy, which the plan has imported by now

    rows = len(plan.graph.rows())
    if (size := HEAD_BYTES + rows * (len(COLUMNS) * 8 + NAME_BYTES + 8) + plan.flow_rows * FLOW_BYTES) > AT:
        raise FabricError(f"the state matrix of {rows} ports and queues has {size} bytes, and there is room for {AT}")
