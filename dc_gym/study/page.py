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
from dc_gym.study.headlines import JudgedHeadline, summary
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
        return [measure for measure in self.study.measures if any(one.numbers.get(measure.name) for one in variants)]

    @property
    def summary(self) -> str:
        """The number of counted claims with each verdict; empty if none is counted."""
        verdicts = [claim_finding.verdict for claim_finding in self.findings if claim_finding.claim.counted]
        return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in reversed(Verdict) if verdict in verdicts)


def report(study: Study, table: Table, causes: Mapping[str, Cause], evidence: Evidence | None = None, old: str = "") -> Report:
    """Returns the contents of a study's page, from its table or, if it reads other studies' tables, from `evidence`.

    `causes`: by the claims' titles. `old`: why the evidence is not of today; empty if it is.
    """
    derived = study.derive(evidence_of(study, table) if evidence is None else evidence)
    facts = [*study.facts_of(identity.asked(table.options)), ("Seeds", f"{len(table.seeds)}; the same traffic for all variants")]
    facts += table.shortfall.facts()
    if old:
        facts.append(("Old", old))
    findings = [finding(judge(claim, derived), causes) for claim in study.claims]
    notes = study.notes(derived) if callable(study.notes) else study.notes
    return Report(study, table, derived, findings, facts, [*study.told, *notes], old)


def write(folder: Path, report: Report) -> Path:
    """Writes all files of a study's folder, and returns the page's path."""
    study = report.study
    with machine_errors("make", folder):
        folder.mkdir(parents=True, exist_ok=True)
    draw = study.draw or (lambda evidence: drawing.dots(evidence, report.measures[0], study.title))
    kit.save(draw(report.evidence), folder / FIGURE)
    put(folder / TABLE, csv_bytes(*_table(list(report.evidence.variants.values()), study.measures)))
    claims, stored = [as_dict(claim_finding) for claim_finding in report.findings], report.table
    head: dict[str, object] = {"study": study.name, "title": study.title, "dcgym": __version__, "fingerprint": stored.fingerprint}
    head |= {"options": dict(stored.options), "seeds": stored.seeds, "old": report.old, "claims": claims}
    put(folder / CLAIMS, (json.dumps(head, indent=1, ensure_ascii=False) + "\n").encode())
    title, mark = f"{study.name}: {study.title}", mark_of(study.name)
    values = {"report": report, "claims": claims, "columns": header(report), "rows": cells(report)}
    return put(folder / PAGE, html.render(PACKAGE, "page.html.j2", title=title, mark=mark, **values))


def mark_of(name: str) -> str:
    """Returns the mark by which a page is recognized as one of dc-gym's."""
    return f"dcgym study {name}"


def require_places(places: Mapping[str, Path], force: bool) -> None:
    """Raises UsageError if a page of something else would be overwritten, before hours are spent.

    `places`: folders by the name of the study or the group.
    """
    for name, folder in places.items():
        require_place(folder / PAGE, is_marked(mark_of(name)), force=force)


def overview(
    folder: Path, group: str, title: str, reports: Sequence[tuple[str, Report]], rows: Sequence[JudgedHeadline] = ()
) -> Path:
    """Writes one page about a group: its headline statements, a line a study, then all claims.

    `reports` have the paths of their pages below `folder`.
    """
    lines = [(page, report, report.summary or "no claim of the source") for page, report in reports]
    claims = [(page, report, [as_dict(claim_finding) for claim_finding in report.findings]) for page, report in reports]
    values = {"lines": lines, "reports": claims, "headlines": rows, "summary": summary(rows)}
    return put(folder / PAGE, html.render(PACKAGE, "overview.html.j2", title=title, mark=mark_of(group), **values))


def as_dict(claim_finding: Finding) -> dict[str, object]:
    judged = claim_finding.judged
    return {
        "claim": judged.claim.title,
        "source": judged.claim.source,
        "verdict": str(judged.verdict),
        "counted": judged.claim.counted,
        "why_not": judged.why_not,
        "cause": asdict(claim_finding.cause) if claim_finding.cause else None,
        "criteria": [
            {"criterion": criterion.words, "measured": measured}
            for criterion, measured in zip(judged.claim.criteria, judged.measured, strict=True)
        ],
    }


def header(report: Report) -> list[str]:
    """Returns the table's header: a column per measure, with the source's values beside it if it has any."""
    return ["", *(title for measure in report.measures for title in (measure.title, *["paper"] * _printed(measure, report)))]


def cells(report: Report) -> list[list[str]]:
    """Returns a row per variant: its label and steps, then mean and 95 % interval of each measure."""
    rows = []
    for variant in report.evidence.variants.values():
        row = [f"{variant.label}, {variant.steps:,} steps" if variant.learning else variant.label]
        for measure in report.measures:
            row.append(text(variant.estimate(measure.name), measure))
            if _printed(measure, report):
                row.append(plain(variant.paper[measure.name], measure) if measure.name in variant.paper else "-")
        rows.append(row)
    return rows


def _printed(measure: Measure, report: Report) -> bool:
    return any(measure.name in variant.paper for variant in report.evidence.variants.values())


def _table(variants: Sequence[VariantEvidence], measures: Sequence[Measure]) -> tuple[list[str], list[list[object]]]:
    """Returns header and rows of the table in SI units, with a row per variant and seed."""
    printed = [measure for measure in measures if any(measure.name in one.paper for one in variants)]
    names = [*(measure.name for measure in measures), *(f"paper_{measure.name}" for measure in printed)]
    rows: list[list[object]] = []
    for variant in variants:
        for seed in sorted({seed for values in variant.numbers.values() for seed in values}):
            measured = [variant.numbers.get(one.name, {}).get(seed, "") for one in measures]
            paper = [variant.paper.get(one.name, "") for one in printed]
            rows.append([variant.name, seed, variant.steps if variant.learning else "", *measured, *paper])
    return ["variant", "seed", "steps", *names], rows
