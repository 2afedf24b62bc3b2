# SPDX-License-Identifier: Apache-2.0
"""What a figure comes to: numbers of each contestant over seeds, and how they changed over time and over a training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dc_gym.base.stats import Estimate, estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dc_gym.reproduce.claims import Verdict

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Track:
    """Quantities over time or over steps; NaN where nothing was measured."""

    x: Floats
    values: Mapping[str, Floats]
    most: Mapping[str, float] = field(default_factory=dict)
    """What cannot be exceeded, by quantity."""


@dataclass(frozen=True, slots=True)
class Contender:
    """What one contestant did."""

    name: str
    label: str
    color: str
    numbers: Mapping[str, Mapping[int, float]]
    """By quantity and seed, of the runs with the policy as it is in the end."""
    over_time: Mapping[int, Track] = field(default_factory=dict)
    """By seed: the same runs."""
    learning: Mapping[int, Track] = field(default_factory=dict)
    """By seed: the training, by steps; none where nothing is learned."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """What the paper has there, by quantity."""

    @property
    def steps(self) -> int:
        """Trained: of the seed that has the fewest."""
        return min((int(track.x[-1]) for track in self.learning.values() if len(track.x)), default=0)

    def estimate(self, quantity: str) -> Estimate | None:
        return estimate(list(self.numbers.get(quantity, {}).values()))


SHORTER = "Shorter"
"""Name of the fact that says what the command made shorter than the figure's own length."""
_JUDGED = "claims are judged at the figure's own length; with fewer seeds alone, where intervals leave no doubt"


def fewer(what: str, asked: int, own: int) -> str:
    """1 seed instead of 3; empty where there are enough."""
    return f"{asked} {what}{'' if asked == 1 else 's'} instead of {own}" if asked < own else ""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """In words, what the command made shorter than the figure's own length; empty: nothing."""

    runs: str = ""
    trainings: str = ""
    seeds: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.runs, self.trainings, self.seeds)))

    def facts(self) -> list[tuple[str, str]]:
        """Tells on a figure's page what is shorter; no row if nothing is."""
        return [(SHORTER, f"{self}: {_JUDGED}")] if str(self) else []


@dataclass(frozen=True, slots=True)
class Evidence:
    """All contestants of a set of runs."""

    contenders: Mapping[str, Contender]
    paper_steps: int = 0
    """How long the paper trained; 0: it says nothing, or there is nothing to train."""
    shortfall: Shortfall = Shortfall()

    @staticmethod
    def shortfall_of(parts: Iterable[Evidence]) -> Shortfall:
        """Picks the first shortfall of a figure's parts, which one command has made equally long."""
        return next((part.shortfall for part in parts if str(part.shortfall)), Shortfall())

    def values(self, name: str, quantity: str) -> Mapping[int, float]:
        """By seed; empty if that contestant did not run."""
        found = self.contenders.get(name)
        return found.numbers.get(quantity, {}) if found else {}

    def steps(self, name: str) -> int | None:
        """Trained; None: nothing is learned there, or it did not run."""
        found = self.contenders.get(name)
        return found.steps if found and found.learning else None


@dataclass(frozen=True, slots=True)
class Column:
    """A quantity in a table or on an axis."""

    name: str
    title: str
    factor: float = 1.0
    digits: int = 4


@dataclass(frozen=True, slots=True)
class Findings:
    """What a figure's folder says."""

    title: str
    facts: Sequence[tuple[str, str]]
    """How it was run."""
    contenders: Sequence[Contender]
    columns: Sequence[Column]
    verdicts: Sequence[Verdict]
    figure: Figure
    notes: Sequence[str] = ()
