# SPDX-License-Identifier: Apache-2.0
"""Table III of RL-CC: the network and its trees in simulation, many-to-one, both with a decision time of 2 us.

Flows begin at their share, since everything is measured at rest.
"""

from __future__ import annotations

from itertools import pairwise

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers.rlcc import common
from dc_gym.benchmarks.papers.rlcc.common import name
from dc_gym.reproduce import series
from dc_gym.reproduce.claims import Claim, above, below
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.reproduce.scaled import MS, RunLength
from dc_gym.reproduce.series import ContestantLine

TITLE = "The network and its trees, a decision taking 2 us: goodput and latency"
SOURCE = "RL-CC, Table III"
LATENCY_NS = 2_000
FLOWS = (64, 512, 2048)
LENGTHS = {64: RunLength(10 * MS, 5 * MS), 512: RunLength(25 * MS, 15 * MS), 2048: RunLength(40 * MS, 25 * MS)}
WHO = {"MLP": ("rlcc-mlp", "#117733"), "tree": ("rlcc-tree", "#332288")}
PAPER = {
    "MLP": ((0.92, 12.19e-6), (0.90, 17.82e-6), (0.90, 27.62e-6)),
    "tree": ((0.92, 12.03e-6), (0.90, 17.98e-6), (0.90, 27.35e-6)),
}
ALIKE, NEAR = 0.02, 0.05
"""The tolerated difference between trees and network (goodput, latency). In the paper it is 0 and at most 1.3 %."""


ROWS = [
    common.many_to_one(
        name(who, flows),
        controller,
        common.FOUR,
        flows,
        length=LENGTHS[flows],
        full=common.SIMULATION,
        values={"nic.latency": LATENCY_NS, **common.at_share(flows)},
        paper=dict(zip((common.GOODPUT.name, common.LATENCY.name), paper, strict=True)),
        color=color,
    )
    for who, (controller, color) in WHO.items()
    for flows, paper in zip(FLOWS, PAPER[who], strict=True)
]
COLUMNS = (common.GOODPUT, common.LATENCY, common.INFLATION, common.FAIRNESS, common.PROBES, common.DROPS, common.LATE_DROPS)


def _alike(flows: int) -> tuple[Claim, Claim]:
    tree, net = name("tree", flows), name("MLP", flows)
    goodput = (above(tree, net, common.GOODPUT, 1 - ALIKE), below(tree, net, common.GOODPUT, 1 + ALIKE))
    latency = (above(tree, net, common.LATENCY, 1 - NEAR), below(tree, net, common.LATENCY, 1 + NEAR))
    return (
        Claim(f"With {flows} flows the trees have the network's goodput", f"{SOURCE}; within {ALIKE:.0%}", goodput),
        Claim(f"With {flows} flows the trees have the network's latency", f"{SOURCE}; within {NEAR:.0%}", latency),
    )


CLAIMS = (
    *(claim for flows in FLOWS for claim in _alike(flows)),
    Claim(
        "Latency grows with the flows as eq. 2 says, goodput hardly falls",
        SOURCE,
        (
            *(below(name(who, few), name(who, many), common.LATENCY) for who in WHO for few, many in pairwise(FLOWS)),
            *(above(name(who, 2048), name(who, 64), common.GOODPUT, 0.95) for who in WHO),
        ),
    ),
)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = common.run("table-3", ROWS, options, progress)
    lines = [ContestantLine(who, color, {flows: name(who, flows) for flows in FLOWS}) for who, (_, color) in WHO.items()]
    figure = series.figure(evidence, lines, (common.GOODPUT, common.LATENCY), "flows", TITLE)
    return common.findings(TITLE, ROWS, options, evidence, COLUMNS, CLAIMS, figure)
