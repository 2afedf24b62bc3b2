# SPDX-License-Identifier: Apache-2.0
"""Runs a guest module in a lab of its own, which has no network except the module's."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dc_gym.base.errors import LabError
from dc_gym.base.files import scratch
from dc_gym.base.interpreter import python
from dc_gym.base.package import PROGRAMS
from dc_gym.kernel.lab import Lab, LabConfig


@contextmanager
def guest_lab(kernel: Path, module: str, folder: Path, places: Sequence[Path] = ()) -> Iterator[Lab]:
    """Yields the lab in which `python -m MODULE FOLDER` runs, and waits for its end.

    `folder` has the module's jobs and gets its answers. `places`: folders with modules besides the package's. Only the module's
    frames pass. Raises LabError if it fails.
    """
    log: list[str] = []
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": ":".join(map(str, (PROGRAMS.parents[1], *places))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/run",
    }
    argv = python("-m", module, str(folder))
    with Lab(LabConfig(kernel, PROGRAMS, folder, argv, env, kernel_args=("ipv6.disable=1",)), on_log=log.append) as lab:
        yield lab
        status = lab.wait().status
    if status != 0:
        raise LabError("\n  lab: ".join([f"{module} ended with status {status} in the lab", *log[-20:]]))


def play_jobs(kernel: Path, module: str, jobs: Iterable[Mapping[str, Any]], places: Sequence[Path] = ()) -> list[Any]:
    """Returns the answers of a guest module to all jobs, which it reads and writes as lines of JSON."""
    with scratch(Path(tempfile.gettempdir()), "dcgym-bench-") as folder:
        (folder / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
        with guest_lab(kernel, module, folder, places):
            pass
        return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
