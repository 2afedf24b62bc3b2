# SPDX-License-Identifier: Apache-2.0
"""The learning curve that the folder of `dcgym train` or of a method's training holds, read back.

    curve = read("results/trained")
    curve.axis, curve.x           "update", [1, 2, 3, ...]
    curve.columns["mean_reward"]  a value at each x

A training that is under way or was interrupted can be read as well: a last line that is not complete is left out.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.base import bounded, methods
from dc_gym.base.errors import ResultError, UsageError
from dc_gym.base.files import PARTIAL, machine_errors
from dc_gym.base.methods import MethodCurve

__all__ = ["Evaluation", "LearningCurve", "is_training", "read"]

Floats = npt.NDArray[np.float64]
PROGRESS, EVALUATION, CURVE = "progress.csv", "evaluation.csv", "curve.csv"
"""The tables of `dcgym train` (two) and of a method's training (one)."""
STEPS = "steps"
"""The column of PROGRESS that counts a training's progress."""
DECISIONS = "decisions"
"""A row of `curve.csv` without decisions has no reward: its zeros stand for nothing."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The episodes of frozen policies on one spec."""

    spec: str
    x: Floats
    """[episodes]: the training's steps at which the policy was frozen."""
    returns: Floats
    """[episodes]: the episode's return."""

    def means(self) -> tuple[Floats, Floats]:
        """Returns the steps at which policies were frozen, and the mean return at each of them."""
        places = np.unique(self.x)
        return places, np.array([self.returns[self.x == step].mean() for step in places])


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """The rows of a training. All columns have the length of `x`."""

    path: Path
    command: str
    """The command that trained."""
    axis: str
    """The column of `x`: steps, update or episode."""
    x: Floats
    columns: Mapping[str, Floats]
    """The numbers of the table; NaN where a row has none."""
    evaluations: Sequence[Evaluation] = field(default=())
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of columns that mean something else than in other trainings."""

    def rows(self) -> list[dict[str, float]]:
        """Returns a dict for each row, with the numbers that it has, as trackers of experiments take them."""
        named = {self.axis: self.x, **self.columns}
        every = ({name: float(values[row]) for name, values in named.items()} for row in range(len(self.x)))
        return [{name: value for name, value in numbers.items() if math.isfinite(value)} for numbers in every]


def is_training(folder: Path) -> bool:
    """Returns whether a folder belongs to a training that has reported something."""
    return any((path / name).is_file() for path in _places(folder) for name in (PROGRESS, CURVE))


def read(folder: str | Path) -> LearningCurve:
    """Returns the learning curve in a training's folder.

    Raises UsageError if there is no training, ResultError if its table was changed or has no row yet.
    """
    folder = Path(folder)
    for path in _places(folder):
        for command, name, schema in _kinds():
            if (path / name).is_file() and (*schema.columns,) == (*_header(path / name)[: len(schema.columns)],):
                evaluations = _evaluations(path / EVALUATION) if name == PROGRESS else ()
                return _curve(folder, path / name, command, schema, evaluations)
    raise UsageError(f"{folder}: no training; give the --out of dcgym train, or of the training of a method")


def _kinds() -> Iterator[tuple[str, str, MethodCurve]]:
    """Yields the commands that train, and for each the name of its table and the columns that identify it."""
    yield "dcgym train", PROGRESS, MethodCurve(("iteration", STEPS))
    for name, method in methods.by_name().items():
        if method.curve is not None:
            yield f"dcgym method {name} train", CURVE, method.curve


def _curve(folder: Path, table: Path, command: str, schema: MethodCurve, evaluations: Sequence[Evaluation]) -> LearningCurve:
    rows = _rows(table)
    if not rows:
        raise ResultError(f"{table}: it has no row yet; wait for the training's first report")
    axis = STEPS if table.name == PROGRESS else schema.columns[0]
    numbers = {name: np.array([_number(row[name]) for row in rows]) for name in _header(table)}
    if not np.isfinite(numbers[axis]).all():
        raise ResultError(f"{table}: {axis} is not a number in every row; the file was changed")
    x = numbers.pop(axis)
    empty = numbers[DECISIONS] == 0 if DECISIONS in numbers else np.zeros(len(rows), bool)
    columns = {name: np.where(empty, np.nan, values) for name, values in numbers.items() if np.isfinite(values).any()}
    return LearningCurve(folder, command, axis, x, columns, tuple(evaluations), schema.titles)


def _places(folder: Path) -> tuple[Path, Path]:
    """Returns where the tables may lie: in the folder, or in the one that a command writes before it gets its name."""
    return folder, folder.with_name(f"{folder.name}{PARTIAL}") if folder.name else folder


def _evaluations(table: Path) -> list[Evaluation]:
    """Returns the evaluations by spec, in the order of the table; nothing without one."""
    if not table.is_file() or not {"spec", "steps", "return"} <= set(_header(table)):
        return []
    points: dict[str, list[tuple[float, float]]] = {}
    for row in _rows(table):
        points.setdefault(row["spec"], []).append((_number(row["steps"]), _number(row["return"])))
    pairs = {spec: np.array([pair for pair in returns if all(map(math.isfinite, pair))]) for spec, returns in points.items()}
    return [Evaluation(spec, returns[:, 0], returns[:, 1]) for spec, returns in pairs.items() if returns.size]


def _header(table: Path) -> list[str]:
    return next(csv.reader(_text(table).splitlines(keepends=True)), [])


def _text(table: Path) -> str:
    with machine_errors("read", table):
        return bounded.read_text(table, bounded.TABLE_BYTES, errors="replace")


def _rows(table: Path) -> list[dict[str, str]]:
    """Returns the complete rows of a table."""
    text = _text(table)
    lines = text[: text.rfind("\n") + 1].splitlines()
    try:
        records = list(csv.DictReader(lines))
    except csv.Error as error:
        raise ResultError(f"{table}: not a table of comma-separated values ({error}); the file was changed") from None
    return [row for row in records if None not in row and None not in row.values()]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
