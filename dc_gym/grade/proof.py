# SPDX-License-Identifier: Apache-2.0
"""The proof that a student made the runs: a sample of them is made again, each in a fresh lab, and gives the same digest."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dc_gym.base.progress import Progress
from dc_gym.results.results import Result
from dc_gym.run.sweep.grid import Point
from dc_gym.study import collect
from dc_gym.study.model import StudyOptions

DIGITS = 12


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of the runs that were made again."""

    equal: Sequence[str] = ()
    """Runs with the same digest."""
    other: Mapping[str, str] = field(default_factory=dict)
    """Runs with another one, though the same release made them: they are not what their spec gives."""
    open: Mapping[str, str] = field(default_factory=dict)
    """Runs with another one that another release made: this one cannot tell."""

    @property
    def text(self) -> str:
        counts = [(len(self.equal), "equal"), (len(self.other), "other"), (len(self.open), "of another release, not proven")]
        numbers = ", ".join(f"{count} {what}" for count, what in counts if count)
        return f"runs made again: {numbers or 'none'}"


def prove(points: Sequence[Point], runs: Mapping[str, Result], sample: int, jobs: int, folder: Path, progress: Progress) -> Proof:
    """Makes a sample of the runs again, in a folder. It is drawn anew each time, so that nobody knows it before."""
    there = [point for point in points if point.name in runs]
    drawn = random.SystemRandom().sample(there, min(sample, len(there)))
    if not drawn:
        return Proof()
    made_again = collect.run_all("grade", tuple(drawn[0].values), drawn, folder, StudyOptions(folder, jobs=jobs), progress)
    pairs = {name: (runs[name], again) for name, again in made_again.items()}
    unequal = {name: pair for name, pair in pairs.items() if _digests(pair[0]) != _digests(pair[1])}
    releases = {name: _releases(*pair) for name, pair in unequal.items()}
    return Proof(
        [name for name in pairs if name not in unequal],
        {name: _told(*unequal[name]) for name, release in releases.items() if not release},
        {name: release for name, release in releases.items() if release},
    )


def _digests(run: Result) -> tuple[str, str]:
    return run.digest, run.agent_digest


def _told(run: Result, again: Result) -> str:
    handed_in, repeated = (" ".join(digest[:DIGITS] for digest in _digests(result) if digest) for result in (run, again))
    return f"digest {handed_in}, and {repeated} when it is made again: it is not what its spec gives"


def _releases(run: Result, again: Result) -> str:
    """Returns in which parts of the environment two releases differ; '' if it is one."""
    if run.manifest.get("fingerprint") == again.manifest.get("fingerprint"):
        return ""
    theirs, here = (stated if isinstance(stated := result.manifest.get("environment"), dict) else {} for result in (run, again))
    names = [name for name in dict.fromkeys((*here, *theirs)) if theirs.get(name) != here.get(name)]
    parts = ", ".join(f"{name} {theirs.get(name, '-')}, here {here.get(name, '-')}" for name in names)
    return f"another release made it ({parts or 'it does not say which'}), and its digest differs here"
