# SPDX-License-Identifier: Apache-2.0
"""Ranks within a track, per measure. There is no single score: each measure has ranks and ratios of its own.

Rows are compared where track, suite and draw of the cases are equal: a *league*. In a case an entrant's rank is 1 plus the number
of those that are better. Its rank in a league is the mean over cases. Its ratio is the geometric mean of its value over the
reference's, where both are above 0. The *Pareto front* of a case are those that nobody beats in its first two measures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dc_gym.arena import suite
from dc_gym.arena.measures import MEASURES
from dc_gym.arena.row import Row
from dc_gym.arena.suite import Case, Track

Value = float | None
FALL = 1.5
"""A ratio that gets worse by this factor from public to held-out cases is a fall."""


@dataclass(frozen=True)
class League:
    """Rows that can be compared."""

    track: Track
    suite: str
    held_out: str
    rows: tuple[Row, ...]

    @cached_property
    def cases(self) -> list[Case]:
        return [case for case in self.track.cases.values() if any(case.name in row.cases for row in self.rows)]

    @cached_property
    def measures(self) -> list[str]:
        """The measures that a case has, in the order of MEASURES."""
        named = {name for case in self.cases for name in case.measures}
        return [name for name in MEASURES if name in named]

    def values(self, case: str, measure: str) -> dict[str, Value]:
        """Returns the values of the entrants that played a case."""
        return {row.label: row.cases[case].measures.get(measure) for row in self.rows if case in row.cases}

    def ranks(self, case: str, measure: str) -> dict[str, int]:
        values = self.values(case, measure)
        return {name: 1 + sum(_better(other, value, measure) for other in values.values()) for name, value in values.items()}

    def front(self, case: Case) -> set[str]:
        """Returns the entrants on a case's Pareto front."""
        first, second = (self.values(case.name, measure) for measure in case.measures[:2])
        points = {name: (first[name], second[name]) for name in first}
        return {name for name, point in points.items() if not any(_dominates(other, point, case) for other in points.values())}

    def rank(self, entrant: str, measure: str) -> Value:
        """Returns the mean rank of an entrant over the cases that have a measure."""
        ranks = [self.ranks(case.name, measure) for case in self.cases if measure in case.measures]
        known = [in_case[entrant] for in_case in ranks if entrant in in_case]
        return sum(known) / len(known) if known else None

    def ratio(self, entrant: str, measure: str) -> Value:
        """Returns the geometric mean of an entrant's value over that of the reference."""
        logs = []
        for case in self.cases:
            values = self.values(case.name, measure) if measure in case.measures else {}
            own, reference = values.get(entrant), self._reference(values, measure)
            if own and reference:
                logs.append(math.log(own / reference))
        return math.exp(sum(logs) / len(logs)) if logs else None

    def _reference(self, values: Mapping[str, Value], measure: str) -> Value:
        """Returns the best value of the track's reference entrants."""
        known = [value for name, value in values.items() if name in self.track.reference and value is not None]
        return (max if MEASURES[measure].more_is_better else min)(known, default=None)


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of an entrant on held-out cases: its ratios of a measure to the reference."""

    entrant: str
    measure: str
    public: float
    held_out: float

    @property
    def falls(self) -> bool:
        more_is_better = MEASURES[self.measure].more_is_better
        factor = self.public / self.held_out if more_is_better else self.held_out / self.public
        return factor >= FALL


def leagues(rows: Iterable[Row]) -> list[League]:
    """Returns the leagues of rows, in the order of the tracks, public cases first. A later row replaces an earlier."""
    groups: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault((row.track, row.suite, row.held_out), {})[row.label] = row
    order = sorted(groups, key=lambda key: (suite.TRACKS.index(key[0]), key[1] != suite.track(key[0]).suite, key[2]))
    return [League(suite.track(key[0]), key[1], key[2], tuple(groups[key].values())) for key in order]


def changes(public: League, held_out: League) -> list[Change]:
    """Returns how ratios change from public to held-out cases, for entrants in both."""
    both = {row.label for row in public.rows} & {row.label for row in held_out.rows}
    pairs = [(row.label, measure) for row in held_out.rows if row.label in both for measure in public.measures]
    ratios = [(name, measure, public.ratio(name, measure), held_out.ratio(name, measure)) for name, measure in pairs]
    return [Change(name, measure, before, after) for name, measure, before, after in ratios if before and after]


def _better(value: Value, than: Value, measure: str) -> bool:
    if value is None or than is None:
        return than is None and value is not None
    return value > than if MEASURES[measure].more_is_better else value < than


def _dominates(one: Sequence[Value], other: Sequence[Value], case: Case) -> bool:
    """Returns whether a point is better in a measure, and worse in none."""
    pairs = list(zip(one, other, case.measures[:2], strict=True))
    return any(_better(a, b, measure) for a, b, measure in pairs) and not any(_better(b, a, measure) for a, b, measure in pairs)
