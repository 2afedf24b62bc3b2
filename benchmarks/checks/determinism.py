# SPDX-License-Identifier: Apache-2.0
"""Checks determinism: one spec gives one digest, whatever else happens during the run; another seed gives another digest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dc_gym import sweep
from dc_gym.base.checks import Check
from dc_gym.base.files import scratch
from dc_gym.base.interpreter import python
from dc_gym.benchmarks.studies import demo
from dc_gym.grounds.guest.plan import DISTURB
from dc_gym.kernel.cache import cache_dir
from dc_gym.kernel.user import UNPRIVILEGED
from dc_gym.records.divergence import first_difference
from dc_gym.records.results import Result
from dc_gym.sweep import runs

# Random bytes, clock reads, processes and time before t0. None of it may affect the traffic.
DISTURBANCE = (
    "head -c 1000 /dev/urandom > /dev/null; for i in 1 2 3 4 5; do /bin/true; date > /dev/null; done;"
    " cat /proc/sys/kernel/random/uuid > /dev/null; sleep 0.0123"
)
REPEATS = 3
OTHERS = {
    "nic-dcqcn": """
topology = { preset = "dctcp-10g", marking = "red-instant", kmin = "20p", kmax = "160p", pmax = "20%" }
controller.name = "dcqcn"
nic.latency = "900ns"
workload.kind = "many_to_one"
time = { duration = "200ms" }
monitor.interval = "1ms"
""",
    "nic-swift": """
topology.preset = "dctcp-10g"
controller.name = "swift"
workload.kind = "many_to_one"
time = { duration = "200ms" }
monitor.interval = "1ms"
""",
    "agent": """
topology = { preset = "dumbbell-10m", marking = "iroko-thesis" }
controller = { name = "dctcp", policy = "fair-share" }
agent = { interval = "10ms", control = "network", control_loss = "2%" }
workload = { kind = "pairs", jitter = "10ms" }
time = { duration = "5s" }
""",
}
"""Specs by name that run besides the demo's cases: NICs, whose loader works while traffic runs, and an agent."""


def checks(shorten: dict[str, str] | None = None, controllers: tuple[str, ...] = demo.CONTROLLERS) -> Iterable[Check]:
    """Yields one check for each way to disturb a run, over the demo's cases and OTHERS.

    `shorten`: another time.duration, by case.
    """
    with runs.scratch("determinism") as folder:
        cells = [*_base_cells(folder, shorten or {}, controllers), *_other_cells(folder)]
        base = runs.run_all(cells)
        for number in range(2, REPEATS + 1):
            yield _compare(f"run {number} of {REPEATS}", base, runs.run_all(_variant(cells, folder / f"again{number}")))
        with _load():
            yield _compare("all CPUs busy", base, runs.run_all(_variant(cells, folder / "load")))
        there = folder / "another" / "much longer name of a folder".replace(" ", "-") / "deeper"
        yield _compare("another folder", base, runs.run_all(_variant(cells, there)))
        changed = _variant(cells, folder / "environment", env={"DCGYM_PADDING": "x" * 20_000}, umask=0o077)
        yield _compare("larger environment, umask 077", base, runs.run_all(changed))
        disturbed = _variant(cells, folder / "disturbed", env={DISTURB: DISTURBANCE})
        yield _compare("disturbed set-up", base, runs.run_all(disturbed))
        yield _as_another_user(base, cells)
        yield _other_seed(base, cells, folder)


def _base_cells(folder: Path, shorten: dict[str, str], controllers: tuple[str, ...]) -> list[sweep.Cell]:
    cells = []
    for case in demo.CASES:
        for cell in demo.case_cells(case, folder, seeds=(1,)):
            if cell.name.removeprefix(f"{case.name}-").removesuffix("-s1") in controllers:
                extra = (f"time.duration={shorten[case.name]}", "time.warmup=0s") if case.name in shorten else ()
                cells.append(replace(cell, settings=(*cell.settings, *extra)))
    return cells


def _other_cells(folder: Path) -> list[sweep.Cell]:
    specs = {name: runs.write_spec(folder, name, f'spec_version = 1\nname = "{name}"\n{text}') for name, text in OTHERS.items()}
    return [sweep.Cell(name, spec, folder / f"{name}-run", (), ("--no-plot", "--force")) for name, spec in specs.items()]


def _variant(cells: list[sweep.Cell], folder: Path, **changes: Any) -> list[sweep.Cell]:
    folder.mkdir(parents=True, exist_ok=True)
    return [replace(cell, out=folder / cell.name, **changes) for cell in cells]


def _compare(name: str, base: dict[str, Result], other: dict[str, Result]) -> Check:
    different = [cell for cell in base if base[cell].digest != other[cell].digest]
    asked = f"{len(base)} digests as before"
    if not different:
        return Check(name, asked, f"all {len(base)} equal", ok=True)
    first = different[0]
    where = first_difference(base[first].tables, other[first].tables)
    return Check(name, asked, f"{len(different)} differ, first {first}: {where}", ok=False)


def _other_seed(base: dict[str, Result], cells: list[sweep.Cell], folder: Path) -> Check:
    changed = [replace(cell, settings=(*cell.settings, "seed=77")) for cell in _variant(cells, folder / "seed")]
    other = runs.run_all(changed)
    same = [cell for cell in base if base[cell].digest == other[cell].digest]
    return Check("another seed", "no digest as before", f"{len(same)} of {len(base)} equal {' '.join(same)}".strip(), not same)


def _as_another_user(base: dict[str, Result], cells: list[sweep.Cell]) -> Check:
    name, asked = "another user", f"{len(base)} digests as before"
    if os.geteuid() != 0:
        return Check(name, asked, "SKIPPED: only root can become another user", ok=False, skipped=True)
    if not _readable_by_all(Path(sys.executable)) or not _readable_by_all(Path(__file__)):
        words = f"SKIPPED: uid {UNPRIVILEGED} cannot read {sys.executable} or this checkout"
        return Check(name, asked, words, ok=False, skipped=True)
    with scratch(Path("/tmp"), "dcgym-user-") as place:
        there = place / "home"  # the folder above stays root's, so that user cannot put anything in its place
        there.mkdir()
        os.chown(there, UNPRIVILEGED, UNPRIVILEGED)
        for spec in {cell.spec for cell in cells}:
            shutil.copy(spec, there)
        env = {"HOME": str(there), "DCGYM_CACHE": str(cache_dir()), "MPLCONFIGDIR": str(there)}
        mine = [replace(cell, spec=there / cell.spec.name, out=there / cell.name, env=env, user=UNPRIVILEGED) for cell in cells]
        return _compare(name, base, runs.run_all(mine))


def _readable_by_all(path: Path) -> bool:
    path = path.resolve()
    return all(folder.stat().st_mode & 0o001 for folder in path.parents) and bool(path.stat().st_mode & 0o004)


@contextmanager
def _load() -> Iterator[None]:
    """Runs two busy processes per CPU."""
    busy = [subprocess.Popen(python("-c", "while True: pass")) for _ in range(2 * sweep.cpus())]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
