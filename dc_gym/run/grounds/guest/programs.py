# SPDX-License-Identifier: Apache-2.0
"""The programs that run in a ground: how they are started and ended, and the traffic that tgen runs."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dc_gym.base.errors import FabricError
from dc_gym.run.plan.plan import JOB, OUT, Plan
from dc_gym.topologies.realize.system import HERE, System

NICD_PRIORITY, TGEN_PRIORITY, QMON_PRIORITY, EVENTD_PRIORITY = (
    5,
    10,
    20,
    30,
)  # SCHED_FIFO: measuring programs go first, and nothing else delays either


class Program:
    """tgen, qmon or another daemon as a child process: started, its output read, and always ended."""

    def __init__(self, argv: Sequence[str], priority: int, system: System = HERE) -> None:
        self._name = Path(argv[0]).name
        self._process = system.start(argv, priority)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.signal(signal.SIGKILL)
        self._process.wait()
        self._process.close()

    def expect_ready(self) -> None:
        line = self._process.line()
        if line != b"ready\n":
            self.expect_end()
            raise FabricError(f"{self._name} said {line!r} where 'ready' was expected")

    def hear(self) -> str:
        """Returns the next line of its standard output, without the line end. Raises FabricError when it has ended."""
        line = self._process.line()
        if not line:
            self.expect_end()
            raise FabricError(f"{self._name} ended too early")
        return line.decode().strip()

    def listen(self) -> None:
        """Lets time pass in the ground until it prints a line, which the next `hear` returns."""
        self._process.listen()

    def terminate(self) -> None:
        """Asks it to end, by SIGTERM."""
        self._process.signal(signal.SIGTERM)

    def stop(self, status: int) -> None:
        """Ends it by SIGTERM. `status` is the exit status that it then returns."""
        self._process.signal(signal.SIGTERM)
        if (ended := self._process.wait()) != status:
            raise FabricError(f"{self._name} ended with status {ended} when it was stopped")

    def tell(self, text: str) -> None:
        """Writes to its standard input. If it has ended, `expect_end` raises the reason."""
        with suppress(BrokenPipeError):
            self._process.write(text.encode())

    def hang_up(self) -> None:
        """Closes its standard input."""
        self._process.hang_up()

    def expect_end(self) -> str:
        """Waits for its end and returns its lines that nobody has read.

        If its status is not 0, its own line on standard error gives the reason.
        """
        output = self._process.rest().decode().strip()
        status = self._process.wait()
        if status:
            raise FabricError(f"{self._name} ended with status {status}")
        return output


class Companion:
    """A program that runs beside the traffic of some plans. Where a plan has none, nothing is done."""

    def __init__(self, argv: Sequence[str] | None, priority: int, system: System = HERE) -> None:
        """`argv` starts it; None: the plan has none."""
        self._program = None if argv is None else Program(argv, priority, system)

    def __enter__(self) -> Self:
        if self._program is not None:
            self._program.expect_ready()
        return self

    def __exit__(self, *error: object) -> None:
        if self._program is not None:
            self._program.__exit__(*error)

    def terminate(self) -> None:
        """Asks it to end, by SIGTERM."""
        if self._program is not None:
            self._program.terminate()

    def expect_end(self) -> str:
        """Waits for its end and returns its lines after `ready`."""
        return "" if self._program is None else self._program.expect_end()


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic that tgen runs."""

    flows: str
    """Name of the file with the flows, in the plan's folder."""
    seed: int
    duration_ns: int
    sample_ns: int
    """Time between samples that are kept, in ns. 0: none are kept."""
    publish_ns: int = 0
    """Time between updates of the flows in the state matrix, in ns. 0: updates only at their starts and ends."""
    nic: str = ""
    """Ids of the tables that the NICs share, as their loader prints them. Empty: there are none."""
    keep_pairs: bool = False
    """True if a flow keeps the state of the NICs' queue pair."""


def tgen_argv(plan: Plan, folder: Path, matrix: str, t0_ns: int, traffic: Traffic) -> list[str]:
    """Returns the command that runs `traffic` from t0 on. tgen then stays until it gets the command to end."""
    jobs = (folder / traffic.flows).with_suffix(JOB)
    return [
        f"{plan.programs}/tgen", "--flows", str(folder / traffic.flows), "--out", str(folder / OUT),
        "--t0", str(t0_ns), "--duration", str(traffic.duration_ns), "--sample", str(traffic.sample_ns),
        "--publish", str(traffic.publish_ns), "--seed", str(traffic.seed), "--matrix", matrix,
        *(_warm(plan) if plan.direct is None else ()),
        *(("--nic", traffic.nic) if traffic.nic else ()), *(("--job", str(jobs)) if jobs.is_file() else ()),
        "--stay", *(("--keep-pairs",) if traffic.keep_pairs else ()),
    ]  # fmt: skip


def _warm(plan: Plan) -> list[str]:
    """Returns the options by which tgen shows each path to Open vSwitch's daemons before traffic."""
    return [
        "--warm", "--warm-mask", str(plan.warm_mask), "--warm-burst", str(plan.waits.warm_burst),
        "--warm-gap", str(plan.waits.warm_gap_ns), "--warm-settle", str(plan.waits.warm_settle_ns),
    ]  # fmt: skip
