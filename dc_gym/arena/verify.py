# SPDX-License-Identifier: Apache-2.0
"""Makes a row's runs again, each in a fresh lab, in an order that is drawn anew, and tells each difference in a line."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym import __version__
from dc_gym.arena import play
from dc_gym.arena.entrant import Entrant
from dc_gym.arena.row import DIGEST_DIGITS, Row
from dc_gym.arena.suite import Case, Secret
from dc_gym.base.progress import Progress
from dc_gym.results import fingerprint
from dc_gym.run.sweep.grid import Point
from dc_gym.study.model import StudyOptions
from dc_gym.traffic.draws import Stream

ORDERS = 2**32


@dataclass(frozen=True, slots=True)
class Claimed:
    """A row with what it takes to make it again."""

    row: Row
    entrant: Entrant
    secret: Secret | None
    cases: Sequence[Case]


def other_release(claimed: Claimed, folder: Path, progress: Progress) -> list[str]:
    """Returns a line for each part of the release in which the row was made elsewhere; no line: it was made in this one."""
    row, track = claimed.row, claimed.entrant.track
    rows = [("release", row.release, __version__), ("suite", row.suite, track.suite)]
    cases = [case for case in track.cases.values() if case.name in row.cases]
    specs = {point.kind: point.spec for point in play.points(claimed.entrant, cases, claimed.secret, folder)}
    today = play.merged(play.environment(spec, progress) for spec in specs.values())
    rows += [(name, row.environment.get(name, "-"), today.get(name, "-")) for name in {**row.environment, **today}]
    lines = [f"other release: {name} {theirs} in the row, {ours} here" for name, theirs, ours in rows if theirs != ours]
    if not lines and row.fingerprint != (ours := fingerprint.fingerprint(today)):
        lines = [f"fingerprint {row.fingerprint} is not that of its environment, {ours}: the row was changed"]
    return lines


def differences(claimed: Claimed, folder: Path, jobs: int, progress: Progress) -> Iterator[str]:
    """Makes the runs again in a folder, and yields a line for each difference from the row."""
    order = secrets.randbelow(ORDERS)
    runs = play.points(claimed.entrant, claimed.cases, claimed.secret, folder)
    drawn = Stream(order, "arena order").shuffled(runs)
    progress.note(f"order {order}: {', '.join(run.name for run in drawn)}")
    results = play.run(drawn, folder, StudyOptions(folder, jobs=jobs), progress)
    for case in claimed.cases:
        made, theirs = play.case_row(case, results), claimed.row.cases[case.name]
        by_name = [run for run in runs if run.values["case"] == case.name]
        for run, digest, stated in zip(by_name, made.digests, theirs.digests, strict=True):
            if digest != stated:
                yield f"{run.name}: digest {stated} in the row, {digest} here{_again(run, digest, folder, progress)}"
        if made.digests == theirs.digests:
            yield from (
                f"{case.name}: {name} {theirs.measures.get(name, 'is missing')} in the row, its runs give {value}"
                for name, value in made.measures.items()
                if theirs.measures.get(name, "") != value
            )
            yield from (f"{case.name}: {name} is no measure of the case" for name in theirs.measures.keys() - made.measures)


def _again(run: Point, digest: str, folder: Path, progress: Progress) -> str:
    """Makes a run once more, alone, and returns words if that changes its digest."""
    alone = folder / "alone" / run.name
    result = play.run([run], alone, StudyOptions(alone), progress)[run.name]
    again = result.digest[:DIGEST_DIGITS]
    return "" if again == digest else f", and {again} when it runs alone: it depends on the order of runs, or does not repeat"
