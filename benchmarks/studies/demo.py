# SPDX-License-Identifier: Apache-2.0
"""`dcgym demo`: DCTCP, TCP NV, CUBIC and BBR on two dumbbells and a fat-tree, three seeds each, in one figure.

It follows F. Ruffy Varga, "Data-Driven Datacenter Traffic Control" (2019), figures 5.2 to 5.5. The networks are the same, with
propagation delays. DCTCP has a step at K. The fat-tree at 100 Mbit/s runs Iroko's hotspot matrix over TCP.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.errors import ResultError, UsageError
from dc_gym.base.files import in_full
from dc_gym.base.outputs import is_marked, require_place
from dc_gym.base.progress import Progress
from dc_gym.base.readable import family_of, quantity
from dc_gym.base.terminal import say
from dc_gym.kernel.lab import check_place
from dc_gym.results.figures import cases, kit, timeline
from dc_gym.results.metrics import Series
from dc_gym.results.results import Result, is_result, load_result, number
from dc_gym.run.sweep import cpus
from dc_gym.study import Evidence, Measure, Study, StudyOptions, Track, Variant, VariantEvidence
from dc_gym.study.collect import FOLDER, SpecRuns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTROLLERS = ("dctcp", "nv", "cubic", "bbr")
FIGURE, MARK = "demo.png", "dcgym demo"
REMEDY = "move it, or give another --out"
COUNTS = (Measure("drops", "drops"), Measure("marks", "marks"))
MEASURES = (
    Measure("goodput_bps", "goodput (Mbit/s)", 1e-6),
    Measure("mean_queue_bytes", "mean queue (kB)", 1e-3),
    Measure("mean_srtt_us", "srtt (us)"),
    Measure("jain", "Jain"),
    *COUNTS,
)
WIDTHS = ("14", "12", ">14", ">12", ">11", ">9", ">8", ">9")
CASES = {
    "dumbbell-10m": ("10 Mbit/s, 2 pairs", None, "pairs", "100ms", "30s", "5s"),
    "dumbbell-1g": ("1 Gbit/s, 2 pairs", None, "pairs", "10ms", "2s", "500ms"),
    "fattree-k4": ("100 Mbit/s, hotspot", "100Mbit/s", "hotspot", "50ms", "5s", "1s"),
}
"""The rows of the figure by their networks: a note, and the values of KEYS."""
KEYS = ("topology.rate", "workload.kind", "workload.jitter", "time.duration", "time.warmup")


def main(args: Namespace, progress: Progress) -> int:
    """Runs the demo. `args.out`: folder of the results and the figure; `args.jobs`: number of labs at a time."""
    out = in_full(args.out)
    check_place(out, "a run's folder", "give another --out")
    require_places(args.out)
    options = StudyOptions(out.parent, jobs=args.jobs or cpus(), retry=True, force=True)
    evidence = SpecRuns()(replace(STUDY, name="demo", runs=out.name), options, progress).evidence
    progress.phase("figure")
    sample = load_result(out / FOLDER / f"{STUDY.variants[0].name}-s1")
    caption = f"means over {STUDY.seeds} seeds, bands: 95 % intervals; goodput as links can have carried it\n"
    caption += f"dumbbell-10m, DCTCP, seed 1: digest {sample.digest[:16]}, fingerprint {sample.manifest['fingerprint']}"
    figure = kit.save(draw(evidence, caption), args.out / FIGURE, mark=MARK)
    progress.phase("done")
    say(table(evidence))
    say(f"figure       {figure}")
    return 0


def require_places(out: Path) -> None:
    """Raises UsageError if the demo would overwrite something in the folder that it did not make."""
    require_place(out / FIGURE, is_marked(MARK), remedy=REMEDY)
    for variant in STUDY.variants:
        for folder in (out / FOLDER / f"{variant.name}-s{seed}" for seed in range(1, STUDY.seeds + 1)):
            if is_result(folder) and _name_of(folder) not in (variant.values["name"], None):
                raise UsageError(f"{folder} is a result of something else than the demo; {REMEDY}")


def _name_of(result: Path) -> str | None:
    """Returns the name in a result's spec; None for a damaged result, which will be replaced."""
    try:
        name: str | None = load_result(result).manifest.get("spec", {}).get("name")
    except ResultError:
        return None
    return name


def measure(result: Result) -> dict[str, float]:
    return {column.name: number(result.summary.get(column.name)) for column in MEASURES}


def track(result: Result) -> Track:
    return track_of(timeline.load_series(result, cases.INTERVALS))


def track_of(run: Series) -> Track:
    threshold = np.full(len(run.t_s), np.nan if run.k_bytes is None else run.k_bytes)
    values = {"queue_bytes": run.queue_bytes, "k_bytes": threshold, "goodput_bps": run.total_bps}
    return Track(run.t_s, values | {"srtt_us": run.mean_srtt_us, "jain": run.jain}, {"goodput_bps": run.most_bps})


def draw(evidence: Evidence, caption: str = "") -> Figure:
    """Draws a row a network, with a line a controller."""
    rows = []
    for case, (note, *_) in CASES.items():
        variants = {name: evidence.variants.get(f"{case}-{name}") for name in CONTROLLERS}
        if runs := {name: list(variant.over_time.values()) for name, variant in variants.items() if variant}:
            rows.append(cases.CaseRuns(case, runs, note))
    return cases.demo_figure(rows, caption)


def table(evidence: Evidence) -> str:
    """Returns a table of means over the seeds, with one line per case and controller."""
    rows = [("case", "controller", *(column.title.partition(" (")[0] for column in MEASURES))]
    for name, variant in evidence.variants.items():
        case, _, controller = name.rpartition("-")
        rows.append((case, controller, *(_mean(variant, column) for column in MEASURES)))
    return "\n".join("".join(f"{text:{width}}" for text, width in zip(row, WIDTHS, strict=True)) for row in rows)


def _mean(variant: VariantEvidence, measure: Measure) -> str:
    """Returns the mean of a measure over seeds, as text."""
    estimate = variant.estimate(measure.name)
    mean = estimate.mean if estimate else None
    return quantity(round(mean) if mean is not None and measure in COUNTS else mean, family_of(measure.name))


STUDY = Study(
    title="DCTCP, TCP NV, CUBIC and BBR on two dumbbells and a fat-tree",
    base={"metrics.slowdown": "auto"},
    variants=[
        Variant(
            f"{case}-{name}",
            {"name": case, "topology.preset": case, "controller.name": name, **dict(zip(KEYS, values, strict=True))},
        )
        for case, (_, *values) in CASES.items()
        for name in CONTROLLERS
    ],
    measures=MEASURES,
    measure=measure,
    track=track,
    draw=draw,
    seeds=3,
    source="F. Ruffy Varga: Data-Driven Datacenter Traffic Control (2019)",
)
