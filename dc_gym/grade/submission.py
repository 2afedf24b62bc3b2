# SPDX-License-Identifier: Apache-2.0
"""What a student hands in: the folder of a sweep with answers.toml. Reading it runs no code and follows no link."""

from __future__ import annotations

import math
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dc_gym import __version__
from dc_gym.base import bounded
from dc_gym.base.errors import ResultError, TestbedError, UsageError, in_one_line, with_remedy
from dc_gym.grade.rubric import ANSWERS, Rubric
from dc_gym.results import results
from dc_gym.results.figures import spec_keys
from dc_gym.results.results import Result
from dc_gym.results.stored import StoredTables
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.result import analysis
from dc_gym.run.sweep import state
from dc_gym.run.sweep.grid import Point

ANSWERS_BYTES = 100_000
MOST_LISTED = 4
LONGEST, LARGEST = 40, 1e30
"""Letters of an answer, and an answer that is a plain number."""
STRANGE = (TestbedError, OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What reading a result raises if it was changed in a way that nobody thought of."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is there of a student's runs, and the answers."""

    answers: Mapping[str, str]
    runs: Mapping[str, Result]
    """Runs that are what they should be, as far as reading tells, by name."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with other runs, by name."""


def read(folder: Path, rubric: Rubric, points: Sequence[Point]) -> Submission:
    """Reads a submission. Raises UsageError if it cannot be graded: no folder, no answers, none of the runs."""
    if not folder.is_dir():
        raise UsageError(f"--submission {folder}: no such folder; give the --out of the student's sweep, with {ANSWERS} in it")
    answers = _answers(folder / ANSWERS)
    if not any((folder / point.name).is_dir() for point in points):
        others = sorted(path.name for path in folder.iterdir() if path.is_dir())
        has = f"; it has {others[0]}: is it another student's?" if others else ""
        raise UsageError(f"{folder}: it has none of the {len(points)} runs of this student, such as {points[0].name}{has}")
    runs, findings = {}, {}
    for point in points:
        try:
            runs[point.name] = _run(folder / point.name, point, rubric.measures)
        except STRANGE as error:
            findings[point.name] = in_one_line(error).replace(f"{folder}/", "").removeprefix(f"{point.name}: ")
    return Submission(answers, runs, findings)


def _answers(path: Path) -> dict[str, str]:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UsageError(f"{path}: it is no plain file; get the submission again")
        answers = tomllib.loads(bounded.read_text(path, ANSWERS_BYTES))
        return {_short(name): _text(answer) for name, answer in answers.items()}
    except (OSError, UnicodeDecodeError) as error:
        remedy = "without --submission, the command prints one to fill in"
        raise UsageError(f"{path}: cannot read the answers: {with_remedy(error, remedy)}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}; an answer looks like NAME = '19 Mbit/s'") from None


def _text(answer: object) -> str:
    """Returns the text of a text or a number; '?' for anything else."""
    is_number = isinstance(answer, int | float) and not isinstance(answer, bool) and abs(answer) < LARGEST
    return _short(answer) if isinstance(answer, str) else str(answer) if is_number else "?"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def _run(folder: Path, point: Point, measures: Sequence[str]) -> Result:
    """Returns a run of the lab. Raises an error if it is not what it should be."""
    if not os.path.lexists(folder):
        raise ResultError("is missing")
    _require_plain(folder)
    result = results.load_result(folder, check_digest=True)
    if changes := list(_changes(result, point)):
        more = f" and {len(changes) - MOST_LISTED} more" if len(changes) > MOST_LISTED else ""
        release = result.manifest.get("dcgym", "another version")
        more += "" if release == __version__ else f"; dcgym {release} made it, and this is {__version__}"
        raise ResultError(f"another spec: {', '.join(changes[:MOST_LISTED])}{more}")
    if not state.same_files(folder, point.spec):
        raise ResultError("another content of the files that its spec names")
    if not result.fit or result.manifest.get("disturb"):
        raise ResultError("; ".join(result.faults) or "disturbed on purpose")
    _require_measures(result, point, measures)
    return result


def _require_plain(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ResultError(f"{path.relative_to(folder.parent)} is {'a link' if stat.S_ISLNK(mode) else 'no plain file'}")


def _changes(result: Result, point: Point) -> Iterator[str]:
    """Yields a line for each key in which a run has another spec than it should."""
    recorded, expected = (dict(spec_keys.leaves_of(spec)) for spec in state.both_specs(result, point.spec))
    for key in dict.fromkeys((*expected, *recorded)):
        one, other = recorded.get(key, spec_keys.ABSENT), expected.get(key, spec_keys.ABSENT)
        if one != other:
            yield f"{_short(key)} {_short(one)} instead of {_short(other)}"


def _require_measures(result: Result, point: Point, measures: Sequence[str]) -> None:
    """Raises ResultError if summary.json says something else than the tables, which the digest covers."""
    tables = StoredTables(result.path, result.ports, result.names.controller)
    experiment = Experiment.of(point.spec)
    computed = analysis.analyse(experiment.spec, analysis.recorded(experiment.schedule, tables), tables).summary
    for measure in measures:
        stated, own = (spec_keys.at(summary, measure) for summary in (result.summary, computed))
        if stated != own and not (None not in (stated, own) and math.isclose(stated, own, rel_tol=1e-9)):
            raise ResultError(f"summary.json was changed: {measure} {stated}, its tables give {own}")
