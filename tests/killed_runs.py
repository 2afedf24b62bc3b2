# SPDX-License-Identifier: Apache-2.0
"""A run one of whose processes is killed at a random moment, and what is left of it."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import dcgym
from dc_gym.base.processes import Process, descendants
from dc_gym.results.results import load_result
from dc_gym.run.sweep import runs

DEADLINE_S = 30.0
SPEC = runs.plain_spec("clean", "dumbbell-1g", "5s")


def length_of(spec: Path, out: Path) -> float:
    """Returns the wall seconds of an undisturbed run."""
    begun = time.monotonic()
    if _start(spec, out).wait():
        raise TestbedError(f"{spec}: the run that was to be killed fails by itself; try it with `dcgym run`")
    return time.monotonic() - begun


def kill_once(spec: Path, out: Path, draw: random.Random, length_s: float) -> tuple[str, list[str]]:
    """Starts a run and kills one of its processes at a random moment of its life.

    Returns which one, and what was left in the end.
    """
    before = surroundings()
    while True:
        run = _start(spec, out)
        time.sleep(draw.uniform(0, length_s))
        if family := descendants(run.pid):
            break
        run.wait()  # the run ended sooner than expected: nothing was killed, so draw again
        shutil.rmtree(out, ignore_errors=True)
    victim = draw.choice(family)
    name = f"{victim.name} (one of {len(family)} processes)"
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim.pid, signal.SIGKILL)
    left = _wait_for_quiet(run, family, out)
    run.wait()
    if out.exists():  # killed after the result had its final name: then it must be complete
        load_result(out, check_digest=True)
    return name, left + [f"{path} appeared" for path in _that_stay(surroundings() - before)]


def _start(spec: Path, out: Path) -> subprocess.Popen[bytes]:
    argv = dcgym("run", str(spec), "--out", str(out), "--quiet", "--no-plot")
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def _wait_for_quiet(run: subprocess.Popen[bytes], family: list[Process], out: Path) -> list[str]:
    """Waits until the run has ended and nothing of it is left. Returns what is left at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        left = [f"process {process.pid} ({process.name})" for process in family if process.alive()]
        left += [f"process {pid} names the run" for pid in _mentioning(str(out))]
        left += [str(path.name) for path in out.parent.glob(f"{out.name}.*")]
        if (run.poll() is not None and not left) or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _that_stay(appeared: set[str]) -> list[str]:
    """Returns what of it is still there at the deadline. What belongs to another run goes with that run."""
    deadline = time.monotonic() + DEADLINE_S
    while (appeared := appeared & surroundings()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return sorted(appeared)


def _mentioning(text: str) -> list[int]:
    """Returns the processes with `text` in their command line."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if text.encode() in (entry / "cmdline").read_bytes():
                    pids.append(int(entry.name))
            except OSError:
                continue
    return pids


def surroundings() -> set[str]:
    """Returns the shared memory, named network namespaces and UML's own folders that exist now.

    Namespaces that test_tgen.py makes come and go meanwhile, where tests run side by side.
    """
    folders = [Path("/dev/shm"), Path("/run/netns"), Path.home() / ".uml"]
    paths = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return {str(path) for path in paths if not path.name.startswith("tgt")}
