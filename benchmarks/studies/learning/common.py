# SPDX-License-Identifier: Apache-2.0
"""Trains the policies of a study first, each by a command of its own as a user runs it, then runs the specs that read them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import dcgym
from dc_gym.base.progress import Progress
from dc_gym.methods.checkpoint import NAME as CHECKPOINT
from dc_gym.study import Criterion, Evidence, Outcome, Study, StudyOptions, bounded, collect
from dc_gym.study.collect import SpecRuns
from dc_gym.study.evidence import Shortfall, fewer
from dc_gym.study.model import Collected

POLICY = "policy.npz"


@dataclass(frozen=True, slots=True)
class Method:
    """The training of a study's policies: `dcgym METHOD train`."""

    name: str
    option: str
    """The option that sets the length of the training."""
    steps: int
    """The option's default."""

    def place(self, name: str, options: StudyOptions) -> Path:
        """Returns the folder of trainings and runs; shorter trainings have their own."""
        return collect.folder(self.runs(name, options), options)

    def runs(self, name: str, options: StudyOptions) -> str:
        return f"{name}-of-{options.steps}" if options.steps else name

    def policy(self, out: Path, seed: int, options: StudyOptions, more: Iterable[str] = ()) -> Path:
        """Returns the policy file of a seed, trained now, or gone on with, or trained before."""
        if not (out / POLICY).is_file():
            resume = ["--resume"] if (out / CHECKPOINT).is_file() else []
            arguments = ["--seed", str(seed), self.option, str(options.steps or self.steps), "--out", str(out), *more, *resume]
            if code := subprocess.run(dcgym("method", self.name, "train", *arguments)).returncode:
                raise TestbedError(f"dcgym {self.name} train --out {out} ended with exit code {code}; it says why above")
        return (out / POLICY).absolute()

    def shortfall(self, other: Shortfall, options: StudyOptions) -> Shortfall:
        """Returns `other` with the shorter trainings added; claims on their policies are not tested."""
        short = fewer(self.option.removeprefix("--").removesuffix("s"), options.steps or self.steps, self.steps)
        return replace(other, runs=", ".join(filter(None, (other.runs, f"trainings of {short}" if short else ""))))


@dataclass(frozen=True, slots=True)
class AfterTraining:
    """The `Study.collect` of specs that read policies from the folders of trainings beside the runs."""

    method: Method
    trainings: Callable[[int], Mapping[str, tuple[str, ...]]]
    """Returns the folders that runs of a seed read, with more options of their training; their names end with its seed."""

    def __call__(self, study: Study, options: StudyOptions, progress: Progress) -> Collected:
        """Trains missing policies, then runs the specs. No sample is repeated: its policy would be trained anew."""
        progress.phase("training")
        name = study.name.rpartition("/")[2]
        seeds = range(1, (options.seeds or study.seeds) + 1)
        for folder, more in {subfolder: more for seed in seeds for subfolder, more in self.trainings(seed).items()}.items():
            self.method.policy(self.method.place(name, options) / folder, int(folder.rpartition("-")[2]), options, more)
        collected = SpecRuns()(replace(study, runs=self.method.runs(name, options)), options, progress)
        return Collected(replace(collected.evidence, shortfall=self.method.shortfall(collected.evidence.shortfall, options)))


def most(about: tuple[str, ...], words: str, share: float, holds: Callable[[Evidence, int], bool], measure: str) -> Criterion:
    """Returns the criterion that `holds(evidence, seed)` for at least a share of the seeds that the first variant has.

    `measure`: the measure whose values, for the first variant, describe the outcome.
    """

    def judge(evidence: Evidence) -> Outcome:
        values = evidence.values(about[0], measure)
        passing = [seed for seed in values if holds(evidence, seed)]
        text = f"{about[0]}: {len(passing)} of {len(values)} seeds ({', '.join(f'{value:.4g}' for value in values.values())})"
        return bounded(len(passing) >= share * len(values) if values else None, text, sure=True)

    return Criterion(f"{words}, with {share:.0%} of the seeds", about, judge, (measure,))
