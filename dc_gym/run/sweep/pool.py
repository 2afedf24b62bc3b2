# SPDX-License-Identifier: Apache-2.0
"""The local pool: runs as processes, so many at a time.

A cell is one `dcgym run` in a process and session of its own. So cells share nothing, and Ctrl-C reaches each of them once,
through the pool. Cells die with the pool, however it ends. Several runs are forked from a process that has imported everything
(base/warm.py). A single run, a training, and a run with an environment or a user of its own start separately (cli/cell.py).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dc_gym.base import process_room
from dc_gym.base.errors import MachineError, TestbedError, with_remedy
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Progress, short_time
from dc_gym.base.warm import WarmProcess, WarmRun

CELL = "dc_gym.cli.cell"
"""The module that Python runs as a cell. Its arguments are the id of its parent process, and the arguments of `dcgym`."""
OF_POLICIES = ("dc_gym.run.agent.driver",)
"""Modules that a run with a policy imports, too."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: its name, and the arguments of `dcgym run`."""

    name: str
    spec: Path
    out: Path
    settings: Sequence[str] = ()
    """`KEY=VALUE`, as for --set."""
    options: Sequence[str] = ("--no-plot",)
    env: Mapping[str, str] = field(default_factory=dict)
    """Additions to the environment."""
    umask: int = -1
    user: int | None = None
    """Uid and gid to run as. Only root can set it."""
    has_policy: bool = False
    """True if the caller states that a policy acts in the run."""

    def argv(self) -> list[str]:
        words = ["run", str(self.spec), "--out", str(self.out), "--quiet", *self.options]
        for setting in self.settings:
            words += ["--set", setting]
        return words


@dataclass(frozen=True, slots=True)
class CellOutcome:
    cell: Cell
    status: int
    message: str
    """The cell's output on standard error."""

    @property
    def kind(self) -> str:
        """The first line of the message without the parts that only this cell has: equal for runs that failed alike."""
        first = (self.message.strip().splitlines() or ["no word"])[0]
        return re.sub(rf"(?<![\w-]){re.escape(self.cell.name)}(?![\w-])", "", first.replace(str(self.cell.out), ""))


def run_cells(
    cells: Iterable[Cell], jobs: int, progress: Progress, on_end: Callable[[CellOutcome], None] = lambda outcome: None
) -> list[CellOutcome]:
    """Runs all cells, `jobs` at a time, and returns how each ended, in the given order. `on_end` is called as each ends."""
    inside = asyncio._get_running_loop() is not None
    if sys.version_info < (3, 12):  # later versions wait for a child without a thread by themselves
        asyncio.set_child_watcher(asyncio.ThreadedChildWatcher() if inside else asyncio.PidfdChildWatcher())
    if inside:
        return _run_in_thread(_run_all(list(cells), jobs, progress, on_end))
    try:
        with asyncio.Runner(loop_factory=_event_loop) as runner:
            return runner.run(_run_all(list(cells), jobs, progress, on_end))
    finally:
        asyncio.set_event_loop(None)


class _EventLoop(asyncio.SelectorEventLoop):
    """asyncio's own. One that could be made in part only, for want of a descriptor, is closed without a traceback."""

    def close(self) -> None:
        with suppress(AttributeError):
            super().close()


def _event_loop() -> asyncio.AbstractEventLoop:
    """Returns a new event loop, with which the child watcher works."""
    loop = _EventLoop()
    asyncio.set_event_loop(loop)
    return loop


def _run_in_thread(work: Coroutine[Any, Any, list[CellOutcome]]) -> list[CellOutcome]:
    """Runs a coroutine for a caller whose own thread has an event loop that runs, such as a notebook's cell.

    Ctrl-C in the caller's thread cancels it and waits for its end.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)

    def drive() -> None:
        with suppress(BaseException):  # the task keeps it for the caller
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=drive, name="runs")
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        with suppress(RuntimeError):  # the loop has just been closed
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    return task.result()


class Tally:
    """Shows the progress of many runs: how many have ended, how many of them failed, and how long the rest may take."""

    def __init__(self, total: int, progress: Progress, wall_s: Callable[[], float] = time.monotonic) -> None:
        self._total, self._progress, self._wall_s = total, progress, wall_s
        self._begun_s = wall_s()
        self._ended = self._bad = 0
        self._told: set[str] = set()

    def count(self, outcome: CellOutcome) -> None:
        """Counts a run that has ended."""
        self._ended += 1
        self._bad += outcome.status != 0
        if outcome.status and outcome.kind not in self._told:
            self._told.add(outcome.kind)
            self._progress.note(f"{outcome.cell.name}: {(outcome.message.splitlines() or ['no word'])[0]}")
        self.show()

    def show(self) -> None:
        words = f"{self._ended} of {self._total} runs" + (f", {self._bad} failed" if self._bad else "")
        if 0 < self._ended < self._total:
            rest_s = (self._wall_s() - self._begun_s) / self._ended * (self._total - self._ended)
            words += f", about {short_time(rest_s)} to go"
        self._progress.advance(self._ended, self._total, words)


def cpus() -> int:
    """Returns the number of labs that can run at once without sharing a CPU."""
    return len(os.sched_getaffinity(0))


def failures(outcomes: Iterable[CellOutcome]) -> list[str]:
    """Returns a line for each way in which cells failed, of the first that did, with the number of the others."""
    alike: dict[str, list[CellOutcome]] = {}
    for outcome in outcomes:
        if outcome.status:
            alike.setdefault(outcome.kind, []).append(outcome)
    return [
        f"{first.cell.name}: exit {first.status}: {first.message.strip()}" + (f" ({len(others)} more like it)" if others else "")
        for first, *others in alike.values()
    ]


def require_all(outcomes: Sequence[CellOutcome]) -> None:
    """Raises TestbedError unless every cell ended well."""
    if lines := failures(outcomes):
        count = sum(outcome.status != 0 for outcome in outcomes)
        raise TestbedError(f"{count} of {len(outcomes)} runs failed:\n" + "\n".join(lines))


async def _run_all(cells: list[Cell], jobs: int, progress: Progress, on_end: Callable[[CellOutcome], None]) -> list[CellOutcome]:
    waiting = deque(range(len(cells)))
    outcomes: dict[int, CellOutcome] = {}
    tally = Tally(len(cells), progress)

    async def worker(warm: WarmProcess | None) -> None:
        while waiting:
            index = waiting.popleft()
            outcomes[index] = await _run_one(cells[index], warm)
            on_end(outcomes[index])
            tally.count(outcomes[index])

    progress.phase(f"{len(cells)} runs, {min(jobs, len(cells))} at a time")
    tally.show()
    async with _warm(cells) as warm:
        workers = [asyncio.create_task(worker(warm)) for _ in range(min(jobs, len(cells)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for task in workers:
                if not task.cancelling():  # after Ctrl-C it is; a second time would keep it from waiting for its cell
                    task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)  # each ends its cell first
    progress.phase("done")
    return [outcomes[index] for index in range(len(cells))]


@asynccontextmanager
async def _warm(cells: Sequence[Cell]) -> AsyncIterator[WarmProcess | None]:
    """Yields the process from which runs are forked, or None if it would not pay, or cannot be started."""
    warm = None
    if sum(map(_may_be_forked, cells)) > 1:
        with suppress(OSError):
            warm = await WarmProcess.start(OF_POLICIES if any(cell.has_policy for cell in cells) else ())
    try:
        yield warm
    finally:
        if warm is not None:
            await warm.close()


def _may_be_forked(cell: Cell) -> bool:
    """Returns whether a warm process has imported the cell's modules: it is a run, and no training, which wants numpy's threads.
    It has this process' environment, umask and user."""
    return cell.argv()[0] == "run" and not cell.env and cell.umask < 0 and cell.user is None


async def _run_one(cell: Cell, warm: WarmProcess | None) -> CellOutcome:
    """Runs a cell. One that cannot be started has failed, and others may have room later."""
    try:
        process = await _start(cell, warm)
    except OSError as error:
        words = process_room.refused() if process_room.is_refusal(error) else f"cannot start: {with_remedy(error)}"
        return CellOutcome(cell, MachineError.exit_code, f"dcgym: {words}")
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)  # the run ends its lab and removes its unfinished files
        await process.communicate()
        raise
    return CellOutcome(cell, process.returncode or 0, errors.decode(errors="replace"))


async def _start(cell: Cell, warm: WarmProcess | None) -> asyncio.subprocess.Process | WarmRun:
    if warm is not None and warm.lives and _may_be_forked(cell):
        with suppress(OSError):  # it takes no further request: the cell starts separately
            return await warm.run(cell.argv())
    return await asyncio.create_subprocess_exec(
        *python("-m", CELL, str(os.getpid()), *cell.argv()),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **cell.env}, umask=cell.umask, user=cell.user, group=cell.user,
        extra_groups=None if cell.user is None else [], start_new_session=True,
    )  # fmt: skip
