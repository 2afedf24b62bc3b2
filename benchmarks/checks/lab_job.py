# SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark's guest module in a lab of its own, which has no network but what the module makes."""

from __future__ import annotations

import sys
from pathlib import Path

from dc_gym.base.errors import LabError
from dc_gym.base.package import PROGRAMS
from dc_gym.kernel.lab import Lab, LabConfig


def run_guest(kernel: Path, bench: str, folder: Path) -> None:
    """Runs the guest module of `dcgym bench <bench>` with a folder that has its jobs and gets its answers.

    Raises LabError if the module fails.
    """
    log: list[str] = []
    config = LabConfig(
        kernel=kernel,
        programs=PROGRAMS,
        run_dir=folder,
        argv=[sys.executable, "-m", f"{__package__}.{bench.replace('-', '_')}_guest", str(folder)],
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(PROGRAMS.parents[1]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": "/run",
        },
        kernel_args=("ipv6.disable=1",),  # no frames but ours
    )
    with Lab(config, on_log=log.append) as lab:
        status = lab.wait().status
    if status != 0:
        raise LabError("\n  lab: ".join([f"the {bench} bench ended with status {status} in the lab", *log[-20:]]))
