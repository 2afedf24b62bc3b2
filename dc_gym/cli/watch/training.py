# SPDX-License-Identifier: Apache-2.0
"""Reads the progress of a training from the last complete line of DIR/progress.csv, which the training appends to.

An iteration in which no episode ended has no return and no queue. The last known values are used then.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.files import PARTIAL
from dc_gym.base.progress import short_time
from dc_gym.base.readable import number, quantity

__all__ = ["TrainingStatus", "read"]

FILE = "progress.csv"
OF_EPISODES = ("return_mean", "queue_mean")


@dataclass(frozen=True, slots=True)
class TrainingStatus:
    """The last reported values; nan: not reported."""

    iteration: float
    steps: float
    return_mean: float
    queue_mean: float
    """The longest queue of a switch, in bytes."""
    steps_per_s: float
    eta_s: float

    def __str__(self) -> str:
        words = {
            f"iteration {self.iteration:.0f}": self.iteration,
            f"{self.steps:,.0f} steps": self.steps,
            f"return {number(self.return_mean)}": self.return_mean,
            f"queue {quantity(self.queue_mean, 'bytes', 3)}": self.queue_mean,
            f"{self.steps_per_s:.0f} steps/s": self.steps_per_s,
        }
        if math.isfinite(self.eta_s):
            words[f"{short_time(self.eta_s)} to go"] = self.eta_s
        return ", ".join(word for word, value in words.items() if not math.isnan(value))


def read(out: Path) -> TrainingStatus | None:
    """Returns the progress; None if there is no training here, or it has not reported anything yet."""
    real = out.resolve()
    for folder in (real, real.with_name(f"{real.name}{PARTIAL}") if real.name else real):
        try:
            with (folder / FILE).open(newline="") as file:
                rows = list(csv.DictReader(file))
        except (OSError, UnicodeDecodeError, csv.Error):
            continue
        whole = [row for row in rows if None not in row.values() and None not in row]
        if whole:
            names = TrainingStatus.__dataclass_fields__
            return TrainingStatus(*(_last(whole if name in OF_EPISODES else whole[-1:], name) for name in names))
    return None


def _last(rows: Sequence[Mapping[str, str]], name: str) -> float:
    return next((value for row in reversed(rows) if not math.isnan(value := _number(row, name))), float("nan"))


def _number(row: Mapping[str, str], name: str) -> float:
    try:
        return float(row.get(name, "nan"))
    except ValueError:
        return float("nan")
