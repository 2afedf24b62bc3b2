# SPDX-License-Identifier: Apache-2.0
"""`dcgym reproduce --score`: counts the verdicts of all papers' figures, and says which of them an experiment explains.

It reads the claims.json of each figure, as `dcgym reproduce` wrote it, and runs nothing. Only results of today count: those made
under today's fingerprint, by today's sources of the figure, with the figure's own specs. All others are named. It writes
DIR/score.json, from which README and the documentation take their numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from dc_gym import __version__
from dc_gym.base import plain_json, terminal
from dc_gym.base.files import put
from dc_gym.base.outputs import is_json_of, require_place
from dc_gym.records import fingerprint
from dc_gym.reproduce import provenance, registry
from dc_gym.reproduce.claims import NOT_REPRODUCED, ClaimState
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.reproduce.page import CLAIMS
from dc_gym.reproduce.registry import Paper

FILE = "score.json"
COMMAND = "dcgym reproduce --score"
OPEN = "open"
"""The word for a cause that no experiment has shown."""
SHOWN = ("hypothesis", "experiment", "page", "showed")
"""The parts of an explanation."""
OURS = "ours"
"""The group of the claims that no paper makes."""
ALL = "all papers"
PLAIN = ReproduceOptions(Path())
OTHER_SPECS = ("set", "preset", "ground")
"""Options that make other specs than the figure's own. Lengths and seeds are no such options: verdicts take them into account."""


@dataclass(frozen=True, slots=True)
class ScoredClaim:
    figure: str
    claim: str
    group: str
    """Empty for the paper's claims; else the variant, such as "shared buffer", or "ours"."""
    state: ClaimState
    explanation: Mapping[str, str] | None

    def as_dict(self) -> dict[str, Any]:
        told = {"figure": self.figure, "claim": self.claim, "group": self.group, "state": str(self.state)}
        return told | {"explanation": dict(self.explanation) if self.explanation else OPEN}


@dataclass(frozen=True, slots=True)
class ScoredFigure:
    number: str
    fingerprint: str
    seeds: tuple[int, ...]
    options: Mapping[str, Any]
    claims: tuple[ScoredClaim, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of claims. `judged` is the sum of the three numbers after it."""

    judged: int
    reproduced: int
    contradicted: int
    not_shown: int
    """Judged, but the training was shorter than the paper's."""
    not_judged: int
    """Too short to judge, or did not run."""
    explained: int
    """Contradicted or not shown, and an experiment shows why."""

    @staticmethod
    def of(claims: Iterable[ScoredClaim]) -> Counts:
        found = list(claims)
        states = [each.state for each in found]
        held, failed, short = (states.count(each) for each in (ClaimState.REPRODUCED, *NOT_REPRODUCED))
        explained = sum(each.state in NOT_REPRODUCED and each.explanation is not None for each in found)
        judged = held + failed + short
        return Counts(judged, held, failed, short, len(found) - judged, explained)


@dataclass(frozen=True, slots=True)
class PaperScore:
    paper: Paper
    figures: tuple[ScoredFigure, ...]
    missing: tuple[str, ...]
    """Figures without results."""
    stale: Mapping[str, str] = field(default_factory=dict)
    """Why the results of a figure do not count, by its number."""

    @property
    def claims(self) -> list[ScoredClaim]:
        return [claim for figure in self.figures for claim in figure.claims]

    @property
    def not_reproduced(self) -> list[ScoredClaim]:
        return [claim for claim in self.claims if claim.state in NOT_REPRODUCED]


@dataclass(frozen=True, slots=True)
class Score:
    environment: Mapping[str, str]
    """The parts of today's fingerprint."""
    papers: tuple[PaperScore, ...]

    @property
    def complete(self) -> bool:
        return not any(each.missing or each.stale for each in self.papers)


class NotToday(Exception):
    """The results of a figure do not count, for the reason that the message gives."""


def read(folder: Path) -> Score:
    """Returns the score of all papers from the folder that `dcgym reproduce all` writes."""
    today = provenance.environment()
    return Score(today, tuple(_paper(paper, folder / paper.name, today) for paper in registry.PAPERS.values()))


def _paper(paper: Paper, folder: Path, today: Mapping[str, str]) -> PaperScore:
    figures, missing, stale = [], [], dict[str, str]()
    for number in paper.figures:
        file = folder / f"figure-{number}" / CLAIMS
        if not file.is_file():
            missing.append(number)
            continue
        try:
            figures.append(_figure(paper, number, _json(file), today))
        except NotToday as why:
            stale[number] = str(why)
    return PaperScore(paper, tuple(figures), tuple(missing), stale)


def _json(file: Path) -> Any:
    try:
        return plain_json.read(file)
    except ValueError:
        raise NotToday("no JSON") from None


def _figure(paper: Paper, number: str, told: Any, today: Mapping[str, str]) -> ScoredFigure:
    """Returns what a claims.json says. Raises NotToday if it is of another figure, environment, source or spec."""
    try:
        if (told["paper"], told["figure"]) != (paper.name, number):
            raise NotToday(f"of {told['paper']} {told['figure']}")
        _require_today(paper, number, told, today)
        claims = tuple(_claim(number, each) for each in told["claims"])
        return ScoredFigure(number, str(told["fingerprint"]), tuple(map(int, told["seeds"])), dict(told["options"]), claims)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise NotToday("by another version of dc-gym") from None


def _require_today(paper: Paper, number: str, told: Mapping[str, Any], today: Mapping[str, str]) -> None:
    made, parts, own = told["fingerprint"], dict(told["environment"]), provenance.told(PLAIN)
    if made != fingerprint.fingerprint(today):
        names = [name for name in {**today, **parts} if today.get(name) != parts.get(name)]
        raise NotToday(f"fingerprint {made}: other {', '.join(names) or 'parts'}")
    if told["sources"] != provenance.sources(paper.module(number)):
        raise NotToday("its specs or criteria have changed")
    if other := [name for name in OTHER_SPECS if told["options"][name] != own[name]]:
        values = [told["options"][name] for name in other]
        said = [f"--{name} {each}" for name, value in zip(other, values, strict=True) for each in _listed(value)]
        raise NotToday(f"other specs: {', '.join(said)}")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _claim(number: str, told: Mapping[str, Any]) -> ScoredClaim:
    group = OURS if told["ours"] else str(told["variant"])
    explanation = told["explanation"]
    shown = None if explanation is None else {name: str(explanation[name]) for name in SHOWN}
    return ScoredClaim(number, str(told["claim"]), group, ClaimState(told["state"]), shown)


def as_dict(score: Score) -> dict[str, Any]:
    """Returns the contents of score.json."""
    return {
        "command": COMMAND,
        "dcgym": __version__,
        "fingerprint": fingerprint.fingerprint(score.environment),
        "environment": dict(score.environment),
        "complete": score.complete,
        "all": _groups([claim for each in score.papers for claim in each.claims]),
        "papers": {each.paper.name: _as_dict(each) for each in score.papers},
    }


def _as_dict(score: PaperScore) -> dict[str, Any]:
    return {
        "title": score.paper.title,
        **_groups(score.claims),
        "not_reproduced": [each.as_dict() for each in score.not_reproduced],
        "figures": {
            each.number: {
                **_groups(each.claims),
                "fingerprint": each.fingerprint,
                "seeds": list(each.seeds),
                "options": dict(each.options),
            }
            for each in score.figures
        },
        "missing": list(score.missing),
        "stale": dict(score.stale),
    }


def _groups(claims: Sequence[ScoredClaim]) -> dict[str, Any]:
    """Returns the counts of the papers' claims, of each variant, and of our claims."""
    variants = dict.fromkeys(each.group for each in claims if each.group not in ("", OURS))
    counts = {name: asdict(Counts.of(each for each in claims if each.group == name)) for name in ("", OURS, *variants)}
    return {"claims": counts[""], "variants": {name: counts[name] for name in variants}, OURS: counts[OURS]}


def write(folder: Path, score: Score, force: bool) -> Path:
    """Writes score.json and returns its path. A file of somebody else's stays, unless `force`."""
    place = folder / FILE
    require_place(place, is_json_of(command=COMMAND), force=force)
    return put(place, (json.dumps(as_dict(score), indent=1, ensure_ascii=False) + "\n").encode())


def show(score: Score) -> None:
    """Prints a table of the counts, and one of the claims that do not hold."""
    console = terminal.console(width=None if terminal.console().is_terminal else 160)
    counts = Table(show_edge=False, pad_edge=False)
    counts.add_column("paper")
    for name in ("claims judged", "reproduced", "contradicted", "not shown", "not judged", "explained"):
        counts.add_column(name, justify="right")
    rows = [(each.paper.name, each.claims) for each in score.papers]
    for paper, claims in [*rows, (ALL, [claim for _, found in rows for claim in found])]:
        for group in dict.fromkeys(["", *sorted({each.group for each in claims})]):
            found = Counts.of(each for each in claims if each.group == group)
            counts.add_row(escape(f"{paper}: {group}" if group else paper), *map(str, asdict(found).values()))
    console.print(counts)
    failed = [(each.paper.name, claim) for each in score.papers for claim in each.not_reproduced]
    if failed:
        table = Table(show_edge=False, pad_edge=False)
        for name in ("not reproduced", "claim", "why"):
            table.add_column(name, overflow="fold")
        for paper, claim in failed:
            table.add_row(f"{paper} {claim.figure}", escape(claim.claim), escape(_why(claim)))
        console.print()
        console.print(table)


def _why(claim: ScoredClaim) -> str:
    return f"{claim.explanation['experiment']} ({claim.explanation['page']})" if claim.explanation else OPEN


def faults(score: Score) -> list[str]:
    """Returns a line that names all missing results, and one that names all stale ones with the reasons; none if all count."""
    missing = [f"{each.paper.name} {', '.join(each.missing)}" for each in score.papers if each.missing]
    stale = [f"{each.paper.name} {number} ({why})" for each in score.papers for number, why in each.stale.items()]
    lines = [f"missing results: {'; '.join(missing)}"] if missing else []
    return lines + ([f"stale results: {'; '.join(stale)}"] if stale else [])
