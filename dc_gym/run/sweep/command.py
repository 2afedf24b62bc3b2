# SPDX-License-Identifier: Apache-2.0
"""`dcgym sweep`: reads the grid, makes missing runs, and reports how all runs ended.

If it is run again, it continues where it stopped, however it stopped.
"""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from dc_gym.base import folder_lock, trusted
from dc_gym.base.errors import HUNG_UP, INTERRUPTED, TERMINATED, UsageError
from dc_gym.base.files import in_full
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.kernel import openvswitch
from dc_gym.kernel.lab import check_place
from dc_gym.results import fingerprint, results
from dc_gym.run.grounds.ground import check_programs
from dc_gym.run.grounds.selection import ground_of
from dc_gym.run.sweep import grid, pool, summary
from dc_gym.run.sweep.grid import Point
from dc_gym.run.sweep.known import Record
from dc_gym.run.sweep.pool import Cell, CellOutcome
from dc_gym.run.sweep.state import SUMMARY, RunState, Status, SweepFolder, SweepMismatch
from dc_gym.spec.result_code import items_of

Runs = Callable[[list[Cell], Progress, Callable[[CellOutcome], None]], object]
"""A function that runs cells, here or on a cluster."""


def main(args: Namespace, progress: Progress) -> int:
    """Returns 0 when every run exists and is fit, otherwise 1."""
    axes = {"controller.name": args.controllers, "seed": args.seeds}
    chosen_axes = {key: values for key, values in axes.items() if values}
    out = in_full(args.out or Path("results") / f"{args.spec.stem}-sweep")
    record = Record.read(out)
    sweep_grid = grid.load(args.spec, args.overrides, chosen_axes, trust=args.trust, say=progress.announce, record=record)
    runs = _where(args, real_time=any(point.clock == "real" for point in sweep_grid.points))
    statuses = run_grid(sweep_grid, out, runs, progress, retry=args.retry, force=args.force, plot=args.plot)
    summary.show(statuses)
    say(f"result       {out / SUMMARY} ({summary.counts(statuses)})")
    if not args.retry and any(status.state in (RunState.FAILED, RunState.UNFIT) for status in statuses):
        say("             --retry runs again what failed or is unfit")
    return 0 if all(status.state is RunState.DONE for status in statuses) else 1


def run_grid(
    sweep_grid: grid.Grid,
    out: Path,
    runs: Runs,
    progress: Progress,
    *,
    retry: bool = False,
    force: bool = False,
    plot: bool = False,
) -> list[Status]:
    """Makes missing runs, and returns the status of all runs afterwards. `plot`: each new run draws its plot.png."""
    check_place(out, "a run's folder", "give another --out")
    folder = SweepFolder(out, sweep_grid, _fingerprints(sweep_grid, progress))
    folder.make()
    with folder_lock.held(out, "a sweep"):
        folder.write_specs()
        try:
            _run(folder, _todo(folder, retry, force, plot), runs, progress)
        except KeyboardInterrupt:
            say(f"dcgym: {summary.counts(_finish(folder))}; the same command goes on from here", file=sys.stderr)
            raise
        return _finish(folder)


def local(jobs: int) -> Runs:
    """Returns the function that runs cells on this machine, so many at a time."""
    return lambda cells, progress, on_end: pool.run_cells(cells, jobs, progress, on_end)


def _where(args: Namespace, real_time: bool) -> Runs:
    """Returns where cells are run: in real time one at a time, unless the user asks for more, since they compete for CPUs."""
    if args.address is None:
        return local(args.jobs or (1 if real_time else pool.cpus()))
    runs: Runs = importlib.import_module("dc_gym.run.sweep.cluster").connect(args.address, args.jobs)
    return runs


def _fingerprints(sweep_grid: grid.Grid, progress: Progress) -> dict[str, str]:
    """Returns the fingerprints of runs that began now, by kind. It fetches kernel and Open vSwitch before many runs do."""
    check_programs()
    ovs = openvswitch.ensure(progress)
    fingerprints = {}
    for point in sweep_grid.points:
        if (kind := point.kind) not in fingerprints:
            ground = ground_of(point.spec)
            ground.prepare(progress)
            fingerprints[kind] = fingerprint.fingerprint(ground.environment(ovs))
    return fingerprints


def _todo(folder: SweepFolder, retry: bool, force: bool, plot: bool) -> list[Cell]:
    """Returns the runs to be made. Raises UsageError if a result is another sweep's and --force was not given."""
    cells: list[Cell] = []
    wrong: list[str] = []
    for point in folder.grid.points:
        try:
            state = folder.status(point).state
        except SweepMismatch as error:
            wrong.append(str(error))
            state = RunState.WAITING
        if state is RunState.WAITING or (retry and state is not RunState.DONE):
            cells.append(_cell(folder, point, plot))
    if wrong and not force:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise UsageError(f"{wrong[0]}{more}; --force runs such again, or give another --out")
    return cells


def _cell(folder: SweepFolder, point: Point, plot: bool) -> Cell:
    out = folder.result_of(point)
    options = ["--plot" if plot else "--no-plot", *(["--force"] if out.exists() else [])]
    has_policy = point.spec.controller.policy is not None
    return Cell(point.name, folder.spec_file(point), out, (), options, has_policy=has_policy)


def _run(folder: SweepFolder, cells: list[Cell], runs: Runs, progress: Progress) -> None:
    if not cells:
        return
    points = {point.name: point for point in folder.grid.points}
    if unkept := trusted.remember(item for cell in cells for item in items_of(points[cell.name].spec)):  # also for a cluster
        progress.note(unkept)
    for cell in cells:
        folder.forget_failure(points[cell.name])
    _finish(folder)  # so that readers of the folder see from the start which runs there will be

    def on_end(outcome: CellOutcome) -> None:
        """Records a failure. A result, also an unfit one, needs no record, and an interrupted run is still to be done."""
        if outcome.status not in (0, HUNG_UP, INTERRUPTED, TERMINATED) and results.UNFIT not in outcome.message:
            folder.record_failure(points[outcome.cell.name], outcome.status, outcome.message.strip())
        if outcome.status == 0:
            try:
                folder.status(points[outcome.cell.name])
            except SweepMismatch as error:  # a cluster's node has another kernel
                folder.record_failure(points[outcome.cell.name], 1, str(error))

    runs(cells, progress, on_end)


def _finish(folder: SweepFolder) -> list[Status]:
    """Returns the status of all runs and writes it to the sweep's own files."""
    statuses = [_status(folder, point) for point in folder.grid.points]
    summary.write(folder, statuses)
    folder.record.write(point.name for point in folder.grid.points)
    return statuses


def _status(folder: SweepFolder, point: Point) -> Status:
    try:
        return folder.status(point)
    except SweepMismatch:  # --force was given, and this run has not been repeated yet
        return Status(point, RunState.WAITING)
