# SPDX-License-Identifier: Apache-2.0
"""Writes the folder of a study (figure.png, table.csv, claims.json, index.html), and the page of a group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dc_gym import __version__
from dc_gym.base.files import csv_bytes, machine_errors, put
from dc_gym.base.outputs import is_marked, require_place
from dc_gym.results.figures import kit
from dc_gym.results.pages import html
from dc_gym.study import drawing, identity
from dc_gym.study.claims import Verdict, judge, plain, text
from dc_gym.study.evidence import Evidence, Measure, VariantEvidence
from dc_gym.study.findings import Cause, Finding, finding
from dc_gym.study.model import Study
from dc_gym.study.table import Table, evidence_of

PACKAGE = "dc_gym.study"
FIGURE, TABLE, CLAIMS, PAGE = "figure.png", "table.csv", "claims.json", "index.html"


@dataclass(frozen=True, slots=True)
class Report:
    """The contents of a study's page."""

    study: Study
    table: Table
    evidence: Evidence
    findings: Sequence[Finding]
    facts: Sequence[tuple[str, str]]
    notes: Sequence[str]
    old: str = ""
    """Why its evidence is not of today; empty if it is."""

    @property
    def measures(self) -> list[Measure]:
        """The measures that a variant has values of."""
        variants = self.evidence.variants.values()
        return [each for each in self.study.measures if any(one.numbers.get(each.name) for one in variants)]

    @property
    def summary(self) -> str:
        """The number of counted claims with each verdict; empty if none is counted."""
        verdicts = [each.verdict for each in self.findings if each.claim.counted]
        return ", ".join(f"{verdicts.count(each)} {each}" for each in reversed(Verdict) if each in verdicts)


def report(study: Study, table: Table, causes: Mapping[str, Cause], evidence: Evidence | None = None, old: str = "") -> Report:
    """Returns the contents of a study's page, from its table or, if it reads other studies' tables, from `evidence`.

    `causes`: by the claims' titles. `old`: why the evidence is not of today; empty if it is.
    """
    found = study.derive(evidence_of(study, table) if evidence is None else evidence)
    facts = [*study.facts_of(identity.asked(table.options)), ("Seeds", f"{len(table.seeds)}; the same traffic for all variants")]
    facts += table.shortfall.facts()
    if old:
        facts.append(("Old", old))
    findings = [finding(judge(each, found), causes) for each in study.claims]
    notes = study.notes(found) if callable(study.notes) else study.notes
    return Report(study, table, found, findings, facts, [*study.told, *notes], old)


def write(folder: Path, told: Report) -> Path:
    """Writes all files of a study's folder, and returns the page's path."""
    study = told.study
    with machine_errors("make", folder):
        folder.mkdir(parents=True, exist_ok=True)
    draw = study.draw or (lambda evidence: drawing.dots(evidence, told.measures[0], study.title))
    kit.save(draw(told.evidence), folder / FIGURE)
    put(folder / TABLE, csv_bytes(*_table(list(told.evidence.variants.values()), study.measures)))
    claims, stored = [as_dict(each) for each in told.findings], told.table
    head: dict[str, object] = {"study": study.name, "title": study.title, "dcgym": __version__, "fingerprint": stored.fingerprint}
    head |= {"options": dict(stored.options), "seeds": stored.seeds, "old": told.old, "claims": claims}
    put(folder / CLAIMS, (json.dumps(head, indent=1, ensure_ascii=False) + "\n").encode())
    title, mark = f"{study.name}: {study.title}", mark_of(study.name)
    values = {"report": told, "claims": claims, "columns": header(told), "rows": cells(told)}
    return put(folder / PAGE, html.render(PACKAGE, "page.html.j2", title=title, mark=mark, **values))


def mark_of(what: str) -> str:
    """Returns the mark by which a page is recognized as one of dc-gym's."""
    return f"dcgym study {what}"


def require_places(places: Mapping[str, Path], force: bool) -> None:
    """Raises UsageError if a page of something else would be overwritten, before hours are spent.

    `places`: folders by the name of the study or the group.
    """
    for name, folder in places.items():
        require_place(folder / PAGE, is_marked(mark_of(name)), force=force)


def overview(folder: Path, group: str, title: str, reports: Sequence[tuple[str, Report]]) -> Path:
    """Writes one page about a group: a line a study, then all claims. `reports` have the paths of their pages below `folder`."""
    lines = [(page, each, each.summary or "no claim of the source") for page, each in reports]
    claims = [(page, each, [as_dict(found) for found in each.findings]) for page, each in reports]
    values = {"lines": lines, "reports": claims}
    return put(folder / PAGE, html.render(PACKAGE, "overview.html.j2", title=title, mark=mark_of(group), **values))


def as_dict(found: Finding) -> dict[str, object]:
    judged = found.judged
    return {
        "claim": judged.claim.title,
        "source": judged.claim.source,
        "verdict": str(judged.verdict),
        "counted": judged.claim.counted,
        "why_not": judged.why_not,
        "cause": asdict(found.cause) if found.cause else None,
        "criteria": [
            {"criterion": criterion.words, "measured": measured}
            for criterion, measured in zip(judged.claim.criteria, judged.measured, strict=True)
        ],
    }


def header(told: Report) -> list[str]:
    """Returns the table's header: a column per measure, with the source's values beside it if it has any."""
    return ["", *(title for each in told.measures for title in (each.title, *["paper"] * _printed(each, told)))]


def cells(told: Report) -> list[list[str]]:
    """Returns a row per variant: its label and steps, then mean and 95 % interval of each measure."""
    rows = []
    for each in told.evidence.variants.values():
        row = [f"{each.label}, {each.steps:,} steps" if each.learning else each.label]
        for measure in told.measures:
            row.append(text(each.estimate(measure.name), measure))
            if _printed(measure, told):
                row.append(plain(each.paper[measure.name], measure) if measure.name in each.paper else "-")
        rows.append(row)
    return rows


def _printed(measure: Measure, told: Report) -> bool:
    return any(measure.name in each.paper for each in told.evidence.variants.values())


def _table(variants: Sequence[VariantEvidence], measures: Sequence[Measure]) -> tuple[list[str], list[list[object]]]:
    """Returns header and rows of the table in SI units, with a row per variant and seed."""
    printed = [each for each in measures if any(each.name in one.paper for one in variants)]
    names = [*(each.name for each in measures), *(f"paper_{each.name}" for each in printed)]
    rows: list[list[object]] = []
    for each in variants:
        for seed in sorted({seed for values in each.numbers.values() for seed in values}):
            measured = [each.numbers.get(one.name, {}).get(seed, "") for one in measures]
            paper = [each.paper.get(one.name, "") for one in printed]
            rows.append([each.name, seed, each.steps if each.learning else "", *measured, *paper])
    return ["variant", "seed", "steps", *names], rows
