# SPDX-License-Identifier: Apache-2.0
"""Writes the folder of a figure (figure.png, table.csv, claims.json, index.html), and one page of all claims."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from dc_gym import __version__
from dc_gym.base.files import put, words
from dc_gym.base.outputs import is_marked, require_place
from dc_gym.figures import kit
from dc_gym.reproduce.claims import Verdict, plain, text
from dc_gym.reproduce.evidence import Column, Contender
from dc_gym.reproduce.findings import Findings

FIGURE, TABLE, CLAIMS, PAGE = "figure.png", "table.csv", "claims.json", "index.html"
OVERVIEW = "all claims"


def write(folder: Path, paper: str, number: str, findings: Findings) -> Path:
    """Writes all files and returns the page's path."""
    with words("make", folder):
        folder.mkdir(parents=True, exist_ok=True)
    kit.save(findings.figure, folder / FIGURE)
    put(folder / TABLE, _table(findings.contenders, findings.columns).encode())
    told: dict[str, object] = {"paper": paper, "figure": number, "title": findings.title, "dcgym": __version__}
    told["claims"] = [as_dict(each) for each in findings.verdicts]
    put(folder / CLAIMS, (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode())
    head, rows = header(findings), cells(findings)
    values = {"paper": paper, "number": number, "findings": findings, "head": head, "rows": rows}
    return put(folder / PAGE, _render("page.html.j2", mark=mark_of(f"{paper} {number}"), **values))


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
        told = [json.loads((each / CLAIMS).read_text()) | {"page": str((each / PAGE).relative_to(folder))} for each in figures]
        parts.append((title, told))
    return put(folder / PAGE, _render("overview.html.j2", mark=mark_of(OVERVIEW), papers=parts))


def _render(template: str, **values: object) -> bytes:
    environment = Environment(
        loader=PackageLoader("dc_gym.reproduce"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values, version=__version__).encode()


def as_dict(verdict: Verdict) -> dict[str, object]:
    return {
        "claim": verdict.claim.text,
        "source": verdict.claim.source,
        "state": str(verdict.state),
        "steps": verdict.steps,
        "why": verdict.why,
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


def _printed(column: Column, findings: Findings) -> bool:
    """Returns whether the paper has numbers of this quantity."""
    return any(column.name in each.paper for each in findings.contenders)


def _table(contenders: Sequence[Contender], columns: Sequence[Column]) -> str:
    """Returns the CSV table in SI units, with a row per contestant and seed."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    printed = [column for column in columns if any(column.name in each.paper for each in contenders)]
    names = [*(column.name for column in columns), *(f"paper_{column.name}" for column in printed)]
    writer.writerow(["contestant", "seed", "steps", *names])
    for each in contenders:
        seeds = sorted({seed for values in each.numbers.values() for seed in values})
        for seed in seeds:
            values = [each.numbers.get(column.name, {}).get(seed, "") for column in columns]
            values += [each.paper.get(column.name, "") for column in printed]
            writer.writerow([each.name, seed, each.steps if each.learning else "", *values])
    return stream.getvalue()
