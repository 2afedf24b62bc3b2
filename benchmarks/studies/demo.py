# SPDX-License-Identifier: Apache-2.0
"""`dcgym demo`: DCTCP, TCP NV, CUBIC and BBR on two dumbbells and a fat-tree, three seeds each, in one figure.

It follows F. Ruffy Varga, "Data-Driven Datacenter Traffic Control" (2019), figures 5.2 to 5.5. The networks are the same, with
propagation delays. DCTCP has a step at K. The fat-tree at 100 Mbit/s runs Iroko's hotspot matrix over TCP.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym import sweep
from dc_gym.base.errors import ResultError, UsageError
from dc_gym.base.files import PARTIAL, machine_errors
from dc_gym.base.outputs import is_marked, require_place
from dc_gym.base.progress import Progress
from dc_gym.base.readable import quantity
from dc_gym.base.terminal import say
from dc_gym.figures import cases, kit, timeline
from dc_gym.kernel.lab import check_place
from dc_gym.records.results import Result, is_result, load_result

CONTROLLERS = ("dctcp", "nv", "cubic", "bbr")
SEEDS = (1, 2, 3)
FIGURE, MARK = "demo.png", "dcgym demo"
REMEDY = "move it, or give another --out"
COLUMNS = {"goodput_bps": "bps", "mean_queue_bytes": "bytes", "mean_srtt_us": "us", "jain": "", "drops": "", "marks": ""}
COUNTS = ("drops", "marks")
WIDTHS = ("14", "12", ">14", ">12", ">11", ">9", ">8", ">9")


@dataclass(frozen=True, slots=True)
class DemoCase:
    """One row of the figure."""

    name: str
    note: str
    spec: str
    """The experiment as TOML; the demo sets controller and seed."""


CASES = (
    DemoCase(
        "dumbbell-10m",
        "10 Mbit/s, 2 pairs",
        """
spec_version = 1
name = "dumbbell-10m"
topology.preset = "dumbbell-10m"
controller.name = "dctcp"
workload = { kind = "pairs", jitter = "100ms" }
time = { duration = "30s", warmup = "5s" }
""",
    ),
    DemoCase(
        "dumbbell-1g",
        "1 Gbit/s, 2 pairs",
        """
spec_version = 1
name = "dumbbell-1g"
topology.preset = "dumbbell-1g"
controller.name = "dctcp"
workload = { kind = "pairs", jitter = "10ms" }
time = { duration = "2s", warmup = "500ms" }
""",
    ),
    DemoCase(
        "fattree-k4",
        "100 Mbit/s, hotspot",
        """
spec_version = 1
name = "fattree-k4"
topology = { preset = "fattree-k4", rate = "100Mbit/s" }
controller.name = "dctcp"
workload = { kind = "hotspot", jitter = "50ms" }
time = { duration = "5s", warmup = "1s" }
""",
    ),
)


def main(args: Namespace, progress: Progress) -> int:
    """Runs the demo. `args.out`: folder of the results and the figure; `args.jobs`: number of labs at a time."""
    out: Path = args.out
    check_place(out.absolute(), "a run's folder", "give another --out")
    with machine_errors("make", out):
        out.mkdir(parents=True, exist_ok=True)
    require_places(out)
    cells = [cell for case in CASES for cell in case_cells(case, out)]
    sweep.require_all(sweep.run_cells(cells, args.jobs or sweep.cpus(), progress))
    progress.phase("figure")
    figure = draw(out)
    progress.phase("done")
    say(table(out))
    say(f"figure       {figure}")
    return 0


def require_places(out: Path) -> None:
    """Raises UsageError if the demo would overwrite something in the folder that it did not make."""
    require_place(out / FIGURE, is_marked(MARK), remedy=REMEDY)
    for case in CASES:
        for cell in case_cells(case, out, write=False):
            if is_result(cell.out) and _name_of(cell.out) not in (case.name, None):
                raise UsageError(f"{cell.out} is a result of something else than the demo; {REMEDY}")


def _name_of(result: Path) -> str | None:
    """Returns the name in a result's spec; None for a damaged result, which will be replaced."""
    try:
        name: str | None = load_result(result).manifest.get("spec", {}).get("name")
    except ResultError:
        return None
    return name


def case_cells(case: DemoCase, out: Path, seeds: tuple[int, ...] = SEEDS, *, write: bool = True) -> list[sweep.Cell]:
    """Returns the runs of one case, after writing its spec beside them."""
    spec = out / f"{case.name}.toml"
    if write:
        spec.write_text(case.spec.lstrip())
    return [
        sweep.Cell(
            name := f"{case.name}-{controller}-s{seed}",
            spec,
            out / name,
            (f'controller.name="{controller}"', f"seed={seed}"),
            ("--no-plot", "--force"),
        )
        for controller in CONTROLLERS
        for seed in seeds
    ]


def draw(out: Path) -> Path:
    """Draws demo.png from the results in `out`."""
    rows = []
    for case in CASES:
        runs = {
            name: [timeline.load_series(_result(out, case, name, seed), cases.INTERVALS) for seed in SEEDS]
            for name in CONTROLLERS
        }
        rows.append(cases.CaseRuns(case.name, runs, case.note))
    sample = _result(out, CASES[0], CONTROLLERS[0], SEEDS[0])
    caption = f"means over {len(SEEDS)} seeds, bands: 95 % intervals; goodput as links can have carried it\n"
    caption += f"{CASES[0].name}, DCTCP, seed 1: digest {sample.digest[:16]}, fingerprint {sample.manifest['fingerprint']}"
    return kit.save(cases.demo_figure(rows, caption), out / FIGURE, mark=MARK)


def table(out: Path) -> str:
    """Returns a table of means over the seeds, with one line per case and controller."""
    head = ("case", "controller", "goodput", "mean queue", "srtt", "Jain", "drops", "marks")
    lines = ["".join(f"{text:{width}}" for text, width in zip(head, WIDTHS, strict=True))]
    for case in CASES:
        for name in CONTROLLERS:
            found = [dict(_result(out, case, name, seed).summary) for seed in SEEDS]

            cells = [case.name, name, *(_mean(found, key, family) for key, family in COLUMNS.items())]
            lines.append("".join(f"{text:{width}}" for text, width in zip(cells, WIDTHS, strict=True)))
    return "\n".join(lines)


def _mean(found: Sequence[Mapping[str, Any]], key: str, family: str) -> str:
    """Returns the mean of a metric over results, as text."""
    known = [summary[key] for summary in found if summary.get(key) is not None]
    mean = sum(known) / len(known) if known else None
    return quantity(None if mean is None else round(mean) if key in COUNTS else mean, family)


def _result(out: Path, case: DemoCase, controller: str, seed: int) -> Result:
    path = out / f"{case.name}-{controller}-s{seed}"
    if not path.is_dir():
        raise UsageError(f"{path}: no such result; was the demo interrupted ({path.name}{PARTIAL})? run `dcgym demo` again")
    return load_result(path)
