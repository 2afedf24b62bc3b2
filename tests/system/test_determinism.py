# SPDX-License-Identifier: Apache-2.0
"""One spec gives one digest, whatever else happens during the run; another seed gives another digest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from specs import OTHERS, demo_cells

from dc_gym.base.files import scratch
from dc_gym.base.interpreter import python
from dc_gym.benchmarks.studies import demo
from dc_gym.kernel.cache import cache_dir
from dc_gym.kernel.user import UNPRIVILEGED
from dc_gym.results.divergence import first_difference
from dc_gym.run import sweep
from dc_gym.run.plan.plan import DISTURB
from dc_gym.run.sweep import runs

pytestmark = [pytest.mark.lab, pytest.mark.user]
# Random bytes, clock reads, processes and time before t0. None of it may affect the traffic.
DISTURBANCE = (
    "head -c 1000 /dev/urandom > /dev/null; for i in 1 2 3 4 5; do /bin/true; date > /dev/null; done;"
    " cat /proc/sys/kernel/random/uuid > /dev/null; sleep 0.0123"
)
SHORT = {"dumbbell-10m": "3s", "dumbbell-1g": "300ms", "fattree-k4": "300ms"}
"""Times of the demo's cases in the short form, which has the two controllers that draw the most randomness."""


@pytest.mark.parametrize(
    ("shorten", "controllers"), [(SHORT, ("dctcp", "bbr")), pytest.param({}, demo.CONTROLLERS, marks=pytest.mark.long)]
)
@pytest.mark.timeout(3600)
def test_digests_are_equal_whatever_goes_on_around(shorten, controllers, tmp_path, monkeypatch, lab_kernel):
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    cells = [*shortened(tmp_path, shorten, controllers), *other_cells(tmp_path)]
    base = runs.run_all(cells)

    def run(name, **changes):
        return runs.run_all(variant(cells, tmp_path / name, **changes))

    for number in (2, 3):
        assert not differing(base, run(f"again{number}"))
    with load():
        assert not differing(base, run("load")), "all CPUs are busy"
    assert not differing(base, run("another/much-longer-name-of-a-folder/deeper"))
    assert not differing(base, run("environment", env={"DCGYM_PADDING": "x" * 20_000}, umask=0o077))
    assert not differing(base, run("disturbed", env={DISTURB: DISTURBANCE}))
    if os.geteuid() == 0 and readable_by_all(Path(sys.executable)) and readable_by_all(Path(demo.__file__)):
        assert not differing(base, as_another_user(cells))
    other = runs.run_all([replace(cell, settings=(*cell.settings, "seed=77")) for cell in variant(cells, tmp_path / "seed")])
    assert not [name for name in base if base[name].digest == other[name].digest]


def shortened(folder, shorten, controllers):
    cells = []
    for cell in demo_cells(folder, *(case.name for case in demo.STUDY.variants if case.values["controller.name"] in controllers)):
        durations = [duration for case, duration in shorten.items() if cell.name.startswith(case)]
        extra = [setting for duration in durations for setting in (f"time.duration={duration}", "time.warmup=0s")]
        cells.append(replace(cell, settings=(*cell.settings, *extra)))
    return cells


def other_cells(folder):
    specs = {name: runs.write_spec(folder, name, text) for name, text in OTHERS.items()}
    return [sweep.Cell(name, spec, folder / f"{name}-run", (), ("--no-plot", "--force")) for name, spec in specs.items()]


def variant(cells, folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    return [replace(cell, out=folder / cell.name, **changes) for cell in cells]


def differing(base, other):
    """Returns where each result differs from that of the same cell."""
    bad = [name for name in base if base[name].digest != other[name].digest]
    return {name: first_difference(base[name].tables, other[name].tables) for name in bad}


def as_another_user(cells):
    with scratch(Path("/tmp"), "dcgym-user-") as parent:
        there = parent / "home"  # the folder above stays root's, so that user cannot put anything in its place
        there.mkdir()
        os.chown(there, UNPRIVILEGED, UNPRIVILEGED)
        for spec in {cell.spec for cell in cells}:
            shutil.copy(spec, there)
        env = {"HOME": str(there), "DCGYM_CACHE": str(cache_dir()), "MPLCONFIGDIR": str(there)}
        copies = [replace(cell, spec=there / cell.spec.name, out=there / cell.name, env=env, user=UNPRIVILEGED) for cell in cells]
        return runs.run_all(copies)


def readable_by_all(path):
    path = path.resolve()
    return all(folder.stat().st_mode & 0o001 for folder in path.parents) and bool(path.stat().st_mode & 0o004)


@contextmanager
def load():
    """Runs two busy processes per CPU."""
    busy = [subprocess.Popen(python("-c", "while True: pass")) for _ in range(2 * sweep.cpus())]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
