# SPDX-License-Identifier: Apache-2.0
"""The records of a training: CSV files whose columns may grow, TensorBoard events, and the row of an iteration."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dc_gym.base.files import whole
from dc_gym.learn.rllib.callbacks import TOTALS, mean_max_p99

Row = dict[str, Any]
QUEUE = "switch_queue_bytes_longest"
"""The total shown in the column queue_mean: the longest queue of a switch, averaged over an episode."""
ALL_MODULES = "__all_modules__"
"""RLlib's key for values that belong to no single module."""
COLUMNS = ("iteration", "steps", "return_mean", "queue_mean", "steps_per_s", "eta_s")


class CsvLog:
    """Appends rows to a CSV file. A column that first appears in a later row (because no episode had ended before) is added to
    the file."""

    def __init__(self, path: Path, columns: Sequence[str], until: int | None = None) -> None:
        """`until`: keeps the rows of an existing file up to this iteration; without it all rows are removed."""
        self._path, self._columns = path, list(columns)
        rows = self._read() if until is not None and path.exists() else []
        for row in rows:
            self._grow(row)
        self._write([row for row in rows if int(row["iteration"]) <= (until or 0)])

    def append(self, *rows: Mapping[str, Any]) -> None:
        """Appends all rows, or none if the process is killed."""
        if any([self._grow(row) for row in rows]) or len(rows) > 1:
            self._write([*self._read(), *rows])
            return
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns, restval="").writerows(map(_plain, rows))

    def has(self, iteration: int) -> bool:
        """Returns whether there are rows of an iteration."""
        return any(int(row["iteration"]) == iteration for row in self._read())

    def _grow(self, row: Mapping[str, Any]) -> bool:
        new = [name for name in row if name not in self._columns]
        self._columns += new
        return bool(new)

    def _read(self) -> list[dict[str, Any]]:
        with self._path.open(newline="") as file:
            return list(csv.DictReader(file))

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        with whole(self._path) as work, work.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._columns, restval="")
            writer.writeheader()
            writer.writerows(map(_plain, rows))


class TensorBoardEvents:
    """Writes the TensorBoard events. The horizontal axis is steps."""

    def __init__(self, folder: Path, steps: int) -> None:
        """Removes events of an earlier part of the training that lie after `steps`."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=steps)

    def write(self, prefix: str, row: Mapping[str, Any], steps: int) -> None:
        for name, value in row.items():
            if isinstance(value, float) and math.isfinite(value):
                self._writer.add_scalar(f"{prefix}/{name}", value, steps)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def row_of(result: Mapping[str, Any], iteration: int, steps_per_s: float, eta_s: float, agents: int = 1) -> Row:
    """Returns the row of progress.csv for RLlib's result: COLUMNS, then mean, max and p99 of every total over the iteration's
    episodes. RLlib sums the returns of several agents; here they are averaged."""
    sampled = result["env_runners"]
    row: Row = {
        "iteration": iteration,
        "steps": steps_of(result),
        "return_mean": float(sampled.get("episode_return_mean", math.nan)) / agents,
        "queue_mean": mean_max_p99(sampled.get(TOTALS, {}).get(QUEUE, ()))[0],
        "steps_per_s": steps_per_s,
        "eta_s": eta_s,
    }
    for name, values in sorted(sampled.get(TOTALS, {}).items()):
        row[name], row[f"{name}_max"], row[f"{name}_p99"] = mean_max_p99(values)
    for name, value in sorted(_learned(result).items()):
        row[f"learner_{name}"] = value
    return row


def steps_of(result: Mapping[str, Any]) -> int:
    """Returns the number of steps sampled so far."""
    return int(result.get("env_runners", {}).get("num_env_steps_sampled_lifetime", 0))


def _learned(result: Mapping[str, Any]) -> dict[str, float]:
    """Returns losses and similar values of the only module, or of each module with its name."""
    modules = {name: losses for name, losses in result.get("learners", {}).items() if name != ALL_MODULES}
    numbers = {
        name if len(modules) == 1 else f"{module}_{name}": value
        for module, losses in modules.items()
        for name, value in losses.items()
        if name.endswith(("loss", "entropy", "kl_loss", "qf_mean"))
    }
    return {name: float(value) for name, value in numbers.items() if isinstance(value, int | float) or hasattr(value, "item")}


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the row with empty strings for unknown values."""
    return {name: "" if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
