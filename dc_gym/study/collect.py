# SPDX-License-Identifier: Apache-2.0
"""Runs the specs of a study's variants, one run a variant and seed, and measures them.

All variants have the same traffic for a seed. Runs are a sweep in OUT/RUNS/runs, which resumes where it was stopped; runs of
`--length full` are in OUT/RUNS-full/runs, runs of the host ground in OUT/RUNS-host/runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dc_gym import spec as specs
from dc_gym.base.errors import TestbedError
from dc_gym.base.files import in_full, machine_errors, put
from dc_gym.base.progress import Progress
from dc_gym.base.units import FRAME_BYTES, format_time, parse_time_ns
from dc_gym.results import results
from dc_gym.results.results import Result
from dc_gym.run import sweep
from dc_gym.run.sweep.grid import Grid, Point
from dc_gym.run.sweep.state import RunState, Status
from dc_gym.spec import Spec
from dc_gym.study.evidence import Evidence, Sample, Shortfall, Track, VariantEvidence, fewer
from dc_gym.study.model import Collect, Collected, Files, Study, StudyOptions, Variant

PAYLOAD_BYTES = 1440
"""Payload of a NIC's full frame."""
WARMUP_PART = 4
"""The warm-up is 1/4 of a duration that the command gives."""
FOLDER = "runs"
Bytes = TypeVar("Bytes", int, npt.NDArray[np.unsignedinteger])


class SpecRuns:
    """Collects a study by a run of the spec for each variant and seed."""

    def __call__(self, study: Study, options: StudyOptions, progress: Progress) -> Collected:
        runs_folder, variants = folder(study.runs_folder, options), study.chosen(options)
        seeds = range(1, (options.seeds or study.seeds) + 1)
        write(runs_folder, study.files_of(seeds))
        points = {(variant.name, seed): point(study, variant, options, seed) for variant in variants for seed in seeds}
        results_of = run_all(study.name, ("variant", "seed"), list(points.values()), runs_folder, options, progress)
        runs = {run_key: results_of[run_point.name] for run_key, run_point in points.items()}
        progress.phase("measuring")
        by_name = {
            variant.name: measured(study, variant, {seed: runs[variant.name, seed] for seed in seeds}) for variant in variants
        }
        evidence = Evidence(by_name, shortfall=shortfall(study, variants, options))
        return Collected(evidence, sample_of(study, variants, runs, options))

    def repeat(self, study: Study, sample: Sample, options: StudyOptions, progress: Progress) -> str:
        runs_folder = folder(study.runs_folder, options)
        write(runs_folder, study.files_of([sample.seed]))
        variant = next(candidate for candidate in study.variants if candidate.name == sample.variant)
        return repeated(point(study, variant, options, sample.seed), runs_folder, options, progress)


def collector(study: Study) -> Collect:
    """Returns the maker of a study's rows."""
    return study.collect or SpecRuns()


def repeated(point: Point, runs_folder: Path, options: StudyOptions, progress: Progress) -> str:
    """Returns the digest of a run that is made anew."""
    return run_all(point.name, tuple(point.values), [point], runs_folder, options, progress)[point.name].digest


def sample_of(
    study: Study, variants: Sequence[Variant], runs: Mapping[tuple[str, int], Result], options: StudyOptions
) -> Sample | None:
    """Returns the run that stands for the study when it is carried over: the shortest variant with the first seed."""
    if not variants:
        return None
    seed = min(seed for _, seed in runs)
    shortest = min(variants, key=lambda variant: parse_time_ns(str(study.keys(variant, options.full)["time.duration"])))
    return Sample(shortest.name, seed, runs[shortest.name, seed].digest)


def folder(name: str, options: StudyOptions) -> Path:
    """Returns the folder of a study's runs. Full runs and host runs have their own."""
    return options.out / (name + ("-full" if options.full else "") + ("-host" if options.ground == "host" else ""))


def write(runs_folder: Path, files: Files) -> None:
    """Writes the files that a study's specs read."""
    with machine_errors("make", runs_folder):
        runs_folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        if isinstance(content, str):
            put(runs_folder / file, content.encode())
        else:
            content.write(runs_folder / file)


def flow_list(rows: Iterable[str]) -> str:
    """Returns a file for `workload.kind = "matrix"`. `rows`: source, destination, port, start, stop and size, with commas."""
    return "\n".join(["source,destination,port,start,stop,size", *rows]) + "\n"


def to_next_rack(racks: int, hosts_per_rack: int, size_bytes: int, queue_pairs: int) -> str:
    """Returns a flow list: each host sends `size_bytes`, over its queue pairs, to the same place in the next rack."""
    hosts = racks * hosts_per_rack
    pairs = [(host + 1, (host + hosts_per_rack) % hosts + 1) for host in range(hosts) for _ in range(queue_pairs)]
    return flow_list(f"h{source},h{to},5001,0,0,{size_bytes // queue_pairs}" for source, to in pairs)


def run_all(
    name: str, keys: tuple[str, ...], points: Sequence[Point], runs_folder: Path, options: StudyOptions, progress: Progress
) -> dict[str, Result]:
    """Makes the missing results, and returns all of them by the points' names. Raises TestbedError if a run failed.

    `name` and `keys` belong to the sweep, whose folder lies in `runs_folder`.
    """
    out, ended = in_full(runs_folder / FOLDER), statuses(name, keys, points, runs_folder, options, progress)
    for status in ended:
        if status.state is not RunState.DONE:
            why = (status.message.splitlines() or ["no message"])[0]
            raise TestbedError(
                f"{out / status.point.name} {status.state}: {why}; "
                f"{'the same command' if options.retry else '--retry'} runs it again"
            )
    return {status.point.name: results.load_result(out / status.point.name) for status in ended}


def statuses(
    name: str, keys: tuple[str, ...], points: Sequence[Point], runs_folder: Path, options: StudyOptions, progress: Progress
) -> list[Status]:
    """Makes the missing results, and returns how all runs ended."""
    if options.address is None:
        where = sweep.local(1 if options.ground == "host" else options.jobs)
    else:
        where = importlib.import_module("dc_gym.run.sweep.cluster").connect(options.address, options.jobs)
    grid, out = Grid(name, keys, tuple(points)), in_full(runs_folder / FOLDER)
    return sweep.run_grid(grid, out, where, progress, retry=options.retry, force=options.force)


def slug(name: str) -> str:
    """Returns a variant's name as the name of a folder."""
    return "-".join("".join(letter if letter.isalnum() or letter == "." else " " for letter in name).split())


def point(study: Study, variant: Variant, options: StudyOptions, seed: int) -> Point:
    return Point(f"{slug(variant.name)}-s{seed}", {"variant": variant.name, "seed": seed}, spec_of(study, variant, options, seed))


def spec_of(study: Study, variant: Variant, options: StudyOptions, seed: int) -> Spec:
    """Returns the spec of one run: the base's keys, then the variant's, then the command's."""
    values = study.keys(variant, options.full)
    values |= {key: values[key].format(seed=seed) for key in variant.by_seed}
    values = {"metrics.slowdown": "off", **values, "ground": options.ground, "seed": seed}
    if options.duration:
        duration_ns = parse_time_ns(options.duration, "--duration")
        values |= {"time.duration": options.duration, "time.warmup": format_time(duration_ns // WARMUP_PART)}
        if cutoff := values.get("metrics.cutoff"):
            values["metrics.cutoff"] = format_time(min(duration_ns, parse_time_ns(cutoff)))
    overrides = [override for override in options.overrides if override.partition("=")[0].strip() not in variant.fixed]
    keys = specs.not_given(values, overrides)
    runs_folder, source = folder(study.runs_folder, options), f"study {study.name}"
    return specs.vary({"name": variant.name}, runs_folder, source, overrides, keys, source)


def measured(study: Study, variant: Variant, runs: Mapping[int, Result]) -> VariantEvidence:
    """Returns the values of a variant's results, by measure and seed. Values that are not finite are left out."""
    values = {seed: study.measure(result, **variant.given) for seed, result in runs.items()}
    tracks: dict[int, Track] = {}
    if study.track:
        tracks = {seed: study.track(runs[seed], **variant.given) for seed in sorted(runs)[: variant.tracks]}
    return variant.evidence(by_measure(values), tracks)


def by_measure(values: Mapping[int, Mapping[str, float]]) -> dict[str, dict[int, float]]:
    """Returns values by measure and seed from values by seed and measure."""
    names = dict.fromkeys(name for row in values.values() for name in row)
    return {name: {seed: row[name] for seed, row in values.items() if np.isfinite(row.get(name, np.nan))} for name in names}


def shortfall(study: Study, variants: Sequence[Variant], options: StudyOptions) -> Shortfall:
    """Returns the parts that the command made shorter than the study's own length."""
    durations = [str(study.keys(variant, options.full)["time.duration"]) for variant in variants]
    longest, duration = max(durations, key=parse_time_ns), options.duration
    shorter = duration is not None and parse_time_ns(duration, "--duration") < parse_time_ns(longest)
    return Shortfall(
        runs=f"runs of {duration} instead of {longest}" if shorter else "",
        seeds=fewer("seed", options.seeds or study.seeds, study.seeds),
    )


def wire_bytes(size_bytes: Bytes) -> Bytes:
    """Returns the bytes of all frames of a NIC's message, without telemetry."""
    return size_bytes + (size_bytes + (PAYLOAD_BYTES - 1)) // PAYLOAD_BYTES * (FRAME_BYTES - PAYLOAD_BYTES)


@dataclass(frozen=True, slots=True)
class FunctionRows:
    """Collects a study whose rows come from one function, such as operation counts."""

    rows: Callable[[StudyOptions, Progress], Mapping[str, Mapping[str, Mapping[int, float]]]]
    """Returns values by variant, measure and seed."""

    def __call__(self, study: Study, options: StudyOptions, progress: Progress) -> Collected:
        progress.phase("measuring")
        rows = self.rows(options, progress)
        evidence = {
            variant.name: variant.evidence(rows[variant.name]) for variant in study.chosen(options) if variant.name in rows
        }
        return Collected(Evidence(evidence, shortfall=Shortfall(seeds=fewer("seed", options.seeds or study.seeds, study.seeds))))
