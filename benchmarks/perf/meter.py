# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a command: wall time, and the CPU time of all processes that it leaves behind or kills.

A lab's processes outlive their parents for moments, and their CPU times would be lost. So the command runs below a small process
that adopts orphans (PR_SET_CHILD_SUBREAPER) and waits for each of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import dcgym, python
from dc_gym.results.results import Result, load_result

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ORPHANS_S = 10  # long enough for a lab to end


@dataclass(frozen=True, slots=True)
class ProcessCost:
    wall_s: float
    cpu_s: float
    """User and system time of the whole process tree."""


@dataclass(frozen=True, slots=True)
class Metered:
    status: int
    stdout: str
    stderr: str
    cost: ProcessCost


def run(argv: Sequence[str]) -> Metered:
    """Runs `argv` to its end. The caller judges the exit status."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        words = python("-m", "dc_gym.benchmarks.perf.meter", report.name, *argv)
        process = subprocess.run(words, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        text = report.read()
    cost = ProcessCost(**json.loads(text)) if text else ProcessCost(0.0, 0.0)
    return Metered(process.returncode, process.stdout, process.stderr, cost)


def run_spec(spec: Path, out: Path, settings: Sequence[str]) -> tuple[Result, ProcessCost]:
    """Runs a whole `dcgym run` and returns its cost. Raises TestbedError if it fails or is unfit."""
    overrides = [word for setting in settings for word in ("--set", setting)]
    process = run(dcgym("run", str(spec), "--out", str(out), "--quiet", "--no-plot", *overrides))
    if process.status:
        raise TestbedError(f"{out.name}: exit {process.status}: {process.stderr.strip()}")
    return load_result(out), process.cost


def main(argv: Sequence[str] = sys.argv) -> int:
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    started = time.perf_counter()
    child = subprocess.Popen(argv[2:])
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child gets it, too, and decides
    status = child.wait()
    wall_s = time.perf_counter() - started
    _reap_orphans()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(argv[1]).write_text(json.dumps({"wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime}))
    return status if status >= 0 else 128 - status


def _reap_orphans() -> None:
    deadline = time.monotonic() + ORPHANS_S
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
