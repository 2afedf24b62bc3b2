# SPDX-License-Identifier: Apache-2.0
"""Claims, and the verdicts on them.

A claim is a statement of a source, with the criteria that decide it. A criterion compares means over seeds, paired by seed. Its
order is the claimed one if the 95 % interval of the difference excludes 0 on the claimed side. A difference below 3 % of the
larger mean is a tie. Where a criterion also claims a size, such as "below half of", the size is judged after the order.

Claims are judged at the study's own length or more. Shorter runs are "not tested", whatever their intervals say: they show how
flows begin, which an interval cannot correct. With fewer seeds a claim is judged only if the intervals are conclusive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

import numpy as np

from dc_gym.base.readable import number, sentence, with_interval
from dc_gym.base.stats import Estimate, estimate, paired
from dc_gym.study.evidence import Evidence, Measure

SMALLEST = 4
"""The most decimal places that a page shows."""
TIE = 0.03
"""A difference of means below that share of the larger one is a tie."""
SIZES: Mapping[str, Callable[[float, float], float]] = {
    "ratio": lambda first, second: first / second if second else math.inf,
    "change": lambda first, second: first / second - 1 if second else math.inf,
    "points": lambda first, second: first - second,
}
"""The sizes of a difference that a source prints: 2 (times), -0.166 (16.6 % less), or 18 (points)."""
Values = Mapping[int, float]
"""Values by seed."""


class Verdict(StrEnum):
    """The outcome of a claim: the first of these that one of its criteria has."""

    NOT_TESTED = "not tested"
    OPPOSITE = "opposite"
    NO_DIFFERENCE = "no difference found"
    OTHER_SIZE = "same order, other size"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one criterion."""

    verdict: Verdict
    measured: str
    sure: bool = False
    """True if more seeds would not change the verdict: an interval excludes 0, or a single seed decides."""


OURS = "ours"


@dataclass(frozen=True, slots=True)
class Criterion:
    words: str
    about: tuple[str, ...]
    """Variants that must have run."""
    judge: Callable[[Evidence], Outcome]
    measures: tuple[str, ...] = ()
    """Names of the measures that it reads."""


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    source: str
    """Where the source makes the claim; of a claim of ours: "ours", or "ours: " and its basis."""
    criteria: tuple[Criterion, ...]
    """The criteria, which must all hold."""
    setup: str = ""
    """A set-up of ours on which the claim is judged once more, such as "shared buffer"; such claims are not counted."""
    id: str = ""
    """Its place in a fixed list of headlines (headlines.py), such as "R2 (a)"; empty if it is in none."""

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError(f"claim {self.text!r}: no source; say where it is made")

    @property
    def title(self) -> str:
        return f"{sentence(self.setup)}: {self.text}" if self.setup else self.text

    @property
    def counted(self) -> bool:
        """True if the score counts it: it is the source's, on the source's set-up."""
        return not self.setup and not self.source.startswith(OURS)


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
    measured: tuple[str, ...]
    """One text per criterion."""
    why_not: str = ""
    """Why it was not tested."""
    decisive: str = ""
    """The text of the first criterion that has the verdict."""


def judge(claim: Claim, evidence: Evidence) -> Judged:
    absences = [(criterion, _absent(criterion.about, evidence)) for criterion in claim.criteria]
    outcomes = [Outcome(Verdict.NOT_TESTED, absent) if absent else criterion.judge(evidence) for criterion, absent in absences]
    verdict = min((outcome.verdict for outcome in outcomes), key=list(Verdict).index)
    about = [name for criterion in claim.criteria for name in criterion.about]
    why_not = _why_not(verdict, outcomes, about, evidence)
    decisive = next((outcome.measured for outcome in outcomes if outcome.verdict is verdict), "")
    measured = tuple(outcome.measured for outcome in outcomes)
    return Judged(claim, Verdict.NOT_TESTED if why_not else verdict, measured, why_not, decisive)


def _why_not(verdict: Verdict, outcomes: Sequence[Outcome], about: Sequence[str], evidence: Evidence) -> str:
    short = evidence.shortfall
    trained = [steps for name in about if (steps := evidence.steps(name)) is not None]
    if absent := _absent(about, evidence):
        return absent
    if short.runs:
        return short.runs
    if trained and short.trainings:
        return short.trainings
    conclusive = all(outcome.sure for outcome in outcomes if outcome.verdict is verdict)
    if verdict is Verdict.NOT_TESTED or (short.seeds and not conclusive):
        return short.seeds or "too few values"
    if verdict is not Verdict.SAME and trained and min(trained) < evidence.paper_steps:
        return f"{min(trained):,} steps of training; the source has {evidence.paper_steps:,}"
    return ""


def _absent(names: Sequence[str], evidence: Evidence) -> str:
    absent = [name for name in dict.fromkeys(names) if name not in evidence.variants]
    return f"{', '.join(absent)} did not run" if absent else ""


def below(first: str, second: str, measure: Measure, factor: float = 1.0) -> Criterion:
    """Returns the criterion that the measure of `first` is below `factor` times the measure of `second`."""
    return _compared(f"{measure.title} of {first} below {_that(second, factor)}", first, second, measure, factor, sign=1)


def above(first: str, second: str, measure: Measure, factor: float = 1.0) -> Criterion:
    """Returns the criterion that the measure of `first` is above `factor` times the measure of `second`."""
    return _compared(f"{measure.title} of {first} above {_that(second, factor)}", first, second, measure, factor, sign=-1)


def _that(name: str, factor: float) -> str:
    return f"{factor:g} x that of {name}" if factor != 1 else f"that of {name}"


def _compared(words: str, first: str, second: str, measure: Measure, factor: float, sign: int) -> Criterion:
    """Returns the criterion that `sign` times the difference of `factor` times the second value and the first is above 0."""
    has_order = sign * (1 - factor) >= 0  # below half of it is below it; below twice of it leaves the order open

    def judge(evidence: Evidence) -> Outcome:
        a, b, summary = _both(first, second, measure, evidence)
        size, order = (_difference(a, b, by) for by in (factor, 1.0))
        if size is None or order is None:
            return Outcome(Verdict.NOT_TESTED, f"{summary}; one seed has no interval")
        if factor != 1 and size.differs_from_0 and sign * size.mean > 0:
            return Outcome(Verdict.SAME, summary, sure=True)
        judged = order if has_order else size
        if not judged.differs_from_0 or (has_order and _tie(a, b)):
            return Outcome(Verdict.NO_DIFFERENCE, summary)
        held = Verdict.SAME if factor == 1 else Verdict.OTHER_SIZE
        return Outcome(held if sign * judged.mean > 0 else Verdict.OPPOSITE, summary, sure=size.differs_from_0)

    return Criterion(words, (first, second), judge, (measure.name,))


def _both(first: str, second: str, measure: Measure, evidence: Evidence) -> tuple[Values, Values, str]:
    """Returns the values of two variants by seed, and both in words; a side without a name is a bound."""
    a, b = evidence.values(first, measure.name), evidence.values(second, measure.name)
    return a, b, ", ".join(f"{name} {text(_mean(values), measure)}" for name, values in ((first, a), (second, b)) if name)


def _mean(values: Values) -> Estimate | None:
    return estimate(list(values.values()))


def _difference(first: Values, second: Values, factor: float) -> Estimate | None:
    """Returns the difference of `factor` times the second and the first, paired by seed; None if it has no interval."""
    difference = paired(dict(first), {seed: factor * value for seed, value in second.items()})
    return None if difference is None or difference.half is None else difference


def _tie(first: Values, second: Values) -> bool:
    a, b = _mean(first), _mean(second)
    return a is not None and b is not None and abs(a.mean - b.mean) <= TIE * max(abs(a.mean), abs(b.mean))


def equal(first: str, second: str, measure: Measure) -> Criterion:
    """Returns the criterion that the measures of both tie. A difference is the opposite only where the interval excludes 0."""

    def judge(evidence: Evidence) -> Outcome:
        a, b, summary = _both(first, second, measure, evidence)
        if (difference := _difference(a, b, 1.0)) is None:
            return Outcome(Verdict.NOT_TESTED, f"{summary}; one seed has no interval")
        unlike = Verdict.OPPOSITE if difference.differs_from_0 else Verdict.NO_DIFFERENCE
        return Outcome(Verdict.SAME if _tie(a, b) else unlike, summary, sure=difference.differs_from_0)

    return Criterion(f"{measure.title} of {first} equal to that of {second}", (first, second), judge, (measure.name,))


def or_tied(order: Criterion) -> Criterion:
    """Returns the criterion of an order of two variants, or a tie, which is enough."""

    def judge(evidence: Evidence) -> Outcome:
        outcome, (a, b) = order.judge(evidence), (evidence.values(name, order.measures[0]) for name in order.about)
        tied = outcome.verdict is not Verdict.NOT_TESTED and _tie(a, b)
        return replace(outcome, verdict=Verdict.SAME) if tied else outcome

    return replace(order, words=f"{order.words}, or a tie", judge=judge)


def sized(order: Criterion, kind: str, printed: float | Sequence[float], within: float) -> Criterion:
    """Returns the criterion of an order of two variants, and of the size that a source prints, or a range, within a factor."""
    ends = [printed, printed] if isinstance(printed, (int, float)) else printed
    (low, high), size_of = sorted((ends[0] / within, ends[1] * within)), SIZES[kind]

    def judge(evidence: Evidence) -> Outcome:
        outcome, means = order.judge(evidence), [_mean(evidence.values(name, order.measures[0])) for name in order.about]
        if outcome.verdict is not Verdict.SAME:
            return outcome
        size = size_of(*(one.mean for one in means if one))
        as_printed = Verdict.SAME if low <= size <= high else Verdict.OTHER_SIZE
        return replace(outcome, verdict=as_printed, measured=f"{outcome.measured} ({kind} {size:.3g}, printed {printed})")

    return replace(order, words=f"{order.words}, {kind} within {within:g} of {printed}", judge=judge)


def any_of(cases: Sequence[Sequence[Criterion]]) -> Criterion:
    """Returns the criterion that in one case at least all criteria hold."""

    def judge(evidence: Evidence) -> Outcome:
        worst = [min((one.judge(evidence) for one in case), key=_rank) for case in cases]
        return max(worst, key=_rank)

    every = [one for case in cases for one in case]
    about, measures = (tuple(chain(*names)) for names in zip(*((one.about, one.measures) for one in every), strict=True))
    return Criterion(" or ".join(one.words for one in every), about, judge, measures)


def _rank(outcome: Outcome) -> int:
    return list(Verdict).index(outcome.verdict)


def alike(first: str, second: str, measure: Measure, within: float) -> tuple[Criterion]:
    """Returns the criterion that the measure of `first` equals the measure of `second`, within a share of it."""

    def judge(evidence: Evidence) -> Outcome:
        a, b, summary = _both(first, second, measure, evidence)
        more, less = (_difference(a, b, 1 + by) for by in (within, -within))
        if more is None or less is None:
            return Outcome(Verdict.NOT_TESTED, f"{summary}; one seed has no interval")
        if more.differs_from_0 and more.mean > 0 and less.differs_from_0 and less.mean < 0:
            return Outcome(Verdict.SAME, summary, sure=True)
        if (more.differs_from_0 and more.mean < 0) or (less.differs_from_0 and less.mean > 0):
            return Outcome(Verdict.OPPOSITE, summary, sure=True)
        return Outcome(Verdict.NO_DIFFERENCE, f"{summary}; neither equal nor different by the interval")

    words = f"{measure.title} of {first} within {within:.0%} of that of {second}"
    return (Criterion(words, (first, second), judge, (measure.name,)),)


def less_than(name: str, measure: Measure, bound: float) -> Criterion:
    """Returns the criterion that every seed's value is below a bound."""
    return _of_every_seed(name, measure, bound, "below", lambda values: max(values) < bound)


def more_than(name: str, measure: Measure, bound: float) -> Criterion:
    """Returns the criterion that every seed's value is above a bound."""
    return _of_every_seed(name, measure, bound, "above", lambda values: min(values) > bound)


def _of_every_seed(name: str, measure: Measure, bound: float, side: str, holds: Callable[[Sequence[float]], bool]) -> Criterion:
    def judge(evidence: Evidence) -> Outcome:
        values = list(evidence.values(name, measure.name).values())
        return bounded(holds(values) if values else None, f"{name} {text(estimate(values), measure)}")

    words = f"{measure.title} of {name} {side} {bound * measure.factor:g} for every seed"
    return Criterion(words, (name,), judge, (measure.name,))


def between(name: str, measure: Measure, low: float, high: float) -> Criterion:
    """Returns the criterion that the mean over seeds is from `low` to `high`."""

    def judge(evidence: Evidence) -> Outcome:
        value = estimate(list(evidence.values(name, measure.name).values()))
        return bounded(None if value is None else low <= value.mean <= high, f"{name} {text(value, measure)}", sure=True)

    words = f"{measure.title} of {name} from {plain(low, measure)} to {plain(high, measure)}"
    return Criterion(words, (name,), judge, (measure.name,))


def bounded(holds: bool | None, measured: str, sure: bool | None = None) -> Outcome:
    """Returns the outcome of a statement that holds or not; None: it is undecided. One seed that breaks a bound decides."""
    if holds is None:
        return Outcome(Verdict.NOT_TESTED, measured)
    return Outcome(Verdict.SAME if holds else Verdict.OPPOSITE, measured, sure=not holds if sure is None else sure)


def learned(name: str, words: str, measure: Measure, holds: Callable[[np.ndarray, np.ndarray], bool]) -> Criterion:
    """Returns the criterion that `holds(steps, values)` is true for the training curve of every seed."""

    def judge(evidence: Evidence) -> Outcome:
        curves = [(track.x, track.values[measure.name]) for track in evidence.variants[name].learning.values()]
        known = [(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in curves]
        if not known or any(len(x) < 2 for x, _ in known):
            return Outcome(Verdict.NOT_TESTED, f"{name}: too few episodes for a curve")
        ends = ", ".join(f"{number(y[0] * measure.factor)} to {number(y[-1] * measure.factor)}" for _, y in known)
        summary = f"{name}: {ends} ({measure.title}, first and last, by seed)"
        return bounded(all(holds(x, y) for x, y in known), summary, sure=False)

    return Criterion(words, (name,), judge)


def text(value: Estimate | None, measure: Measure) -> str:
    """Formats the mean with the digits that its interval supports, at most four decimal places: 0.123 ± 0.004."""
    if value is None:
        return "-"
    if value.few:
        return ", ".join(plain(sample, measure) for sample in value.values)
    half = None if value.half is None else round(value.half * measure.factor, SMALLEST)
    if not half:
        return plain(value.mean, measure) + ("" if half is None else " \u00b1 0")
    return with_interval(round(value.mean * measure.factor, SMALLEST), half, plus_minus=" \u00b1 ", places=SMALLEST)


def plain(value: float, measure: Measure) -> str:
    """Formats a value without an exponent, rounded to four decimal places."""
    rounded = round(value * measure.factor, SMALLEST) + 0.0  # turns -0 into 0
    return np.format_float_positional(rounded, precision=measure.digits, fractional=False, trim="-")
