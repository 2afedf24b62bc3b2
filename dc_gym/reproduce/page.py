# SPDX-License-Identifier: Apache-2.0
"""The folder of a figure: figure.png, table.csv, claims.json, and index.html with all of it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from dc_gym import __version__
from dc_gym.figures import plots
from dc_gym.folder import put, words
from dc_gym.reproduce.claims import Verdict, text
from dc_gym.reproduce.findings import Column, Contender, Findings

FIGURE, TABLE, CLAIMS, PAGE = "figure.png", "table.csv", "claims.json", "index.html"


def write(folder: Path, paper: str, number: str, findings: Findings) -> Path:
    """All files; the page's path."""
    with words("make", folder):
        folder.mkdir(parents=True, exist_ok=True)
    plots.save(findings.figure, folder / FIGURE)
    put(folder / TABLE, _table(findings.contenders, findings.columns).encode())
    plain = {"paper": paper, "figure": number, "dcgym": __version__, "claims": [as_dict(each) for each in findings.verdicts]}
    put(folder / CLAIMS, (json.dumps(plain, indent=1, ensure_ascii=False) + "\n").encode())
    environment = Environment(
        loader=PackageLoader("dc_gym.reproduce"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template("page.html.j2").render(
        paper=paper, number=number, findings=findings, rows=cells(findings.contenders, findings.columns), version=__version__
    )
    return put(folder / PAGE, page.encode())


def as_dict(verdict: Verdict) -> dict[str, object]:
    return {
        "claim": verdict.claim.text,
        "source": verdict.claim.source,
        "state": str(verdict.state),
        "steps": verdict.steps,
        "criteria": [
            {"criterion": criterion.words, "measured": measured}
            for criterion, measured in zip(verdict.claim.criteria, verdict.measured, strict=True)
        ],
    }


def cells(contenders: Sequence[Contender], columns: Sequence[Column]) -> list[list[str]]:
    """A row a contestant: its label and steps, then mean and 95 % interval of each quantity."""
    rows = []
    for each in contenders:
        label = f"{each.label}, {each.steps:,} steps" if each.learning else each.label
        rows.append([label, *(text(each.estimate(column.name), column) for column in columns)])
    return rows


def _table(contenders: Sequence[Contender], columns: Sequence[Column]) -> str:
    """In SI units: a row a contestant and seed."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["contestant", "seed", "steps", *(column.name for column in columns)])
    for each in contenders:
        seeds = sorted({seed for values in each.numbers.values() for seed in values})
        for seed in seeds:
            values = [each.numbers.get(column.name, {}).get(seed, "") for column in columns]
            writer.writerow([each.name, seed, each.steps if each.learning else "", *values])
    return stream.getvalue()
