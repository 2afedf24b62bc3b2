# SPDX-License-Identifier: Apache-2.0
"""Writes the folder of a figure (figure.png, table.csv, claims.json, index.html), and one page of all claims."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from dc_gym import __version__
from dc_gym.base import plain_json
from dc_gym.base.files import csv_bytes, machine_errors, put
from dc_gym.base.outputs import is_marked, require_place
from dc_gym.figures import kit
from dc_gym.pages import html
from dc_gym.reproduce.claims import ClaimVerdict, plain, text
from dc_gym.reproduce.evidence import Contender, Quantity
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.provenance import Provenance

PACKAGE = "dc_gym.reproduce"
FIGURE, TABLE, CLAIMS, PAGE = "figure.png", "table.csv", "claims.json", "index.html"
OVERVIEW = "all claims"


def write(folder: Path, paper: str, number: str, findings: Findings, provenance: Provenance) -> Path:
    """Writes all files and returns the page's path."""
    with machine_errors("make", folder):
        folder.mkdir(parents=True, exist_ok=True)
    kit.save(findings.figure, folder / FIGURE)
    put(folder / TABLE, csv_bytes(*_table(findings.contenders, findings.columns)))
    claims = [as_dict(each) for each in findings.verdicts]
    told = {"paper": paper, "figure": number, "title": findings.title, "dcgym": __version__, **provenance.as_dict()}
    told |= {"seeds": seeds(findings), "claims": claims}
    put(folder / CLAIMS, (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode())
    title, mark = f"{paper} {number}: {findings.title}", mark_of(f"{paper} {number}")
    values = {"findings": findings, "claims": claims, "columns": header(findings), "rows": cells(findings)}
    return put(folder / PAGE, html.render(PACKAGE, "page.html.j2", title=title, mark=mark, **values))


def seeds(findings: Findings) -> list[int]:
    """Returns the seeds, or repetitions, of which the figure has numbers."""
    return sorted({seed for each in findings.contenders for values in each.numbers.values() for seed in values})


def mark_of(what: str) -> str:
    """Returns the mark by which a page is recognized as one of dc-gym's."""
    return f"dcgym reproduce {what}"


def require_places(out: Path, places: Mapping[str, Path], force: bool) -> None:
    """Raises UsageError if a page of something else would be overwritten, before hours are spent. `places`: folders by mark."""
    for mark, folder in {mark_of(OVERVIEW): out, **places}.items():
        require_place(folder / PAGE, is_marked(mark), force=force)


def overview(folder: Path, papers: Mapping[str, Sequence[Path]]) -> Path:
    """Writes one page of the claims of all figures that have been run.

    `papers`: each paper's title, with the folders of its figures below `folder`.
    """
    parts = []
    for title, figures in papers.items():
        told = [plain_json.read(each / CLAIMS) | {"page": str((each / PAGE).relative_to(folder))} for each in figures]
        parts.append((title, told))
    text = html.render(PACKAGE, "overview.html.j2", title="Papers, reproduced", mark=mark_of(OVERVIEW), papers=parts)
    return put(folder / PAGE, text)


def as_dict(verdict: ClaimVerdict) -> dict[str, object]:
    return {
        "claim": verdict.claim.title,
        "variant": verdict.claim.variant,
        "source": verdict.claim.source,
        "state": str(verdict.state),
        "steps": verdict.steps,
        "ours": verdict.claim.ours,
        "why": verdict.why,
        "explanation": asdict(verdict.explanation) if verdict.explanation else None,
        "criteria": [
            {"criterion": criterion.words, "measured": measured}
            for criterion, measured in zip(verdict.claim.criteria, verdict.measured, strict=True)
        ],
    }


def header(findings: Findings) -> list[str]:
    """Returns the table's header: a column per quantity, with the paper's values beside it if it has any."""
    return ["", *(title for column in findings.columns for title in (column.title, *["paper"] * _printed(column, findings)))]


def cells(findings: Findings) -> list[list[str]]:
    """Returns a row per contestant: its label and steps, then mean and 95 % interval of each quantity."""
    rows = []
    for each in findings.contenders:
        row = [f"{each.label}, {each.steps:,} steps" if each.learning else each.label]
        for column in findings.columns:
            row.append(text(each.estimate(column.name), column))
            if _printed(column, findings):
                row.append(plain(each.paper[column.name], column) if column.name in each.paper else "-")
        rows.append(row)
    return rows


def _printed(column: Quantity, findings: Findings) -> bool:
    """Returns whether the paper has numbers of this quantity."""
    return any(column.name in each.paper for each in findings.contenders)


def _table(contenders: Sequence[Contender], columns: Sequence[Quantity]) -> tuple[list[str], Iterator[list[object]]]:
    """Returns header and rows of the table in SI units, with a row per contestant and seed."""
    printed = [column for column in columns if any(column.name in each.paper for each in contenders)]
    names = [*(column.name for column in columns), *(f"paper_{column.name}" for column in printed)]

    def rows() -> Iterator[list[object]]:
        for each in contenders:
            for seed in sorted({seed for values in each.numbers.values() for seed in values}):
                measured = [each.numbers.get(column.name, {}).get(seed, "") for column in columns]
                paper = [each.paper.get(column.name, "") for column in printed]
                yield [each.name, seed, each.steps if each.learning else "", *measured, *paper]

    return ["contestant", "seed", "steps", *names], rows()
