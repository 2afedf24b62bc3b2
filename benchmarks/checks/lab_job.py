# SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark's guest module in a lab of its own, which has no network but what the module makes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dc_gym.base.errors import LabError
from dc_gym.base.files import scratch
from dc_gym.base.interpreter import python
from dc_gym.base.package import PROGRAMS
from dc_gym.kernel.lab import Lab, LabConfig


def run_guest(kernel: Path, bench: str, folder: Path) -> None:
    """Runs the guest module of `dcgym bench <bench>` with a folder that has its jobs and gets its answers.

    Raises LabError if the module fails.
    """
    with guest_lab(kernel, bench, folder):
        pass


@contextmanager
def guest_lab(kernel: Path, bench: str, folder: Path) -> Iterator[Lab]:
    """Yields the lab in which that guest module runs, and waits for its end. Raises LabError if the module fails."""
    log: list[str] = []
    config = _config(kernel, f"{__package__}.{bench.replace('-', '_')}_guest", folder)
    with Lab(config, on_log=log.append) as lab:
        yield lab
        status = lab.wait().status
    if status != 0:
        raise LabError("\n  lab: ".join([f"the {bench} bench ended with status {status} in the lab", *log[-20:]]))


def play_jobs(kernel: Path, bench: str, jobs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the answers of that guest module to all jobs, which it reads and writes as lines of JSON."""
    with scratch(Path(tempfile.gettempdir()), f"dcgym-{bench}-") as folder:
        (folder / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
        run_guest(kernel, bench, folder)
        return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


def _config(kernel: Path, module: str, folder: Path) -> LabConfig:
    """Returns the lab in which `python -m MODULE FOLDER` runs. No frames pass there but those of the module."""
    return LabConfig(
        kernel=kernel,
        programs=PROGRAMS,
        run_dir=folder,
        argv=python("-m", module, str(folder)),
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(PROGRAMS.parents[1]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": "/run",
        },
        kernel_args=("ipv6.disable=1",),
    )
