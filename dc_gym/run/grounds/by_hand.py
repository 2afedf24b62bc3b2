# SPDX-License-Identifier: Apache-2.0
"""Carries out a plan in a lab from outside, by the hand in it (hand.py): no Python starts there."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from dc_gym.base.errors import FabricError, LabError, TestbedError
from dc_gym.base.package import PROGRAMS
from dc_gym.kernel.channel import LabState
from dc_gym.kernel.lab import Lab
from dc_gym.kernel.user import let_lab_read
from dc_gym.run.grounds.guest import main
from dc_gym.run.grounds.guest.events import HEADER
from dc_gym.run.grounds.guest.site import LAB_DEVICE, LabSite
from dc_gym.run.grounds.hand import AT, PROGRAM, STEP, Back, Call, Hand, LostLab
from dc_gym.run.plan.plan import ACTUATORS, REASON, Plan
from dc_gym.topologies.graph import Graph

__all__ = ["ARGV", "ByHand"]

NAME_BYTES, HEAD_BYTES = 32, 4096
"""SM_NAME_LEN of monitors/state_matrix.h, and more bytes than come before the rows."""
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
        _, reply, _ = self._hand.make(
            Call.of("open", LAB_DEVICE, os.O_WRONLY),
            Call.of("ioctl", Back(1), request, struct.pack("<Q", value), may_fail=True),
            Call.of("close", Back(2)),
        )
        return -reply.result


class ByHand:
    """A plan that is carried out in a lab that boots with ARGV, from one step of an agent to the next."""

    def __init__(
        self,
        lab: Lab,
        plan: Plan,
        folder: Path,
        on_line: Callable[[str], None],
        on_progress: Callable[[LabState], None] = lambda state: None,
    ) -> None:
        """`folder` is the plan's. `on_line` gets a line for each phase, `on_progress` the lab's state now and then."""
        self.counts: dict[str, Any] | None = None
        """The counts of the run, once the plan is carried out."""
        self.failure = 0
        """The exit status of a plan that has failed."""
        self._on_line = on_line
        self._hand: Hand | None = None
        self._program = self._carry_out(lab, plan, folder, on_line, on_progress)

    def next_step(self) -> int | None:
        """Returns the result of `until_step`; None also if the plan has failed.

        `on_line` then gets the reason, as from its program in a ground.

        Raises LabError if the lab ended, hangs, or gives an impossible answer.
        """
        try:
            return self.until_step()
        except LostLab as lost:
            raise lost.error from lost
        except TestbedError as error:
            self._on_line(f"{REASON}{error}")
            self.failure = error.exit_code
            return None

    def until_step(self) -> int | None:
        """Carries the plan out up to the next step of an agent, which the caller answers, and returns the step's number.

        Returns None when the plan is carried out, and the lab ends.
        Raises TestbedError as the same plan's program in a ground does, and LostLab.
        """
        while True:
            if self._hand is not None and not self._hand.waits:
                if (step := self._hand.until_step()) != STEP:
                    return step
                self._hand.await_list(step)
            try:
                next(self._program)
            except StopIteration:
                return None
            except NOT_UNDERSTOOD as error:  # wrong data from a lab ends the run in one line, whichever code reads the data
                raise LostLab(LabError(f"the lab gave back what cannot be read ({type(error).__name__}: {error})")) from error

    def end_failed(self) -> None:
        """Lets a lab whose plan has failed end with its exit status, as the program in a ground does."""
        if self.failure and self._hand is not None and self._hand.waits:
            self._hand.end(self.failure)

    def _carry_out(
        self, lab: Lab, plan: Plan, folder: Path, on_line: Callable[[str], None], on_progress: Callable[[LabState], None]
    ) -> Generator[None, None, None]:
        self._hand = hand = Hand(lab, on_progress)
        _check_room(plan, folder)
        self.counts = yield from main.carry_out(plan, folder, HandSite(hand, on_line))
        assert self.counts is not None, "it is no shell"
        hand.end()


def _check_room(plan: Plan, folder: Path) -> None:
    """Raises FabricError unless the state matrix ends below the hand's part of the region."""
    from dc_gym.monitors.state_matrix import COLUMNS, COMMAND_ROW, FLOW  # imports numpy, which the plan has imported by now

    rows, flows, commands, remedy = len(plan.graph.rows()), plan.flow_rows, 0, "have fewer ports"
    if plan.agent is not None:
        flows, remedy = plan.agent["flow_rows"], "have fewer flows in one episode"
        commands = HEADER.unpack_from((folder / ACTUATORS).read_bytes())[3]
    size = HEAD_BYTES + rows * (len(COLUMNS) * 8 + NAME_BYTES + 8) + flows * FLOW.itemsize + commands * COMMAND_ROW.itemsize
    if size > AT:
        contents = f"the state matrix of {rows} ports and queues, {flows} flows and {commands} rows of actuators"
        raise FabricError(f"{contents} has {size} bytes, and a lab has room for {AT}; {remedy}")
