# SPDX-License-Identifier: Apache-2.0
"""Figures whose networks run at their paper's own rate: a row is a spec, which runs once for each seed.

    ROWS = [OwnRateRow(f"K = {k}", {**COMMON, "topology.k_bytes": k}) for k in (50_000, 500_000)]

    def run(options, progress):
        evidence = own_rate.run("acc-incast", ROWS, options, progress, measure)
        return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, figure(evidence), NOTES)

All rows of a figure have the same traffic for a seed. Runs are in DIR/NAME/runs; those of --full are in DIR/NAME-full/runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from dc_gym import spec as specs
from dc_gym.base.files import machine_errors, put
from dc_gym.base.progress import Progress
from dc_gym.base.units import FRAME_BYTES, format_time, parse_time_ns
from dc_gym.benchmarks.papers.rlcc.common import WARMUP_PART, folder
from dc_gym.records.results import Result
from dc_gym.reproduce import runs
from dc_gym.reproduce.claims import Claim, judge
from dc_gym.reproduce.evidence import Contender, Evidence, Quantity, Shortfall, Track, fewer
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.spec import Spec
from dc_gym.sweep.grid import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dc_gym.nets.nic_policy import NicPolicy

SEEDS = 5
PAYLOAD_BYTES = 1440
"""Payload of a NIC's full frame."""
Bytes = TypeVar("Bytes", int, npt.NDArray[np.unsignedinteger])
Measure = Callable[[Result], dict[str, float]]


@dataclass(frozen=True, slots=True)
class OwnRateRow:
    """One spec of a figure."""

    name: str
    values: Mapping[str, Any]
    """Dotted keys of the spec, with `time.duration` and `time.warmup`."""
    color: str = "#555555"
    label: str = ""
    """Name on the page; empty: the row's name."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """The paper's values, by quantity."""
    full: Mapping[str, Any] = field(default_factory=dict)
    """The keys that --full changes."""
    by_seed: Mapping[str, str] = field(default_factory=dict)
    """Keys whose values depend on the seed, which stands in them as `{seed}`."""

    def asked(self, full: bool) -> dict[str, Any]:
        """Returns the keys of the spec that all seeds share, of the paper's own length if `full`."""
        return {**self.values, **(self.full if full else {})}


def seeds_of(options: ReproduceOptions) -> range:
    return range(1, (options.seeds or SEEDS) + 1)


def run(
    name: str,
    rows: Sequence[OwnRateRow],
    options: ReproduceOptions,
    progress: Progress,
    measure: Measure,
    track: Callable[[Result], Track] | None = None,
    files: Mapping[str, str | NicPolicy] | None = None,
) -> Evidence:
    """Runs what is missing and returns the evidence. `files` are those that the specs read, with their contents."""
    place = folder(name, options)
    with machine_errors("make", place):
        place.mkdir(parents=True, exist_ok=True)
    write(place, files or {})
    seeds = seeds_of(options)
    points = {(row.name, seed): _point(name, row, options, seed) for row in rows for seed in seeds}
    found = runs.run_all(name, ("row", "seed"), list(points.values()), place, options, progress)
    progress.phase("measuring")
    by_row = {row.name: {seed: found[points[row.name, seed].name] for seed in seeds} for row in rows}
    made = {row.name: _contender(row, by_row[row.name], measure, track) for row in rows}
    return Evidence(made, shortfall=_shortfall(rows, options))


def write(place: Path, files: Mapping[str, str | NicPolicy]) -> None:
    """Writes the files that a figure's specs read."""
    for file, content in files.items():
        if isinstance(content, str):
            put(place / file, content.encode())
        else:
            content.write(place / file)


def _point(figure: str, row: OwnRateRow, options: ReproduceOptions, seed: int) -> Point:
    slug = "-".join("".join(letter if letter.isalnum() else " " for letter in row.name).split())
    return Point(f"{slug}-s{seed}", {"row": row.name, "seed": seed}, _spec(figure, row, options, seed))


def _spec(figure: str, row: OwnRateRow, options: ReproduceOptions, seed: int) -> Spec:
    own = {key: value.format(seed=seed) for key, value in row.by_seed.items()}
    values = {**row.asked(options.full), **own, "metrics.slowdown": "off", "ground": options.ground, "seed": seed}
    if options.duration:
        duration_ns = parse_time_ns(options.duration, "--duration")
        values |= {"time.duration": options.duration, "time.warmup": format_time(duration_ns // WARMUP_PART)}
        if cutoff := values.get("metrics.cutoff"):
            values["metrics.cutoff"] = format_time(min(duration_ns, parse_time_ns(cutoff)))
    keys = specs.not_given(values, options.overrides)
    return specs.vary({"name": row.name}, folder(figure, options), "reproduce", options.overrides, keys, "reproduce")


def _contender(
    row: OwnRateRow, results: Mapping[int, Result], measure: Measure, track: Callable[[Result], Track] | None
) -> Contender:
    by_seed = {seed: measure(result) for seed, result in results.items()}
    names = dict.fromkeys(name for each in by_seed.values() for name in each)
    return Contender(
        row.name,
        row.label or row.name,
        row.color,
        {name: {seed: each[name] for seed, each in by_seed.items() if np.isfinite(each.get(name, np.nan))} for name in names},
        over_time={seed: track(result) for seed, result in results.items()} if track else {},
        paper=row.paper,
    )


def wire_bytes(size_bytes: Bytes) -> Bytes:
    """Returns the bytes of all frames of a NIC's message, without telemetry."""
    return size_bytes + (size_bytes + (PAYLOAD_BYTES - 1)) // PAYLOAD_BYTES * (FRAME_BYTES - PAYLOAD_BYTES)


def _shortfall(rows: Sequence[OwnRateRow], options: ReproduceOptions) -> Shortfall:
    own, asked = [str(row.asked(options.full)["time.duration"]) for row in rows], options.duration
    longest = max(own, key=parse_time_ns)
    shorter = asked is not None and parse_time_ns(asked, "--duration") < parse_time_ns(longest)
    return Shortfall(
        runs=f"runs of {asked} instead of {longest}" if shorter else "", seeds=fewer("seed", options.seeds or SEEDS, SEEDS)
    )


def findings(
    title: str,
    facts: Sequence[tuple[str, str]],
    options: ReproduceOptions,
    evidence: Evidence,
    columns: Sequence[Quantity],
    claims: Sequence[Claim],
    figure: Figure,
    notes: Sequence[str] = (),
) -> Findings:
    """Returns the contents of the figure's page. `facts` say how it was run; the seeds and what is shorter are added."""
    told = [*facts, ("Seeds", f"{options.seeds or SEEDS}; the same traffic for all rows"), *evidence.shortfall.facts()]
    contenders = list(evidence.contenders.values())
    return Findings(title, told, contenders, columns, [judge(each, evidence) for each in claims], figure, notes)
