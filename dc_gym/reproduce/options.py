# SPDX-License-Identifier: Apache-2.0
"""The options of the command line: how much to run, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ReproduceOptions:
    out: Path
    """The paper's folder; its runs and figures have folders in it."""
    full: bool = False
    """True: run at the paper's own lengths."""
    seeds: int | None = None
    """Number of seeds. None: the figure's own; this holds for the fields below, too."""
    steps: int | None = None
    """Steps of each training."""
    duration: str | None = None
    """Duration of each measured run."""
    algorithms: tuple[str, ...] | None = None
    preset: str | None = None
    """Name of the preset of hyper-parameters."""
    overrides: tuple[str, ...] = field(default=())
    """KEY=VALUE overrides of the spec."""
    ground: str = "lab"
    jobs: int = 1
    """Number of labs, and of trainings, at a time."""
    retry: bool = False
    force: bool = False
