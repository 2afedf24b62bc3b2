# SPDX-License-Identifier: Apache-2.0
"""`dcgym compare A B`: the metrics of two results side by side, and whether the two are the same run to the bit.

Both must be of a version that `load_result` reads, and their digests of one version. The experiments may differ; comparing
different experiments is the purpose of the command. If they are the same experiment and the results differ, it names the first
differing record.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from dc_gym.base import readable, terminal
from dc_gym.base.errors import ResultError
from dc_gym.base.terminal import say
from dc_gym.results.divergence import Difference, first_difference
from dc_gym.results.figures import styles
from dc_gym.results.metrics import classes
from dc_gym.results.results import Result, load_result

__all__ = ["Comparison", "MetricRow", "compare", "main", "show"]

if TYPE_CHECKING:
    from rich.console import Console

DIGITS, DIGITS_OF_RATIO = 5, 4
UNITS = {"_bps": "bit/s", "_bytes": "B", "_us": "us", "_s": "s"}
Value = int | float | str | None


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric in both results."""

    name: str
    unit: str
    a: Value
    b: Value
    difference: float | None
    """b - a. None unless both are numbers."""
    ratio: float | None
    """b / a. None unless both are numbers and a is not 0."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two results."""

    a: str
    b: str
    controllers: tuple[str, str]
    """The policy or controller of each, by its name in figures: "fair-share over CUBIC"."""
    rows: tuple[MetricRow, ...]
    same_spec: bool
    same_inputs: bool
    """True if the specs read equal files: flow matrix, sizes, Python files."""
    same_fingerprint: bool
    same_digest: bool
    same_agents: bool | None
    """True if agents did and learned the same; None if no agent acted in either."""
    first_difference: Difference | None
    """Determined only for runs of the same spec and inputs with different digests."""

    def to_json(self) -> str:
        """Returns one JSON object."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)


def compare(a: Result, b: Result) -> Comparison:
    """Returns the comparison of two results. Raises ResultError if their digests are of different versions."""
    versions = [result.manifest.get("digest_version", 1) for result in (a, b)]
    if versions[0] != versions[1]:
        raise ResultError(f"{a.path} has a digest of version {versions[0]}, {b.path} of {versions[1]}; run one of them again")
    same_spec = a.manifest.get("spec") == b.manifest.get("spec")
    same_inputs = a.inputs == b.inputs
    same_digest, agents = a.digest == b.digest, (a.agent_digest, b.agent_digest)
    return Comparison(
        a=str(a.path),
        b=str(b.path),
        controllers=(_controller(a), _controller(b)),
        rows=_rows(a.summary, b.summary),
        same_spec=same_spec,
        same_inputs=same_inputs,
        same_fingerprint=a.manifest.get("fingerprint") == b.manifest.get("fingerprint"),
        same_digest=same_digest,
        same_agents=agents[0] == agents[1] if any(agents) else None,
        first_difference=first_difference(a.tables, b.tables) if same_spec and same_inputs and not same_digest else None,
    )


def _controller(result: Result) -> str:
    styles.remember(result.manifest)
    return styles.label_of_section(result.controller)


def main(args: Namespace) -> int:
    """Compares the result folders `args.a` and `args.b`. With `args.json` it prints one JSON object."""
    return show(args.a, args.b, args.json)


def show(folder_a: Path, folder_b: Path, as_json: bool = False) -> int:
    """Prints the comparison to standard output. Returns 0 in any case, since two results may differ."""
    comparison = compare(load_result(folder_a), load_result(folder_b))
    if as_json:
        say(comparison.to_json())
    else:
        _show(comparison, terminal.console())
    return 0


def _rows(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[MetricRow, ...]:
    """Returns the metrics of either result, including the metrics of classes of flows. Other lists are left out."""
    a, b = ({**summary, **classes.flat(summary)} for summary in (a, b))
    names = [name for name in dict.fromkeys((*a, *b)) if not isinstance(a.get(name, b.get(name)), list)]
    return tuple(_row(name, a.get(name), b.get(name)) for name in names)


def _row(name: str, a: Value, b: Value) -> MetricRow:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return MetricRow(name, _unit(name), a, b, None, None)
    return MetricRow(name, _unit(name), a, b, b - a, b / a if a else None)


def _unit(name: str) -> str:
    return next((unit for ending, unit in UNITS.items() if name.endswith(ending)), "")


def _show(comparison: Comparison, console: Console) -> None:
    """Prints the table, and in words whether specs, fingerprints and digests are equal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in (
        ("metric", "left"),
        ("A", "right"),
        ("B", "right"),
        ("B - A", "right"),
        ("B / A", "right"),
        ("", "left"),
    ):
        table.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=True)
    for row in comparison.rows:
        if row.a is not None or row.b is not None:
            table.add_row(*_cells(row))
    for label, path, controller in zip("AB", (comparison.a, comparison.b), comparison.controllers, strict=True):
        console.print(f"{label}  {path} ({controller})", markup=False, highlight=False, soft_wrap=True)
    console.print(table)
    for line in _verdict(comparison):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _verdict(comparison: Comparison) -> list[str]:
    same = {True: "equal", False: "different"}
    spec = same[comparison.same_spec] + ("" if comparison.same_inputs else ", files that it reads different")
    lines = [f"spec {spec}, fingerprint {same[comparison.same_fingerprint]}, digest {same[comparison.same_digest]}"]
    if comparison.same_agents is not None:
        lines[0] += f", agent digest {same[comparison.same_agents]}"
    if comparison.first_difference is not None:
        lines.append(f"first difference, A and B: {comparison.first_difference}")
    return lines


def _cells(row: MetricRow) -> tuple[str, ...]:
    """Returns a row for readers: both values and their difference in one unit, '-' where a value is missing."""
    known = [value for value in (row.a, row.b) if isinstance(value, int | float)]
    scale = readable.scale_of(readable.family_of(row.name), known)

    def text_of(value: Value, digits: int) -> str:
        return (
            value if isinstance(value, str) else readable.NOTHING if value is None else readable.number(scale.of(value), digits)
        )

    difference = "" if row.difference is None else text_of(row.difference, DIGITS_OF_RATIO)
    ratio = "" if row.ratio is None else readable.number(row.ratio, DIGITS_OF_RATIO)
    return row.name, text_of(row.a, DIGITS), text_of(row.b, DIGITS), difference, ratio, scale.unit
