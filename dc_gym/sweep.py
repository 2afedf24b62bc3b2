# SPDX-License-Identifier: Apache-2.0
"""`dcgym sweep`: one spec with several seeds and controllers, a lab a CPU; and the pool of runs that the demo and benches use.

A cell is one `dcgym run` in a process of its own, so that cells share nothing. Cells die with the sweep, however it ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dc_gym import cli
from dc_gym.errors import TestbedError
from dc_gym.progress import Progress

PR_SET_PDEATHSIG = 1
_MAIN = "from dc_gym.sweep import cell_main; cell_main()"


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: what it is called, and what `dcgym run` is told."""

    name: str
    spec: Path
    out: Path
    settings: Sequence[str] = ()
    """`KEY=VALUE`, as for --set."""
    options: Sequence[str] = ("--no-plot",)
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment."""
    umask: int = -1
    user: int | None = None
    """Runs as this uid and gid; only root can."""

    def argv(self) -> list[str]:
        words = ["run", str(self.spec), "--out", str(self.out), "--quiet", *self.options]
        for setting in self.settings:
            words += ["--set", setting]
        return words


@dataclass(frozen=True, slots=True)
class Outcome:
    cell: Cell
    status: int
    message: str
    """What the cell said on standard error."""


def run_cells(cells: Iterable[Cell], jobs: int, progress: Progress) -> list[Outcome]:
    """Runs all cells, `jobs` at a time, and answers how each ended, in the order given."""
    return asyncio.run(_run_all(list(cells), jobs, progress))


def main(args: Namespace, progress: Progress) -> int:
    """`dcgym sweep`."""
    seeds = args.seeds or [None]
    names = args.controllers or [None]
    out = args.out or Path("results") / f"{args.spec.stem}-sweep"
    cells = []
    for name in names:
        for seed in seeds:
            label = "-".join([*([name] if name else []), *([f"s{seed}"] if seed is not None else [])]) or "run"
            settings = [*args.overrides]
            settings += [f'controller.name="{name}"'] if name else []
            settings += [f"seed={seed}"] if seed is not None else []
            options = ["--force"] if args.force else []
            cells.append(Cell(label, args.spec, out / label, settings, options))
    out.mkdir(parents=True, exist_ok=True)
    outcomes = run_cells(cells, args.jobs or cpus(), progress)
    return _report(outcomes, out)


def cpus() -> int:
    """Labs that can run at once without sharing a CPU."""
    return len(os.sched_getaffinity(0))


def failures(outcomes: Iterable[Outcome]) -> list[str]:
    """A line for each cell that did not end well."""
    return [f"{outcome.cell.name}: exit {outcome.status}: {outcome.message.strip()}" for outcome in outcomes if outcome.status]


def require_all(outcomes: Sequence[Outcome]) -> None:
    """TestbedError unless every cell ended well."""
    if failed := failures(outcomes):
        raise TestbedError(f"{len(failed)} of {len(outcomes)} runs failed:\n" + "\n".join(failed))


def cell_main() -> None:
    """The process of a cell: tied to its parent, then `dcgym`."""
    parent = int(sys.argv.pop(1))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(cli.INTERRUPTED)
    sys.exit(cli.main(sys.argv[1:]))


async def _run_all(cells: list[Cell], jobs: int, progress: Progress) -> list[Outcome]:
    waiting = deque(range(len(cells)))
    outcomes: dict[int, Outcome] = {}

    async def worker() -> None:
        while waiting:
            index = waiting.popleft()
            outcomes[index] = await _run_one(cells[index])
            progress.advance(len(outcomes), len(cells))

    progress.phase(f"{len(cells)} runs, {jobs} at a time")
    workers = [asyncio.create_task(worker()) for _ in range(min(jobs, len(cells)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
    progress.phase("done")
    return [outcomes[index] for index in range(len(cells))]


async def _run_one(cell: Cell) -> Outcome:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MAIN, str(os.getpid()), *cell.argv(),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **cell.env}, umask=cell.umask, user=cell.user, group=cell.user,
        extra_groups=None if cell.user is None else [],
    )  # fmt: skip
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        process.send_signal(signal.SIGINT)  # it ends its lab and removes what is unfinished
        await process.wait()
        raise
    return Outcome(cell, process.returncode or 0, errors.decode(errors="replace"))


def _report(outcomes: list[Outcome], out: Path) -> int:
    """One line a run, and all of them in sweep.json; 1 where one failed or is unfit."""
    rows = []
    for outcome in outcomes:
        path = outcome.cell.out / "summary.json"
        summary = json.loads(path.read_text()) if path.is_file() and outcome.status in (0, 1) else None
        rows.append({"name": outcome.cell.name, "exit": outcome.status, "summary": summary, "message": outcome.message.strip()})
        print(_line(outcome, summary))
    (out / "sweep.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(f"result       {out / 'sweep.json'}")
    return 1 if any(outcome.status for outcome in outcomes) else 0


def _line(outcome: Outcome, summary: dict[str, float] | None) -> str:
    if summary is None:
        return f"{outcome.cell.name:16} exit {outcome.status}: {outcome.message.strip()}"
    jain, queue_kb = summary.get("jain"), (summary["mean_queue_bytes"] or 0) / 1e3
    return (
        f"{outcome.cell.name:16} goodput {summary['goodput_bps'] / 1e6:10.3f} Mbit/s  mean queue {queue_kb:9.2f} kB"
        f"  drops {summary['drops']:6}  Jain {'-' if jain is None else f'{jain:.4f}'}"
    )
