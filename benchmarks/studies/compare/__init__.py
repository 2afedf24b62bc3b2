# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench compare`: compares RL-CC, DCTCP, TCP NV, DCQCN, HPCC, PowerTCP, FDCC, ACC and others on the same datacenter
traffic, in one page.

    DIR/CASE/        a sweep: one result per controller and seed (docs/sweeps.md)
    DIR/index.html   the page; DIR/table.csv all numbers of all seeds

Run again, the same command resumes where it was stopped. The comparison has no bars.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dc_gym import sweep
from dc_gym.base.files import machine_errors
from dc_gym.base.outputs import is_marked, is_table_of, require_place
from dc_gym.base.progress import Progress, choose
from dc_gym.base.terminal import say
from dc_gym.benchmarks.studies.compare import page
from dc_gym.benchmarks.studies.compare.compositions import COMPOSITIONS
from dc_gym.benchmarks.studies.compare.measured import Compared, Competitor, counted_flows, numbers
from dc_gym.benchmarks.studies.compare.scenarios import CompareOptions, CompareScenario, check, grid, scenarios
from dc_gym.figures import styles
from dc_gym.figures.kit import FLOW_COLORS
from dc_gym.records import results
from dc_gym.records.results import Result
from dc_gym.sweep.grid import Grid
from dc_gym.sweep.state import RunState, Status

__all__ = ["main"]

OUT = Path("results/compare")
POLICY_MARKER = "*"


def main(args: Namespace) -> int:
    """Runs the comparison. Returns 0 if every run is there and fit, else 1; the page is written in both cases."""
    options = _options(args)
    check(options)
    wanted = [(scenario, grid(scenario, options, args.overrides)) for scenario in scenarios(options)]
    out = args.out or OUT
    for name in (page.PAGE, page.FIGURE):
        require_place(out / name, is_marked(page.MARK), force=args.force)
    require_place(out / page.TABLE, is_table_of(page.COLUMNS), force=args.force)
    with machine_errors("make", out):
        out.mkdir(parents=True, exist_ok=True)
    with choose(args.quiet) as progress:
        compared = list(_run(wanted, options, args, out, progress))
    made = page.write(out, compared, _facts(options))
    for each in compared:
        say(each.scenario.name)
        for label, text in page.summary(each).items():
            say(f"  {label:12}  {text}")
        for line in each.unfit:
            say(f"  {line}")
    say(made)
    return 1 if any(each.unfit for each in compared) else 0


def _options(args: Namespace) -> CompareOptions:
    plain = CompareOptions()
    return CompareOptions(
        controllers=tuple(args.controllers or plain.controllers),
        networks=tuple(args.topologies or plain.networks),
        traffic=tuple(args.workloads or plain.traffic),
        seeds=args.seeds or plain.seeds,
        scale=1 if args.full else plain.scale,
        full=args.full,
        ground=args.ground or plain.ground,
    )


def _run(
    wanted: Sequence[tuple[CompareScenario, Grid]], options: CompareOptions, args: Namespace, out: Path, progress: Progress
) -> Iterator[Compared]:
    """Runs everything that is missing, scenario by scenario."""
    jobs = 1 if options.ground == "host" else args.jobs or sweep.cpus()
    for number, (scenario, asked) in enumerate(wanted, 1):
        progress.phase(f"{scenario.name} ({number} of {len(wanted)})")
        folder = (out / (scenario.name + ("-full" if options.full else ""))).absolute()
        statuses = sweep.run_grid(asked, folder, sweep.local(jobs), progress, retry=args.retry, force=args.force)
        yield _compared(scenario, folder, statuses)


def _compared(scenario: CompareScenario, folder: Path, statuses: Sequence[Status]) -> Compared:
    found: dict[str, dict[int, Result]] = {}
    unfit = []
    for status in statuses:
        name, seed = str(status.point.values["controller"]), int(status.point.values["seed"])
        runs = found.setdefault(name, {})
        if status.state is RunState.DONE:
            runs[seed] = results.load_result(folder / status.point.name)
        else:
            why = (status.message.splitlines() or ["no word"])[0]
            unfit.append(f"{status.point.name} {status.state}, not counted: {why}")
    colors = _colors(list(found))
    entries = [_entry(name, runs, colors[name], scenario) for name, runs in found.items()]
    return Compared(scenario, entries, unfit, statuses[0].point.spec)


def _entry(name: str, runs: Mapping[int, Result], color: str, scenario: CompareScenario) -> Competitor:
    known = _style_of(name)
    by_seed = {seed: numbers(result, scenario) for seed, result in runs.items()}
    metrics = dict.fromkeys(metric for each in by_seed.values() for metric in each)
    return Competitor(
        name=name,
        label=known.label if known else Path(name).stem,
        color=color,
        marker=known.marker if known else POLICY_MARKER,
        numbers={metric: {seed: each[metric] for seed, each in by_seed.items() if metric in each} for metric in metrics},
        flows=min(map(counted_flows, runs.values()), default=0),
    )


def _style_of(name: str) -> styles.Style | None:
    return COMPOSITIONS[name].style if name in COMPOSITIONS else styles.find(name)


def _colors(names: Sequence[str]) -> dict[str, str]:
    """Returns a color for each name. A controller has its own; policies get colors that are free here."""
    known = {name: each.color for name in names if (each := _style_of(name))}
    free = [color for color in FLOW_COLORS if color not in known.values()] or list(FLOW_COLORS)
    others = [name for name in names if name not in known]
    return known | {name: free[number % len(free)] for number, name in enumerate(others)}


def _facts(options: CompareOptions) -> list[tuple[str, str]]:
    return [
        ("Seeds", f"1 to {options.seeds}; a seed has the same traffic for everybody, and differences are paired by seed"),
        ("Ground", f"{options.ground}, {'real' if options.ground == 'host' else 'virtual'} time"),
        (
            "Size",
            "the papers'" if options.full else f"networks slowed down by {options.scale}; how long a run is stands with each",
        ),
    ]
