# SPDX-License-Identifier: Apache-2.0
"""Checks on sweeps: two labs at once gain as much as two CPU loops at once, and a kill -9 costs only the runs under way.

The runs are long beside their start, which two labs share. Two copies of a CPU loop rarely reach twice the speed of one, since
CPUs share caches, power and a hypervisor. So labs are compared with loops on the same machine, in turns within the same
minutes. Each figure is a median over rounds.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from dc_gym import sweep
from dc_gym.base.checks import Check
from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import dcgym, python
from dc_gym.base.progress import Quiet
from dc_gym.records.results import load_result
from dc_gym.sweep import runs
from dc_gym.sweep.state import SUMMARY, RunState

ROUNDS = 5
SHARE = 0.85
SEEDS = 8
DEADLINE_S = 120.0
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
SHORT = "time.duration=300ms"


def checks(rounds: int = ROUNDS, seeds: int = SEEDS, settings: tuple[str, ...] = ()) -> Iterable[Check]:
    with runs.scratch("sweep") as folder:
        spec = runs.write_spec(folder, "sweep", SPEC)
        yield _side_by_side(folder, spec, rounds, settings)
        yield from _kill(folder, spec, seeds)


def _side_by_side(folder: Path, spec: Path, rounds: int, settings: tuple[str, ...]) -> Check:
    name, asked = "two labs at once", f">= {SHARE} of two CPU loops"
    if sweep.cpus() < 2:
        return Check(name, asked, "SKIPPED: one CPU", ok=False, skipped=True)
    labs, loops = [], []
    for number in range(rounds):
        labs.append(_gain(partial(_labs, folder / f"round{number}", spec, settings)))
        loops.append(_gain(_loops))
    lab, loop = statistics.median(labs), statistics.median(loops)
    share = statistics.median(mine / theirs for mine, theirs in zip(labs, loops, strict=True))
    return Check(name, asked, f"{share:.2f} (labs {lab:.2f} of one, loops {loop:.2f}; {rounds} rounds)", share >= SHARE)


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


def _kill(folder: Path, spec: Path, seeds: int) -> Iterator[Check]:
    """Yields the checks on a sweep that is killed when about half of its runs are done, and then resumed."""
    whole, killed = folder / "whole", folder / "killed"
    jobs = min(2, sweep.cpus())
    _sweep(spec, whole, seeds, jobs).wait()
    _kill_at(_sweep(spec, killed, seeds, jobs), killed, random.Random(1).randrange(1, seeds - jobs))
    kept = {path: path.stat().st_ino for path in _finished(killed)}
    for path in kept:
        load_result(path, check_digest=True)
    litter = sorted(path.name for path in killed.iterdir() if path.name.endswith((".partial", ".replaced")))
    yield Check("kill -9 of a sweep: left behind", "nothing unfinished", ", ".join(litter) or "nothing", not litter)
    status = _sweep(spec, killed, seeds, jobs).wait()
    again = [path.name for path, number in kept.items() if path.stat().st_ino != number]
    measured = f"{len(kept)} of {seeds} were done and stay" if not again else f"run again: {', '.join(again)}"
    yield Check("the same command again", "runs only what is not done", measured, status == 0 and not again)
    pairs = list(zip(_digests(whole), _digests(killed), strict=True))
    differ = sum(one != other for one, other in pairs)
    measured = f"{differ} of {len(pairs)} differ" if differ else f"all {len(pairs)} equal"
    yield Check("its digests", "those of an undisturbed sweep", measured, len(pairs) == seeds and not differ)


def _sweep(spec: Path, out: Path, seeds: int, jobs: int) -> subprocess.Popen[bytes]:
    words = ["sweep", str(spec), "--out", str(out), "--seeds", f"1..{seeds}", "--jobs", str(jobs), "--set", SHORT, "--quiet"]
    return subprocess.Popen(dcgym(*words), stdout=subprocess.DEVNULL, start_new_session=True)


def _kill_at(process: subprocess.Popen[bytes], out: Path, count: int) -> None:
    """Kills a sweep once `count` of its runs are done, and waits for its janitors."""
    deadline = time.monotonic() + DEADLINE_S
    while len(_finished(out)) < count and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if process.poll() is not None:
        raise TestbedError(f"the sweep ended with status {process.returncode} before it could be killed")
    process.kill()
    process.wait()
    if len(_finished(out)) < count:
        raise TestbedError(f"{len(_finished(out))} of {count} runs were done within {DEADLINE_S:g} s: nothing to say of a kill")
    while any(path.name.endswith(".partial") for path in out.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)


def _finished(out: Path) -> list[Path]:
    return sorted(path.parent for path in out.glob("*/manifest.json") if path.parent.suffix == "")


def _digests(out: Path) -> list[str]:
    """Returns the digests of the runs that are done, in the order of the grid."""
    cells = json.loads((out / SUMMARY).read_text())["cells"]
    return [cell["digest"] for cell in cells if cell["state"] == RunState.DONE]
