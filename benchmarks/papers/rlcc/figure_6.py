# SPDX-License-Identifier: Apache-2.0
"""Figure 6 of RL-CC: many-to-one on its cluster, goodput and latency. The paper draws bars and gives no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers.rlcc import cluster as cluster
from dc_gym.benchmarks.papers.rlcc import common
from dc_gym.benchmarks.papers.rlcc.cluster import FLOWS, MANY_TO_ONE, VARIANTS, name, on
from dc_gym.reproduce import series
from dc_gym.reproduce.claims import Claim, above, below
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions

TITLE = "Many-to-one on the cluster: goodput and latency"
SOURCE = "RL-CC, section VI, figure 6 (text only)"
NEAR, FAR = 0.95, 0.5
"""Our thresholds: parts of DCQCN's goodput and of its latency."""
ROWS = cluster.ROWS[MANY_TO_ONE]
COLUMNS = (common.GOODPUT, common.LATENCY, common.INFLATION, common.JAIN, common.DROPS, common.LATE_DROPS, common.RESENT)


def _claims(variant: str) -> Iterator[Claim]:
    def row(who: str, flows: int) -> str:
        return name(on(who, variant), MANY_TO_ONE, flows)

    for flows in FLOWS:
        dcqcn, ours = row("DCQCN", flows), row("RL-CC", flows)
        yield Claim(
            f"With {flows} flows DCQCN has more goodput than RL-CC, which comes near it (ours: {NEAR:.0%} of it)",
            SOURCE,
            (above(dcqcn, ours, common.GOODPUT), above(ours, dcqcn, common.GOODPUT, NEAR)),
        )
        yield Claim(
            f"With {flows} flows RL-CC's latency is far below DCQCN's (ours: {FAR:.0%} of it)",
            SOURCE,
            (below(ours, dcqcn, common.LATENCY, FAR),),
        )


CLAIMS = common.with_variants(VARIANTS[MANY_TO_ONE], _claims)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = cluster.run(MANY_TO_ONE, options, progress)
    lines = cluster.series(MANY_TO_ONE)
    figure = series.figure(evidence, lines, (common.GOODPUT, common.LATENCY, common.LATE_DROPS), "flows", TITLE)
    return common.findings(TITLE, cluster.chosen(MANY_TO_ONE, options), options, evidence, COLUMNS, CLAIMS, figure)
