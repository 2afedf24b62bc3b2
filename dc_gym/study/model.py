# SPDX-License-Identifier: Apache-2.0
"""A study: variants of a base spec, run with the same seeds, measured alike, compared with the statements of a source.

A study is one file with a STUDY, found by lying in its folder (benchmarks/studies/GROUP/NAME.py), or anywhere as FILE.py. Its
evidence is a table (table.py), from which pages, verdicts and figures are made. Text about causes is in findings.toml beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.base.spelling import unknown
from dc_gym.results.results import Result
from dc_gym.study.claims import Claim, Criterion
from dc_gym.study.evidence import Evidence, Measure, Sample, Track, VariantEvidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dc_gym.nets.nic_policy import NicPolicy

SEEDS = 5
Facts = Sequence[tuple[str, str]]
Files = Mapping[str, "str | NicPolicy"]


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """The number and length of a study's runs, and the place where they run."""

    out: Path
    """Folder of the group's runs and pages."""
    full: bool = False
    """True (`--length full`): the lengths of the source."""
    all_cases: bool = False
    """True (`--cases all`): also the variants that a study leaves out by default."""
    variants: tuple[str, ...] = ()
    """Names of the variants to run; empty: all."""
    seeds: int | None = None
    """Number of seeds. None: the study's own; this holds for the fields below, too."""
    steps: int | None = None
    """Steps of each training."""
    duration: str | None = None
    """Duration of each measured run; its first quarter is not counted."""
    algorithms: tuple[str, ...] | None = None
    """The algorithms to train."""
    preset: str | None = None
    """Name of the preset of hyper-parameters."""
    overrides: tuple[str, ...] = ()
    """KEY=VALUE overrides of every spec."""
    ground: str = "lab"
    jobs: int = 1
    """Number of labs, and of trainings, at a time."""
    address: str | None = None
    """Address of a Ray cluster; None: this machine."""
    retry: bool = False
    force: bool = False

    @property
    def own(self) -> bool:
        """True if nothing but the study's own length, seeds and specs is asked for."""
        changed = (self.seeds, self.steps, self.duration, self.algorithms, self.preset)
        return self.ground == "lab" and not (self.overrides or self.variants) and all(setting is None for setting in changed)


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of a study: changes of the base spec, a style, and the values that the source printed."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """Dotted keys of the spec."""
    color: str = "#555555"
    label: str = ""
    """Name on the page; empty: the variant's name."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """The source's values, by measure, in SI units."""
    full: Mapping[str, Any] = field(default_factory=dict)
    """The keys that `--length full` changes; None takes a key away."""
    by_seed: Mapping[str, str] = field(default_factory=dict)
    """Keys whose values depend on the seed, which stands in them as `{seed}`, also in the keys that `full` changes."""
    extra: bool = False
    """True for a variant that runs only with `--cases all`."""
    short: bool = False
    """True for a variant that does not run with `--length full`."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the study's `measure` for this variant."""
    tracks: int | None = None
    """Number of seeds whose tracks are kept, for the figure. None: all."""
    fixed: Sequence[str] = ()
    """Keys that `--set` changes in other variants alone, such as keys of a shared buffer that this one does not have."""

    def keys(self, full: bool) -> dict[str, Any]:
        """Returns the keys of the spec, at the source's own length if `full`. Values of `by_seed` have `{seed}` in them."""
        keys = {**self.values, **self.by_seed, **(self.full if full else {})}
        return {key: value for key, value in keys.items() if value is not None}

    def evidence(
        self,
        numbers: Mapping[str, Mapping[int, float]],
        over_time: Mapping[int, Track] | None = None,
        learning: Mapping[int, Track] | None = None,
    ) -> VariantEvidence:
        """Returns its measured values (by measure and seed, tracks by seed), with its style and the source's printed values."""
        return VariantEvidence(
            self.name, self.label or self.name, self.color, numbers, over_time or {}, learning or {}, self.paper
        )


@dataclass(frozen=True, slots=True)
class Collected:
    """The evidence that a study's runs gave."""

    evidence: Evidence
    sample: Sample | None = None
    """The run that is repeated to see whether the evidence still holds (carry.py)."""


class Collect(Protocol):
    """The maker of a study's rows."""

    def __call__(self, study: Study, options: StudyOptions, progress: Progress) -> Collected:
        """Makes missing rows, and returns the evidence."""


@runtime_checkable
class Repeats(Collect, Protocol):
    """The maker of rows whose runs have a sample."""

    def repeat(self, study: Study, sample: Sample, options: StudyOptions, progress: Progress) -> str:
        """Makes a sample's run anew in `options.out`, and returns the digest of its records."""


def _no_measures(result: Result) -> dict[str, float]:
    return {}


def _as_it_is(evidence: Evidence) -> Evidence:
    return evidence


@dataclass(frozen=True, slots=True)
class Study:
    title: str
    measures: Sequence[Measure]
    """The columns of its table."""
    variants: Sequence[Variant] = ()
    name: str = ""
    """Such as acc/figure-9. The folder and the file give it."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """Dotted keys of the spec that all variants share."""
    measure: Callable[..., dict[str, float]] = _no_measures
    """Returns the values of a Result, by measure. Keyword arguments are as for `Variant.given`."""
    track: Callable[..., Track] | None = None
    """Returns quantities of a Result over time; arguments as for `measure`."""
    claims: Sequence[Claim] = ()
    identities: Sequence[Criterion] = ()
    """Statements that hold in any correct run, such as that PFC drops nothing. Tests judge them; the score leaves them out."""
    draw: Callable[[Evidence], Figure] | None = None
    """Draws the figure. None: dots of the first measure."""
    facts: Facts | Callable[[StudyOptions], Facts] = ()
    """Facts on its runs: rows of the page. The docstring of its file is there, too."""
    notes: Sequence[str] | Callable[[Evidence], Sequence[str]] = ()
    files: Files | Callable[[Sequence[int]], Files] = field(default_factory=dict)
    """Files that the specs read, with their contents; a function gets the seeds."""
    derive: Callable[[Evidence], Evidence] = _as_it_is
    """Adds values that follow from the table, such as ratios. The table does not have them."""
    seeds: int = SEEDS
    runs: str = ""
    """Folder of its runs, which studies of a group share where they have equal variants; empty: the study's own name."""
    collect: Collect | None = None
    """The maker of rows. None: a run of the spec for each variant and seed (collect.py)."""
    of: Sequence[str] = ()
    """Studies whose evidence it reads, by name; they are run before it. Its own rows are then made by `derive` alone."""
    trains: bool = False
    """True if policies are trained for it."""
    source: str = ""
    """The source whose figure or table it reproduces; empty: it is our own."""
    module: str = ""
    """Name of its module. The folder gives it."""

    @property
    def derives(self) -> bool:
        """True if it has rows that are not variants of its own: of trainings, of a function, or derived from others."""
        return self.derive is not _as_it_is or self.collect is not None or bool(self.of)

    @property
    def group(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def runs_folder(self) -> str:
        """Name of the folder of its runs."""
        return self.runs or self.name.rpartition("/")[2]

    def keys(self, variant: Variant, full: bool) -> dict[str, Any]:
        """Returns the keys of a variant's spec that all seeds share: the base's, then the variant's."""
        return {**self.base, **variant.keys(full)}

    def chosen(self, options: StudyOptions) -> list[Variant]:
        """Returns the variants that the options ask for. Raises UsageError if a variant is unknown."""
        names = [variant.name for variant in self.variants]
        for name in options.variants:
            if name not in names:
                raise UsageError(f"study {self.name}: {unknown('variant', name, names)}")
        some = options.variants
        selected = [
            variant for variant in self.variants if (variant.name in some if some else options.all_cases or not variant.extra)
        ]
        return [variant for variant in selected if not (options.full and variant.short)]

    @property
    def told(self) -> list[str]:
        """The paragraphs of its file's docstring: the source's experiment, and ours."""
        text = (sys.modules[self.module].__doc__ or "") if self.module else ""
        return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph]

    def facts_of(self, options: StudyOptions) -> Facts:
        return self.facts(options) if callable(self.facts) else self.facts

    def files_of(self, seeds: Sequence[int]) -> Files:
        return self.files(seeds) if callable(self.files) else self.files
