# SPDX-License-Identifier: Apache-2.0
"""A rubric: where the number that a question asks for comes from. It has no such number itself.

    sweep = "rtt.toml"               the lab's sweep, relative to the rubric
    x = "topology.links.0.delay"     the axes of the lab's picture, as those of `dcgym plot`; by: controller.name by default
    within = 0.05                    relative tolerance
    [questions]
    q1_far = { measure = "flow_goodput_bps.0", line = "reno", x = "10ms", unit = "Mbit/s" }

A question may have its own `within`, `points` (1), and `take`: the mean over the seeds (default), the least or the most.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dc_gym.base import bounded, readable
from dc_gym.base.errors import UsageError, with_remedy
from dc_gym.base.shape import Number, fault
from dc_gym.base.spelling import unknown
from dc_gym.results.figures import spec_keys
from dc_gym.results.figures.sweep_figure import BY_DEFAULT, Curve
from dc_gym.run.sweep import grid
from dc_gym.run.sweep.grid import Point

ANSWERS = "answers.toml"
SEEDS = 10**9
"""Seeds of students are below this, so that they are short to type."""
TAKE = {"mean": lambda point: point.mean, "least": lambda point: min(point.values), "most": lambda point: max(point.values)}
POSITIVE = Number(1e-9)
QUESTION = {
    **{"measure": str, "line": str, "x": (str, Number()), "unit?": str},
    **{"within?": POSITIVE, "points?": POSITIVE, "take?": str},
}
RUBRIC = {"sweep": str, "x": str, "by?": str, "within": POSITIVE, "questions": {str: QUESTION}}
NUMBER = re.compile(r"((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,40})(?:\.[0-9]{1,40})?(?:e-?[0-9]{1,2})?) ?([^0-9.,\s]*)")
"""A number, perhaps with thousands separators or an exponent, and its unit."""


@dataclass(frozen=True, slots=True)
class Question:
    """A number that a student reads off the lab's picture."""

    measure: str
    line: str
    x: float | str
    within: float
    unit: str = ""
    points: float = 1
    take: str = "mean"

    @property
    def factor(self) -> float:
        """Its unit in base units of the measure."""
        return self._units[self.unit]

    @property
    def _units(self) -> dict[str, float]:
        return {unit: factor for factor, unit in readable.FAMILIES[readable.family_of(self.measure)]}

    def amount(self, answer: str) -> float:
        """Returns an answer, such as "19 Mbit/s", in base units of the measure. Raises ValueError if it is none."""
        match = NUMBER.fullmatch(answer.replace("\u00b5", "u"))
        if match is None or match[2] not in self._units:
            raise ValueError(f"write it like {f'1.5 {self.unit}'.strip()!r}")
        return float(match[1].replace(",", "")) * self._units[match[2]]

    def value(self, curves: Sequence[Curve], runs: int) -> float | None:
        """Returns the number on the curves of its measure, or None if not so many runs are behind it."""
        place = spec_keys.place_of(self.x)
        points = [point for curve in curves if curve.name == self.line for point in curve.points if point.x == place]
        return TAKE[self.take](points[0]) if points and points[0].results == runs else None


@dataclass(frozen=True)
class Rubric:
    """The questions of a lab."""

    path: Path
    sweep: Path
    x: str
    by: str
    questions: Mapping[str, Question]

    @property
    def lab(self) -> str:
        return self.path.stem

    @property
    def measures(self) -> list[str]:
        return list(dict.fromkeys(question.measure for question in self.questions.values()))

    @cached_property
    def seeds_each(self) -> int:
        """How many seeds the lab's sweep has."""
        return len({point.values.get("seed") for point in grid.load(self.sweep).points})

    def seeds(self, student: str) -> range:
        """Returns the seeds of a student: a hash of lab and id gives the first. Two students share all or none."""
        drawn = int.from_bytes(hashlib.sha256(f"{self.lab}/{folded(student)}".encode()).digest()[:8], "big")
        first = 1 + drawn % (SEEDS // self.seeds_each) * self.seeds_each
        return range(first, first + self.seeds_each)

    def points_of(self, student: str) -> tuple[Point, ...]:
        """Returns the runs that a student has to make."""
        return grid.load(self.sweep, axes={"seed": list(self.seeds(student))}).points

    def task(self, student: str) -> Iterator[str]:
        """Yields the lines of the file that a student fills in and hands in. Its comments have the commands."""
        seeds, out = self.seeds(student), f"results/{self.lab}-{folded(student)}"
        seeds_text = f"{seeds[0]}..{seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
        by = [] if self.by == BY_DEFAULT else ["--by", self.by]
        metrics = [word for measure in self.measures for word in ("--y", measure)]
        yield f"# Lab {self.lab}, student {student.strip()}. Make your runs, and draw them:"
        yield f"#   {shlex.join(['dcgym', 'sweep', os.path.relpath(self.sweep), '--seeds', seeds_text, '--out', out])}"
        yield f"#   {shlex.join(['dcgym', 'plot', out, '--x', self.x, *metrics, *by])}"
        yield f"# Write your answers with their units, save this as {out}/{ANSWERS}, and hand in the folder."
        for name, question in self.questions.items():
            take = "" if question.take == "mean" else f", the {question.take} of all seeds"
            place = f"{question.measure}, {self.by} {question.line}, {self.x} {question.x}{take}"
            yield f'{name} = ""  # {place}{f", in {question.unit}" if question.unit else ""}'


def folded(student: str) -> str:
    """Returns an id without what people write differently. Raises UsageError if it is no word of a path."""
    if not re.fullmatch(r"[\w.@+-]{1,64}", student.strip()) or not student.strip(". "):
        raise UsageError(f"--student {student!r}: not an id; give letters, digits and . _ - @ +, at most 64")
    return student.strip().casefold()


def read(path: Path) -> Rubric:
    """Reads a rubric. Raises UsageError, in one line, if it is none."""
    try:
        data = tomllib.loads(bounded.read_text(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read the rubric: {with_remedy(error, 'give a file of docs/labs/rubrics')}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not a rubric: not valid TOML: {error}") from None
    if problem := fault(data, RUBRIC) or _odd(data):
        raise UsageError(f"{path}: not a rubric: {problem}")
    questions = {name: Question(**{"within": data["within"], **table}) for name, table in data["questions"].items()}
    return Rubric(path, path.parent / data["sweep"], data["x"], data.get("by", BY_DEFAULT), questions)


def _odd(data: Mapping[str, Any]) -> str:
    """Returns what is wrong with keys and words of a rubric; '' if nothing is."""
    if odd := _unknown_key(data, RUBRIC):
        return odd
    for name, table in data["questions"].items():
        if odd := _unknown_key(table, QUESTION):
            return f"{name}: {odd}"
        units = [unit for _, unit in readable.FAMILIES[readable.family_of(table["measure"])]]
        for key, word, words in (("unit", table.get("unit", ""), units), ("take", table.get("take", "mean"), TAKE)):
            if word not in words:
                return f"{name}: {unknown(key, word, words)}"
    return ""


def _unknown_key(table: Mapping[str, Any], shape: Mapping[str, Any]) -> str:
    known = [key.removesuffix("?") for key in shape]
    return next((unknown("key", key, known) for key in table if key not in known), "")
