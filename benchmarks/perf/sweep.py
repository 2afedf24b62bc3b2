# SPDX-License-Identifier: Apache-2.0
"""Checks that two labs at once gain as much as two CPU loops at once.

The runs are long beside their start, which two labs share. Two copies of a CPU loop rarely reach twice the speed of one, since
CPUs share caches, power and a hypervisor. So labs are compared with loops on the same machine, in turns within the same
minutes. Each figure is a median over rounds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Quiet
from dc_gym.run import sweep
from dc_gym.run.sweep import runs

ROUNDS = 5
SHARE = 0.85
LOOP = "x = 0\nfor i in range({steps}): x += i * i"
LOOP_STEPS = 40_000_000
SPEC = """
spec_version = 1
name = "sweep"
topology.preset = "dumbbell-1g"
controller.name = "cubic"
workload = { kind = "pairs", jitter = "10ms" }
time = { duration = "12s" }
"""


def checks(rounds: int = ROUNDS, settings: tuple[str, ...] = ()) -> Iterable[Check]:
    name, required = "two labs at once", f">= {SHARE} of two CPU loops"
    if sweep.cpus() < 2:
        yield Check(name, required, "SKIPPED: one CPU", ok=False, skipped=True)
        return
    with runs.scratch("sweep") as folder:
        spec = runs.write_spec(folder, "sweep", SPEC)
        pairs = [(_gain(partial(_labs, folder / f"round{number}", spec, settings)), _gain(_loops)) for number in range(rounds)]
    lab, loop = (statistics.median(gains) for gains in zip(*pairs, strict=True))
    share = statistics.median(lab_gain / loop_gain for lab_gain, loop_gain in pairs)
    yield Check(name, required, f"{share:.2f} (labs {lab:.2f} of one, loops {loop:.2f}; {rounds} rounds)", share >= SHARE)


def _gain(work: Callable[[int], None]) -> float:
    """Returns how much more two copies do per second than one."""
    walls = []
    for copies in (1, 2):
        begun = time.perf_counter()
        work(copies)
        walls.append(time.perf_counter() - begun)
    return 2 * walls[0] / walls[1]


def _labs(folder: Path, spec: Path, settings: tuple[str, ...], copies: int) -> None:
    names = [f"{number}-of-{copies}" for number in range(copies)]
    cells = [sweep.Cell(name, spec, folder / name, (f"seed={number}", *settings)) for number, name in enumerate(names)]
    sweep.require_all(sweep.run_cells(cells, copies, Quiet()))


def _loops(copies: int) -> None:
    """Runs CPU loops, each on its own CPU as labs are."""
    argv = python("-c", LOOP.format(steps=LOOP_STEPS))
    cpus = sorted(os.sched_getaffinity(0))
    loops = [subprocess.Popen(["taskset", "-c", str(cpu), *argv]) for cpu in cpus[:copies]]
    if any([loop.wait() for loop in loops]):
        raise TestbedError("a CPU loop failed")
