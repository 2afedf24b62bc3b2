# SPDX-License-Identifier: Apache-2.0
"""The arena's page and the tables in the terminal, from rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dc_gym.arena.measures import MEASURES
from dc_gym.arena.ranking import Change, League, Value, changes
from dc_gym.arena.row import Row
from dc_gym.base.files import put
from dc_gym.results.pages import html
from dc_gym.study.claims import plain

MARK = "dcgym arena table"
TITLE = "Arena"
SHORT = 12


def title(league: League) -> str:
    drawn = f"held-out cases of secret {league.held_out[:SHORT]}" if league.held_out else "public cases"
    other = "" if league.suite == league.track.suite else f", of another release (suite {league.suite})"
    return f"{league.track.title}: {drawn}{other}"


def header(league: League) -> list[str]:
    return ["", "Pareto fronts", *(MEASURES[name].measure.title.partition(" (")[0] for name in league.measures)]


def standings(league: League) -> list[list[str]]:
    """Returns a row per entrant: the fronts that it is on, and for each measure its mean rank, and its ratio to the reference."""
    fronts = [league.front(case) for case in league.cases]
    rows = []
    for row in league.rows:
        count = sum(row.label in front for front in fronts)
        cells = [_standing(league.rank(row.label, name), league.ratio(row.label, name)) for name in league.measures]
        rows.append([row.label, f"{count} of {len(row.cases)}", *cells])
    return rows


def _standing(rank: Value, ratio: Value) -> str:
    return "-" if rank is None else f"{rank:.1f}" + ("" if ratio is None else f" (x {ratio:.3g})")


def case_table(league: League, number: int) -> dict[str, Any]:
    """Returns a case's title, header and rows: values, ranks, and whether the entrant is on the front."""
    case = league.cases[number]
    front = league.front(case)
    ranks = {name: league.ranks(case.name, name) for name in case.measures}
    rows = []
    for row in league.rows:
        if case.name in row.cases:
            cells = [_cell(row, case.name, name, ranks[name][row.label]) for name in case.measures]
            rows.append([row.label + (" *" if row.label in front else ""), *cells])
    titles = [MEASURES[name].measure.title for name in case.measures]
    return {"name": case.name, "title": case.title, "header": ["", *titles], "rows": rows}


def _cell(row: Row, case: str, name: str, rank: int) -> str:
    value = row.cases[case].measures.get(name)
    return f"{'-' if value is None else plain(value, MEASURES[name].measure)} ({rank})"


def fallen(leagues: Sequence[League]) -> list[tuple[str, list[Change]]]:
    """Returns, for each league of held-out cases, how entrants fare there, by its title."""
    public = {(league.track.name, league.suite): league for league in leagues if not league.held_out}
    pairs = [(league, public.get((league.track.name, league.suite))) for league in leagues if league.held_out]
    return [(title(league), changes(of_public, league)) for league, of_public in pairs if of_public is not None]


def write(path: Path, leagues: Sequence[League]) -> Path:
    """Writes the page."""
    sections = [
        {
            "title": title(league),
            "reference": ", ".join(league.track.reference),
            "header": header(league),
            "rows": standings(league),
            "cases": [case_table(league, number) for number in range(len(league.cases))],
            "entrants": [_facts(row) for row in league.rows],
        }
        for league in leagues
    ]
    formulas = [(one.measure.title, one.formula, "more" if one.more_is_better else "less") for one in MEASURES.values()]
    values = {"sections": sections, "fallen": fallen(leagues), "formulas": formulas}
    return put(path, html.render("dc_gym.arena", "page.html.j2", title=TITLE, mark=MARK, **values))


def _facts(row: Row) -> list[str]:
    source = ", ".join(f"{name} {digest[:SHORT]}" for name, digest in row.source.items())
    kernel = row.environment.get("kernel", "")
    return [row.label, source or (f"in Linux {kernel}" if row.track == "tcp" else "keys alone"), row.release, row.fingerprint]
