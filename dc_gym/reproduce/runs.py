# SPDX-License-Identifier: Apache-2.0
"""The runs of a figure: a sweep in its own folder, which resumes where it was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dc_gym import sweep
from dc_gym.base.errors import TestbedError
from dc_gym.base.progress import Progress
from dc_gym.records import results
from dc_gym.records.results import Result
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.sweep.grid import Grid, Point
from dc_gym.sweep.state import RunState

FOLDER = "runs"


def run_all(
    name: str, keys: tuple[str, ...], points: Sequence[Point], folder: Path, options: ReproduceOptions, progress: Progress
) -> dict[str, Result]:
    """Makes the missing results, and returns all of them by the points' names. Raises TestbedError if a run failed.

    `keys`: the names of what varies.
    """
    out = (folder / FOLDER).absolute()
    jobs = 1 if options.ground == "host" else options.jobs
    asked = Grid(name, keys, tuple(points))
    statuses = sweep.run_grid(asked, out, sweep.local(jobs), progress, retry=options.retry, force=options.force)
    for status in statuses:
        if status.state is not RunState.DONE:
            why = (status.message.splitlines() or ["no word"])[0]
            raise TestbedError(f"{out / status.point.name} {status.state}: {why}; --retry runs it again")
    return {status.point.name: results.load_result(out / status.point.name) for status in statuses}
