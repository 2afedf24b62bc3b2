# SPDX-License-Identifier: Apache-2.0
"""The evidence of a study as sorted text: a file EVIDENCE/GROUP/NAME.tsv that git keeps, and from which everything is made.

study           acc/figure-9                 the head: a name and its value a line
fingerprint     57887c60a1b2c3d4             of the environment in which it was made
...

variant  measure            1       2       3      after an empty line: a column a seed
ACC      iops               258123  258007  -      integers, or six digits; - where nothing was measured
ACC      iops @over time    0 1 2   ...            a track, four digits: as many values as the row `x @over time` of the variant
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.errors import UsageError
from dc_gym.base.files import machine_errors, put
from dc_gym.study.evidence import Evidence, Sample, Shortfall, Track, VariantEvidence
from dc_gym.study.model import Study, Variant

ENDING = ".tsv"
NONE = "-"
DIGITS, TRACK_DIGITS = 6, 4
TIME, LEARNING, MOST = "over time", "learning", "bound"
"""Kinds of tracks: of a run, of a training, and the upper bounds of a run's."""
X = "x"
TEXTS = ("study", "fingerprint", "runs", "measures")
"""Lines of the head that are plain texts."""
LONG = ("study", "variant", "seed", "measure", "value", "fingerprint")
"""Columns of the long table."""


@dataclass(frozen=True, slots=True)
class Table:
    """The contents of a file of evidence."""

    study: str
    fingerprint: str
    """Fingerprint of the environment in which the runs were made."""
    runs: str
    """Identity of the specs (identity.py)."""
    measures: str
    """Identity of the code that measures them."""
    environment: Mapping[str, str]
    options: Mapping[str, Any]
    """Options of the command that change the runs."""
    shortfall: Shortfall
    paper_steps: int
    sample: Sample | None
    rows: Mapping[tuple[str, str], Mapping[int, str]] = field(default_factory=dict)
    """Cells by variant, measure and seed."""

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for row in self.rows.values() for seed in row})


def path_of(folder: Path, study: str, full: bool) -> Path:
    return folder / f"{study}{'-full' if full else ''}{ENDING}"


def cells(evidence: Evidence) -> dict[tuple[str, str], dict[int, str]]:
    """Returns the cells of a table, by variant, measure and seed."""
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for variant in evidence.variants.values():
        for measure, values in variant.numbers.items():
            rows[variant.name, measure] = {seed: _number(value) for seed, value in values.items()}
        for kind, tracks in ((TIME, variant.over_time), (LEARNING, variant.learning)):
            for seed, track in tracks.items():
                for name, row in {X: track.x, **track.values}.items():
                    digits = DIGITS if name == X else TRACK_DIGITS
                    rows.setdefault((variant.name, f"{name} @{kind}"), {})[seed] = " ".join(
                        _number(value, digits) for value in row
                    )
                for name, most in track.most.items():
                    rows.setdefault((variant.name, f"{name} @{MOST}"), {})[seed] = _number(most)
    return rows


def _number(value: float, digits: int = DIGITS) -> str:
    """Formats a value. With fewer digits a large one is rounded to an integer, which is shorter than an exponent."""
    if not math.isfinite(value):
        return NONE
    if digits < DIGITS:
        value = float(f"{value:.{digits}g}")
    return str(int(value)) if float(value).is_integer() and abs(value) < 10**15 else f"{value:.{DIGITS}g}"


def write(folder: Path, table: Table, full: bool) -> Path:
    """Writes the file of a study's evidence, and returns its path."""
    path = path_of(folder, table.study, full)
    with machine_errors("make", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    return put(path, _text(table).encode())


def _text(table: Table) -> str:
    head = {name: getattr(table, name) for name in TEXTS} | {
        "environment": json.dumps(dict(table.environment)),
        "options": json.dumps(dict(table.options)),
        "shorter": json.dumps(astuple(table.shortfall)),
        "paper_steps": str(table.paper_steps),
        "sample": json.dumps(astuple(table.sample) if table.sample else []),
    }
    seeds = table.seeds
    lines = [f"{name}\t{value}" for name, value in head.items()]
    lines += ["", "\t".join(["variant", "measure", *map(str, seeds)])]
    lines += ["\t".join([*key, *(row.get(seed, NONE) for seed in seeds)]) for key, row in sorted(table.rows.items())]
    return "\n".join(lines) + "\n"


def read(path: Path) -> Table:
    """Reads a file of evidence.

    Raises:
        UsageError: it is not there, or is something else.
    """
    try:
        head, _, body = path.read_text().partition("\n\n")
    except (OSError, UnicodeDecodeError) as error:
        why = "no evidence yet" if isinstance(error, FileNotFoundError) else "no file of evidence"
        raise UsageError(f"{path}: {why}; `dcgym study run` makes it") from None
    try:
        fields = dict(line.split("\t", 1) for line in head.splitlines())
        names, *lines = (line.split("\t") for line in body.splitlines())
        seeds = [int(seed) for seed in names[2:]]
        rows = {
            (variant, measure): {seed: cell for seed, cell in zip(seeds, row, strict=True) if cell != NONE}
            for variant, measure, *row in lines
        }
        sample = json.loads(fields["sample"])
        return Table(
            **{name: fields[name] for name in TEXTS},
            environment=dict(json.loads(fields["environment"])),
            options=dict(json.loads(fields["options"])),
            shortfall=Shortfall(*json.loads(fields["shorter"])),
            paper_steps=int(fields["paper_steps"]),
            sample=Sample(*sample) if sample else None,
            rows=rows,
        )
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path}: not a file of evidence of this version; `dcgym study run` makes it anew") from None


def evidence_of(study: Study, table: Table) -> Evidence:
    """Returns a table as evidence: with the styles and the printed values of the study's variants."""
    rows: dict[str, dict[str, Mapping[int, str]]] = {variant.name: {} for variant in study.variants}  # in the order of the study
    for (name, measure), row in table.rows.items():
        rows.setdefault(name, {})[measure] = row
    known = {variant.name: variant for variant in study.variants}
    variants = {name: _variant(known.get(name) or Variant(name), measures) for name, measures in rows.items() if measures}
    return Evidence(variants, table.paper_steps, table.shortfall)


def _variant(variant: Variant, rows: Mapping[str, Mapping[int, str]]) -> VariantEvidence:
    numbers: dict[str, dict[int, float]] = {}
    columns: dict[str, dict[int, dict[str, np.ndarray]]] = {TIME: {}, LEARNING: {}}
    most: dict[int, dict[str, float]] = {}
    for measure, row in rows.items():
        name, _, kind = measure.rpartition(" @")
        for seed, cell in row.items():
            if kind == MOST:
                most.setdefault(seed, {})[name] = _value(cell)
            elif kind in columns and name:
                columns[kind].setdefault(seed, {})[name] = np.array([_value(word) for word in cell.split(" ") if word])
            else:
                numbers.setdefault(measure, {})[seed] = _value(cell)
    tracks = {
        kind: {seed: Track(values.pop(X), values, most.get(seed, {}) if kind == TIME else {}) for seed, values in by_seed.items()}
        for kind, by_seed in columns.items()
    }
    return variant.evidence(numbers, tracks[TIME], tracks[LEARNING])


def _value(cell: str) -> float:
    return math.nan if cell == NONE else float(cell)


def merged(tables: Sequence[tuple[Study, Table]]) -> Evidence:
    """Returns the evidence of several studies as one. If variants have the same name, the first counts."""
    parts = [study.derive(evidence_of(study, table)) for study, table in tables]
    variants: dict[str, VariantEvidence] = {}
    for part in reversed(parts):
        variants |= part.variants
    return Evidence(variants, max(part.paper_steps for part in parts), Evidence.shortfall_of(parts))


def write_parquet(path: Path, tables: Sequence[Table]) -> Path:
    """Writes tables as one long table in Parquet: a row a number. Tracks are left out."""
    from pyarrow import parquet
    from pyarrow import table as columns

    rows = [
        (evidence_table.study, variant, seed, measure, _value(cell), evidence_table.fingerprint)
        for evidence_table in tables
        for (variant, measure), row in sorted(evidence_table.rows.items())
        if " @" not in measure
        for seed, cell in sorted(row.items())
    ]
    with machine_errors("write", path):
        parquet.write_table(columns(dict(zip(LONG, map(list, zip(*rows, strict=True)), strict=True))), path)
    return path
