# SPDX-License-Identifier: Apache-2.0
"""Plays an entrant: a run for each case and seed, in a folder that resumes where it was stopped, and the row of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dc_gym import __version__
from dc_gym.arena import measures
from dc_gym.arena.entrant import Entrant
from dc_gym.arena.row import DIGEST_DIGITS, CaseRow, Row
from dc_gym.arena.suite import SEEDS, Case, Secret
from dc_gym.base.progress import Progress
from dc_gym.kernel import openvswitch
from dc_gym.results import fingerprint
from dc_gym.results.results import Result
from dc_gym.run.grounds.selection import ground_of
from dc_gym.run.sweep.grid import Point
from dc_gym.spec import Spec
from dc_gym.study import collect
from dc_gym.study.model import StudyOptions

KEYS = ("case", "seed")


def points(entrant: Entrant, cases: Sequence[Case], secret: Secret | None, folder: Path) -> list[Point]:
    """Returns the runs of some cases. First writes the entrant's files into the folder."""
    entrant.write(folder)
    return [
        Point(
            f"{case.name}-{number}",
            {"case": case.name, "seed": seed},
            case.spec_of(entrant.keys, seed, secret, folder, entrant.settings),
        )
        for case in cases
        for number, seed in enumerate(case.seeds(secret), 1)
    ]


def run(runs: Sequence[Point], folder: Path, options: StudyOptions, progress: Progress) -> dict[str, Result]:
    """Makes the runs that are missing in the folder, and returns all by name."""
    return collect.run_all("arena", KEYS, runs, folder, options, progress)


def case_row(case: Case, results: Mapping[str, Result]) -> CaseRow:
    """Returns a case's part of a row."""
    runs = [results[f"{case.name}-{number}"] for number in range(1, len(SEEDS) + 1)]
    rows = [measures.measure(result, case.measures, case.others) for result in runs]
    return CaseRow(
        tuple(result.digest[:DIGEST_DIGITS] for result in runs),
        {name: _mean([row[name] for row in rows]) for name in case.measures},
    )


def environment(spec: Spec, progress: Progress) -> dict[str, str]:
    """Returns the parts of the fingerprint that a run of the spec would have now."""
    ground = ground_of(spec)
    ground.prepare(progress)
    return dict(ground.environment(openvswitch.ensure(progress)))


def merged(environments: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Returns the parts of the environments of several kinds of runs, such as runs with NICs and without."""
    return {name: identity for environment in environments for name, identity in environment.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return measures.rounded(sum(known) / len(known)) if len(known) == len(values) else None


def row(
    entrant: Entrant, cases: Sequence[Case], results: Mapping[str, Result], secret: Secret | None, *, tell_secret: bool = False
) -> Row:
    """Returns the row of an entrant from its results."""
    environment = merged(result.manifest["environment"] for result in results.values())
    return Row(
        entrant=entrant.name,
        track=entrant.track.name,
        file=entrant.file,
        settings=entrant.settings,
        source=entrant.source,
        release=__version__,
        suite=entrant.track.suite,
        fingerprint=fingerprint.fingerprint(environment),
        environment=environment,
        held_out=secret.sha256 if secret else "",
        secret=secret.text if secret and tell_secret else "",
        cases={case.name: case_row(case, results) for case in cases},
    )
