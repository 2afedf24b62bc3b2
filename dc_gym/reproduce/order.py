# SPDX-License-Identifier: Apache-2.0
"""What the command says: how much to run, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Order:
    out: Path
    """Of the paper: its runs and its figures have folders there."""
    full: bool = False
    """The paper's own lengths."""
    seeds: int | None = None
    """None: the figure's own; likewise below."""
    steps: int | None = None
    """Of each training."""
    duration: str | None = None
    """Of each run that is measured."""
    algorithms: tuple[str, ...] | None = None
    preset: str | None = None
    """Of hyper-parameters."""
    overrides: tuple[str, ...] = field(default=())
    """KEY=VALUE of the spec."""
    ground: str = "lab"
    jobs: int = 1
    """Labs, and trainings, at a time."""
    retry: bool = False
    force: bool = False
