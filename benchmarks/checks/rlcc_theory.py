# SPDX-License-Identifier: Apache-2.0
"""Checks on RL-CC's figure 3: where flows settle on one bottleneck, against eq. 2; and Swift against its best curve.

There are four senders, one receiver, and 2 to 2048 flows that begin at line rate. 2048 flows are only reported: each has a packet
in 25 base round trips, so it decides that rarely, and a probe behind each packet takes a part of the link. The paper does not say
what it fits to Swift; here it is a + b sqrt(N) by relative least squares. The picture and its numbers are kept in OUT.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dc_gym.base.checks import Check
from dc_gym.base.files import csv_bytes, put
from dc_gym.base.outputs import free_place, is_table_of
from dc_gym.base.readable import number
from dc_gym.figures import kit
from dc_gym.methods.rlcc import bottleneck
from dc_gym.methods.rlcc.bottleneck import LINE_BPS, SHORT_BUFFER_BYTES, BottleneckRun
from dc_gym.nets import fluid, nic_policy
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.records.results import Result
from dc_gym.study import theory
from dc_gym.study.theory import Root
from dc_gym.sweep import Cell, runs

POLICY, SWIFT = "rlcc-tree", "swift"
FLOWS, MANY = (2, 4, 8, 16, 32, 64, 128, 256, 512), 2048
SENDERS = 4
SETTLED_MS = {2: 200, 4: 200, 8: 200, 16: 200, 32: 300, 64: 400, 128: 500, 256: 600, 512: 800, MANY: 4000}
MEASURED_MS = 100
CLOSE = 0.05
NAME = "rlcc-theory"
OUT = Path("results/rlcc-theory")
OURS, THEIRS, LAW = "#0072B2", "#D55E00", "#000000"


@dataclass(frozen=True, slots=True)
class InflationPoint:
    """Flows of an algorithm, after they have settled."""

    algorithm: str
    flows: int
    inflation: float
    low: float
    """The 5th percentile of the inflation over time; `high` is the 95th."""
    high: float
    utilization: float
    probes: float
    """The share of the link that probes take."""
    jain: float
    drops: int


def checks(policy: str | None = None) -> Iterable[Check]:
    """Yields the checks on a policy, given by its name or file."""
    path = nic_policy.path_of(policy or POLICY)
    file = NicPolicy.read(path)
    with runs.scratch("rlcc-theory") as folder:
        mine = measure(folder, f"rlcc-{file.kind}", path.resolve())
        theirs = measure(folder, SWIFT, None)
    rests = theory.law(file.scaling, fluid.offset(file.policy, file.scaling))
    law = theory.law(file.scaling)
    yield from (_law_check(mine[flows], law, rests) for flows in FLOWS)
    yield from (_many_check(each[MANY], law) for each in (mine, theirs))
    yield swift_check(_curve(mine), _curve(theirs))
    yield _drawn(mine, theirs, law, path.stem)


def measure(folder: Path, algorithm: str, policy: Path | None) -> dict[int, InflationPoint]:
    shape: dict[str, Any] = {"policy": policy, "senders": SENDERS, "buffer_bytes": SHORT_BUFFER_BYTES}
    cases = {flows: BottleneckRun(algorithm, flows, SETTLED_MS[flows], MEASURED_MS, **shape) for flows in (*FLOWS, MANY)}
    cells = {flows: case.cell(folder, f"{algorithm}-{flows}") for flows, case in cases.items()}
    found = runs.run_all(list(reversed(cells.values())))  # the long runs first
    return {flows: _point(algorithm, flows, cell, found[cell.name]) for flows, cell in cells.items()}


def _point(algorithm: str, flows: int, cell: Cell, result: Result) -> InflationPoint:
    number = next(n for n, port in enumerate(result.ports) if port["name"] == result.summary["bottleneck_port"])
    queues = result.records("queues")
    late = queues[(queues["port"] == number) & (queues["t_ns"] >= SETTLED_MS[flows] * 10**6)]
    over_time = 1 + late["backlog_bytes"] * 8e9 / LINE_BPS / bottleneck.BASE_NS
    low, high = (float(each) for each in np.percentile(over_time, (5, 95)))
    counted, seconds = result.records("nic_flows"), (SETTLED_MS[flows] + MEASURED_MS) / 1e3
    probes = float(counted["probe_bytes"].sum()) * 8 / LINE_BPS / seconds
    said = result.summary
    facts = float(said["utilization"]), probes, float(said["jain"]), int(said["drops"])
    return InflationPoint(algorithm, flows, bottleneck.inflation(cell, result), low, high, *facts)


def _curve(points: Mapping[int, InflationPoint]) -> dict[int, float]:
    return {flows: points[flows].inflation for flows in FLOWS}


def _law_check(point: InflationPoint, law: Root, rests: Root) -> Check:
    """Returns the check: within 5 % of eq. 2, or of eq. 2 at the policy's offset, or between them."""
    both = law(point.flows), rests(point.flows)
    low, high = (1 - CLOSE) * min(both), (1 + CLOSE) * max(both)
    words = (
        f"{point.inflation:.3f} ({point.inflation / both[0] - 1:+.1%} of eq. 2; 5 to 95 %: {point.low:.2f} to {point.high:.2f})"
    )
    words += f", link {point.utilization:.3f}, Jain {point.jain:.3f}, {point.drops} dropped"
    asked = f"{low:.3f} to {high:.3f} (eq. 2: {both[0]:.3f}, at the policy's offset: {both[1]:.3f}, +- {CLOSE:.0%})"
    return Check(f"{point.flows} flows: RTT inflation", asked, words, bool(low <= point.inflation <= high))


def _many_check(point: InflationPoint, law: Root) -> Check:
    words = (
        f"{point.inflation:.3f} (eq. 2: {law(point.flows):.3f}), link {point.utilization:.3f}, probes {point.probes:.1%} of it"
    )
    words += f", Jain {point.jain:.3f}, {point.drops} dropped"
    return Check(f"{point.algorithm}, {point.flows} flows", "reported", words, ok=True)


def swift_check(mine: Mapping[int, float], theirs: Mapping[int, float]) -> Check:
    """Returns the check that Swift is farther from its best a + b sqrt(N) than RL-CC is from its own."""
    off = {who: theory.departures(each, theory.best_fit(each)) for who, each in (("RL-CC", mine), ("Swift", theirs))}
    worst = {who: max(map(abs, each.values())) for who, each in off.items()}
    fit = theory.best_fit(theirs)
    told = ", ".join(f"{flows}: {each:+.1%}" for flows, each in off["Swift"].items())
    words = f"at most {worst['Swift']:.1%} off {fit.a:.3g} + {fit.b:.3g} sqrt(N) ({told}); RL-CC {worst['RL-CC']:.1%}"
    good = worst["Swift"] > max(CLOSE, 2 * worst["RL-CC"])
    return Check("Swift leaves its best O(sqrt N) curve", f"by more than {CLOSE:.0%}, and twice as far as RL-CC", words, good)


def _drawn(mine: Mapping[int, InflationPoint], theirs: Mapping[int, InflationPoint], law: Root, name: str) -> Check:
    rows = [*mine.values(), *theirs.values()]
    names = [each.name for each in fields(InflationPoint)]
    table = put(free_place(OUT / "inflation.csv", is_table_of(names)), csv_bytes(names, map(astuple, rows)))
    picture = runs.figure_place(OUT / "inflation.png", NAME)
    draw(mine, theirs, law, name, picture)
    return Check("figure 3", "drawn", f"{picture}, {table}", ok=True)


def draw(mine: Mapping[int, InflationPoint], theirs: Mapping[int, InflationPoint], law: Root, name: str, path: Path) -> None:
    """Draws RL-CC on the left and Swift on the right: means, 5 to 95 % over time, and the curves."""
    fit = theory.best_fit(_curve(theirs))
    sides = (
        (f"RL-CC ({name})", mine, law, OURS, "eq. 2"),
        ("Swift", theirs, fit, THEIRS, f"best {fit.a:.2f} + {fit.b:.3f} sqrt(N)"),
    )
    with kit.style({"axes.grid.axis": "both"}):
        figure = kit.new_figure(12, 4.8)
        for axes, side in zip(figure.subplots(1, 2), sides, strict=True):
            _draw_side(axes, *side)
        kit.save(figure, path, mark=runs.mark_of(NAME))


def _draw_side(axes: Axes, title: str, points: Mapping[int, InflationPoint], curve: Root, colour: str, label: str) -> None:
    flows = np.array(list(points))
    means = np.array([each.inflation for each in points.values()])
    spread = np.array([(max(0.0, each.inflation - each.low), max(0.0, each.high - each.inflation)) for each in points.values()])
    axes.errorbar(flows, means, yerr=spread.T, fmt="o", color=colour, capsize=3, label="measured; bars: 5 to 95 % over time")
    span = np.geomspace(flows[0], flows[-1], 100)
    axes.plot(span, [curve(each) for each in span], "--", color=LAW, linewidth=1, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(flows, [number(int(each)) for each in flows], rotation=30)
    axes.minorticks_off()
    axes.set_ylim(bottom=1.0)
    axes.set_xlabel("Flows")
    axes.set_ylabel("RTT over base RTT")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8)
