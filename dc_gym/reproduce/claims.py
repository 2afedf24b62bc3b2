# SPDX-License-Identifier: Apache-2.0
"""A paper's claims, and the criteria by which they count as reproduced.

A comparison is of means over seeds, paired by seed. It holds if the 95 % interval of the difference excludes 0 on the claimed
side. A claim about a learning contestant that fails after fewer steps than the paper trained is "not shown at this length".

Claims are judged at the figure's own length or more. Shorter runs are "too short to judge", whatever their intervals say: they
show how flows begin, which an interval cannot correct. With fewer seeds a claim is judged only if the intervals are conclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from dc_gym.base.readable import number, sentence, with_interval
from dc_gym.base.stats import Estimate, estimate, paired
from dc_gym.reproduce.evidence import Evidence, Quantity
from dc_gym.reproduce.setup import label_of

SMALLEST = 4
"""The most decimal places that a page shows."""


class ClaimState(StrEnum):
    REPRODUCED = "reproduced"
    CONTRADICTED = "not reproduced"
    OPEN = "not shown at this length"
    TOO_SHORT = "too short to judge"
    NOT_RUN = "did not run"


NOT_REPRODUCED = (ClaimState.CONTRADICTED, ClaimState.OPEN)
"""The verdicts on claims that were judged and do not hold."""


@dataclass(frozen=True, slots=True)
class CriterionOutcome:
    """The outcome of a criterion. `holds` is None if nothing can be said: something did not run, or had too few runs."""

    holds: bool | None
    measured: str
    sure: bool = False
    """True if more seeds would not change the verdict: an interval excludes 0, or a single seed decides."""
    ran: bool = True


@dataclass(frozen=True, slots=True)
class Criterion:
    words: str
    about: tuple[str, ...]
    """Contestants that must have run."""
    judge: Callable[[Evidence], CriterionOutcome]


@dataclass(frozen=True, slots=True)
class Explanation:
    """An experiment that shows why a claim has its verdict. A cause that nothing was tried for belongs into `Claim.why`."""

    hypothesis: str
    """The supposed cause, written down before the experiment."""
    experiment: str
    """The command, figure or rows that show it."""
    page: str
    """The page that has the experiment, with its anchor, such as docs/reproduce-acc.md#figure-8."""
    showed: str
    """The result of the experiment, with its numbers."""
    of_success: bool = False
    """True if it shows why the claim holds; False if it shows why the claim does not."""


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    source: str
    """Where the paper makes the claim."""
    criteria: tuple[Criterion, ...]
    """The criteria, which must all hold."""
    why: str = ""
    """Known facts about the cause; shown where the claim is not reproduced."""
    variant: str = ""
    """A set-up of ours on which the claim is judged once more, such as "shared buffer"; such claims are counted apart."""
    ours: bool = False
    """True for a claim of ours, which the paper does not make; such claims are counted apart."""
    explanation: Explanation | None = None
    """The experiment that shows why the claim holds, or why it does not."""

    @property
    def title(self) -> str:
        return f"{sentence(self.variant)}: {self.text}" if self.variant else self.text


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    claim: Claim
    state: ClaimState
    measured: tuple[str, ...]
    """One text per criterion."""
    steps: int | None
    """The fewest steps that a learning contestant has trained; None if no contestant learns."""

    @property
    def why(self) -> str:
        return self.claim.why if self.state in NOT_REPRODUCED else ""

    @property
    def explanation(self) -> Explanation | None:
        """Returns the experiment that shows why the verdict is as it is; None if the cause is open."""
        found = self.claim.explanation
        states = (ClaimState.REPRODUCED,) if found and found.of_success else NOT_REPRODUCED
        return found if self.state in states else None


def judge(claim: Claim, evidence: Evidence) -> ClaimVerdict:
    outcomes = [_outcome(each, evidence) for each in claim.criteria]
    about = [name for each in claim.criteria for name in each.about]
    trained = [steps for name in about if (steps := evidence.steps(name)) is not None]
    steps = min(trained, default=None)
    return ClaimVerdict(claim, _state(outcomes, steps, evidence), tuple(each.measured for each in outcomes), steps)


def _state(outcomes: Sequence[CriterionOutcome], steps: int | None, evidence: Evidence) -> ClaimState:
    short, failed = evidence.shortfall, [each for each in outcomes if each.holds is False]
    holds = all(each.holds for each in outcomes)
    if not all(each.ran for each in outcomes):
        return ClaimState.NOT_RUN
    if short.runs or (steps is not None and short.trainings):
        return ClaimState.TOO_SHORT
    if short.seeds and not (all(each.sure for each in outcomes) if holds else any(each.sure for each in failed)):
        return ClaimState.TOO_SHORT
    if holds:
        return ClaimState.REPRODUCED
    if steps is not None and steps < evidence.paper_steps:
        return ClaimState.OPEN
    return ClaimState.CONTRADICTED if failed else ClaimState.TOO_SHORT


def _outcome(criterion: Criterion, evidence: Evidence) -> CriterionOutcome:
    absent = [label_of(name) for name in dict.fromkeys(criterion.about) if name not in evidence.contenders]
    return CriterionOutcome(None, f"{', '.join(absent)} did not run", ran=False) if absent else criterion.judge(evidence)


def below(first: str, second: str, column: Quantity, factor: float = 1.0) -> Criterion:
    """Returns a criterion: the quantity of `first` is below `factor` times that of `second`."""
    return _compared(f"{column.title} of {label_of(first)} below {_that(second, factor)}", first, second, column, factor, sign=1)


def above(first: str, second: str, column: Quantity, factor: float = 1.0) -> Criterion:
    return _compared(f"{column.title} of {label_of(first)} above {_that(second, factor)}", first, second, column, factor, sign=-1)


def alike(first: str, second: str, column: Quantity, within: float) -> tuple[Criterion, Criterion]:
    """Returns the criteria that the quantity of `first` is that of `second`, within a share of it."""
    return above(first, second, column, 1 - within), below(first, second, column, 1 + within)


def _that(name: str, factor: float) -> str:
    return f"{factor:g} x that of {label_of(name)}" if factor != 1 else f"that of {label_of(name)}"


def _compared(words: str, first: str, second: str, column: Quantity, factor: float, sign: int) -> Criterion:
    def judge(evidence: Evidence) -> CriterionOutcome:
        a, b = evidence.values(first, column.name), evidence.values(second, column.name)
        difference = paired(dict(a), {seed: factor * value for seed, value in b.items()})  # factor x b - a
        told = [(name, estimate(list(each.values()))) for name, each in ((first, a), (second, b))]
        said = ", ".join(f"{label_of(name)} {text(value, column)}" for name, value in told)
        if difference is None or difference.half is None:
            return CriterionOutcome(None, f"{said}; one seed has no interval")
        differs = difference.differs_from_0
        return CriterionOutcome(bool(differs and sign * difference.mean > 0), said, sure=differs)

    return Criterion(words, (first, second), judge)


def less_than(name: str, column: Quantity, bound: float) -> Criterion:
    """Returns a criterion: every seed's value is below a bound."""

    def judge(evidence: Evidence) -> CriterionOutcome:
        values = list(evidence.values(name, column.name).values())
        said = f"{label_of(name)} {text(estimate(values), column)}"
        return _bounded(max(values) < bound if values and np.isfinite(values).all() else None, said)

    return Criterion(f"{column.title} of {label_of(name)} below {bound * column.factor:g} for every seed", (name,), judge)


def more_than(name: str, column: Quantity, bound: float) -> Criterion:
    def judge(evidence: Evidence) -> CriterionOutcome:
        values = list(evidence.values(name, column.name).values())
        said = f"{label_of(name)} {text(estimate(values), column)}"
        return _bounded(min(values) > bound if values and np.isfinite(values).all() else None, said)

    return Criterion(f"{column.title} of {label_of(name)} above {bound * column.factor:g} for every seed", (name,), judge)


def _bounded(holds: bool | None, said: str) -> CriterionOutcome:
    """Returns the outcome of a bound for every seed. One seed that breaks it decides."""
    return CriterionOutcome(holds, said, sure=holds is False)


def learned(name: str, words: str, column: Quantity, holds: Callable[[np.ndarray, np.ndarray], bool]) -> Criterion:
    """Returns a criterion: `holds(steps, values)` is true for the training curve of every seed."""

    def judge(evidence: Evidence) -> CriterionOutcome:
        curves = [(track.x, track.values[column.name]) for track in evidence.contenders[name].learning.values()]
        known = [(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in curves]
        if not known or any(len(x) < 2 for x, _ in known):
            return CriterionOutcome(None, f"{name}: too few episodes for a curve")
        ends = ", ".join(f"{number(y[0] * column.factor)} to {number(y[-1] * column.factor)}" for _, y in known)
        return CriterionOutcome(all(holds(x, y) for x, y in known), f"{name}: {ends} ({column.title}, first and last, by seed)")

    return Criterion(words, (name,), judge)


def text(value: Estimate | None, column: Quantity) -> str:
    """Formats the mean with the digits that its interval supports, at most four decimal places: 0.123 ± 0.004."""
    if value is None:
        return "-"
    if value.few:
        return ", ".join(plain(each, column) for each in value.values)
    half = None if value.half is None else round(value.half * column.factor, SMALLEST)
    if not half:
        return plain(value.mean, column) + ("" if half is None else " \u00b1 0")
    return with_interval(round(value.mean * column.factor, SMALLEST), half, plus_minus=" \u00b1 ", places=SMALLEST)


def plain(value: float, column: Quantity) -> str:
    return _plain(value * column.factor, column.digits)


def _plain(value: float, digits: int) -> str:
    """Formats a number without an exponent, rounded to four decimal places."""
    found = round(value, SMALLEST) + 0.0  # turns -0 into 0
    return np.format_float_positional(found, precision=digits, fractional=False, trim="-")
