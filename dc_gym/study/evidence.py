# SPDX-License-Identifier: Apache-2.0
"""The evidence of a study: the values of each variant over seeds, and their course over time and over a training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dc_gym.base.stats import Estimate, estimate

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Track:
    """Quantities over time or over steps; NaN where nothing was measured."""

    x: Floats
    values: Mapping[str, Floats]
    most: Mapping[str, float] = field(default_factory=dict)
    """Upper bounds of the values, by measure."""


@dataclass(frozen=True, slots=True)
class VariantEvidence:
    """The measured values of one variant."""

    name: str
    label: str
    color: str
    numbers: Mapping[str, Mapping[int, float]]
    """Values by measure and seed, from the runs with the final policy."""
    over_time: Mapping[int, Track] = field(default_factory=dict)
    """The same runs over time, by seed."""
    learning: Mapping[int, Track] = field(default_factory=dict)
    """The training over its steps, by seed; empty if nothing is learned."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """The source's values, by measure."""

    @property
    def steps(self) -> int:
        """Number of steps trained, of the seed with the fewest."""
        return min((int(track.x[-1]) for track in self.learning.values() if len(track.x)), default=0)

    def estimate(self, measure: str) -> Estimate | None:
        return estimate(list(self.numbers.get(measure, {}).values()))


_JUDGED = "claims are judged at the study's own length; with fewer seeds alone, where intervals leave no doubt"


def fewer(noun: str, count: int, full_count: int) -> str:
    """Returns text such as "1 seed instead of 3"; empty if there are enough."""
    return f"{count} {noun}{'' if count == 1 else 's'} instead of {full_count}" if count < full_count else ""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The parts that the command made shorter than the study's own length, in words; an empty text means: not shorter."""

    runs: str = ""
    trainings: str = ""
    seeds: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.runs, self.trainings, self.seeds)))

    def facts(self) -> list[tuple[str, str]]:
        """Returns the row for a study's page that names the shorter parts; no row if there are none."""
        return [("Shorter", f"{self}: {_JUDGED}")] if str(self) else []


@dataclass(frozen=True, slots=True)
class Sample:
    """A run that stands for a study, with the digest of its records."""

    variant: str
    seed: int
    digest: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All variants of a study."""

    variants: Mapping[str, VariantEvidence]
    paper_steps: int = 0
    """Number of steps that the paper trained; 0 if the paper gives none, or if there is nothing to train."""
    shortfall: Shortfall = Shortfall()

    @staticmethod
    def shortfall_of(parts: Iterable[Evidence]) -> Shortfall:
        """Returns the first shortfall of a study's parts. One command gives all parts the same length."""
        return next((part.shortfall for part in parts if str(part.shortfall)), Shortfall())

    def values(self, name: str, measure: str) -> Mapping[int, float]:
        """Returns values by seed; empty if that variant did not run."""
        variant = self.variants.get(name)
        return variant.numbers.get(measure, {}) if variant else {}

    def steps(self, name: str) -> int | None:
        """Returns the steps trained; None if the variant does not learn or did not run."""
        variant = self.variants.get(name)
        return variant.steps if variant and variant.learning else None


def with_variants(evidence: Evidence, more: Iterable[VariantEvidence]) -> Evidence:
    """Returns the evidence with more variants, or with others of the same names."""
    return replace(evidence, variants={**evidence.variants, **{variant.name: variant for variant in more}})


def of_seeds(compute: Callable[..., float], *values: Mapping[int, float]) -> dict[int, float]:
    """Returns the value computed from several values of a seed, for each seed that has all of them."""
    seeds = [seed for seed in values[0] if all(seed in by_seed for by_seed in values)]
    return {seed: compute(*(by_seed[seed] for by_seed in values)) for seed in seeds}


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of a table or an axis: its name in the table, its title with the unit, and how it is shown."""

    name: str
    title: str
    factor: float = 1.0
    digits: int = 4
