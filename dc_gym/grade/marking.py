# SPDX-License-Identifier: Apache-2.0
"""Points: each answer is compared with the value of the student's own runs. A run that does not pass gives no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dc_gym.base import readable
from dc_gym.base.spelling import hint
from dc_gym.grade.proof import Proof
from dc_gym.grade.rubric import ANSWERS, Question, Rubric
from dc_gym.grade.submission import Submission
from dc_gym.results.figures import curves
from dc_gym.results.figures.sweep_figure import Curve

MOST_NOTES = 5
"""The most answers to no question that are named."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What an answer gets."""

    question: str
    answer: str
    value: str
    """What the student's runs give, in the unit of the rubric."""
    points: float
    most: float
    why: str = ""
    """Why it gets no points."""

    @property
    def got(self) -> str:
        return f"{self.points:g} of {self.most:g}"


@dataclass(frozen=True, slots=True)
class Report:
    """A graded submission."""

    lab: str
    student: str
    seeds: Sequence[int]
    marks: Sequence[Mark]
    findings: Mapping[str, str]
    """What is wrong with runs, by name."""
    notes: Sequence[str]
    """What a teacher should know, and no fault."""
    proof: str
    proven: bool

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks)

    @property
    def most(self) -> float:
        return sum(mark.most for mark in self.marks)


def report(rubric: Rubric, student: str, submission: Submission, proof: Proof) -> Report:
    """Returns the report. Once a run turned out to be another, only those count that were made again and are equal."""
    counted = {name: run for name, run in submission.runs.items() if not proof.other or name in proof.equal}
    findings = {**submission.findings, **proof.other}
    if proof.other:
        unproven = [name for name in submission.runs if name not in counted and name not in proof.other]
        findings |= dict.fromkeys(unproven, "was not made again: does not count")
    odd = [name for name in submission.answers if name not in rubric.questions]
    notes = [f"{ANSWERS}: {name!r}: no such question; {hint(name, rubric.questions)}" for name in odd[:MOST_NOTES]]
    notes += [f"{name}: {text}" for name, text in proof.open.items()]
    drawn = {measure: curves.curves(counted.values(), rubric.x, measure, rubric.by) for measure in rubric.measures}
    marks = marks_of(rubric, submission.answers, values(rubric, drawn))
    return Report(rubric.lab, student, rubric.seeds(student), marks, findings, notes, proof.text, not proof.open)


def values(rubric: Rubric, drawn: Mapping[str, Sequence[Curve]]) -> dict[str, float | None]:
    """Returns the value of each question on the curves of each measure; None where one of the runs behind it is not there."""
    return {name: question.value(drawn[question.measure], rubric.seeds_each) for name, question in rubric.questions.items()}


def marks_of(rubric: Rubric, answers: Mapping[str, str], measured: Mapping[str, float | None]) -> list[Mark]:
    """Returns a mark for each question, from what is answered and what was measured."""
    return [_mark(name, question, answers.get(name, ""), measured[name]) for name, question in rubric.questions.items()]


def _mark(name: str, question: Question, answer: str, value: float | None) -> Mark:
    why = _fault(question, answer, value)
    measured = readable.Scale(question.factor, question.unit).text(value)
    return Mark(name, answer, measured, 0 if why else question.points, question.points, why)


def _fault(question: Question, answer: str, value: float | None) -> str:
    if not answer:
        return "no answer"
    if value is None:
        return "a run behind it is missing, or does not count"
    try:
        amount = question.amount(answer)
    except ValueError as error:
        return str(error)
    return "" if abs(amount - value) <= question.within * abs(value) else f"not within {question.within:.0%}"
