# SPDX-License-Identifier: Apache-2.0
"""Figure 6 of RL-CC: many-to-one on its cluster, goodput and latency. The paper draws bars and gives no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.rl_cc import cluster as cluster
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.cluster import FLOWS, MANY_TO_ONE, VARIANTS, row_name
from dc_gym.benchmarks.studies.rl_cc.common import OWN, SHARED
from dc_gym.study import series
from dc_gym.study.claims import Claim, Explanation, above, below
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "Many-to-one on the cluster: goodput and latency"
SOURCE = "RL-CC, section VI, figure 6 (text only)"
NEAR, FAR = 0.95, 0.5
"""Our thresholds: parts of DCQCN's goodput and of its latency."""
PARAMETERS = Explanation(
    hypothesis="the paper's DCQCN has its NICs' parameters, which leave less of the line unused than those of DCQCN's paper",
    experiment="the rows named `firmware` of dcgym reproduce rl-cc figure-6",
    page="docs/reproduce-rl-cc.md#dcqcn-as-in-nics-firmware",
    showed="once their flood is over, DCQCN's 128 flows have 0.951 of the line with the firmware's parameters (five seeds), and"
    " RL-CC's 0.927 at a quarter of the latency; with the parameters of DCQCN's paper they have 0.924",
)
COLLAPSE = Explanation(
    hypothesis="128 flows raise by several lines before the marks of a queue of 37 MB arrive, and most of what they send is lost",
    experiment="DCQCN's rows with a shared buffer, with other topology.alpha, R_AI, T and numbers of flows (seeds 11 and 12)",
    page="docs/reproduce-rl-cc.md#why-dcqcn-collapses-on-a-shared-buffer",
    showed="goodput is 0.004 to 0.1 where flows raise by 5.2 lines and more in that time, and 0.86 to 0.95 at 3.9 and less; six"
    " settings were predicted before they ran, and all came out so",
)
EXPLAINED = {(SHARED, 128): COLLAPSE, (OWN, 128): PARAMETERS}
"""Experiments that show why DCQCN has no more goodput than RL-CC, by variant and number of flows."""
ROWS = cluster.ROWS[MANY_TO_ONE]
COLUMNS = (common.GOODPUT, common.LATENCY, common.INFLATION, common.JAIN, common.DROPS, common.LATE_DROPS, common.RESENT)


def _claims(variant: str) -> Iterator[Claim]:
    def row(who: str, flows: int) -> str:
        return row_name(who, MANY_TO_ONE, flows, variant)

    for flows in FLOWS:
        dcqcn, ours = row("DCQCN", flows), row("RL-CC", flows)
        yield Claim(
            f"With {flows} flows DCQCN has more goodput than RL-CC, which comes near it (ours: {NEAR:.0%} of it)",
            SOURCE,
            (above(dcqcn, ours, common.GOODPUT), above(ours, dcqcn, common.GOODPUT, NEAR)),
            explanation=EXPLAINED.get((variant, flows)),
        )
        yield Claim(
            f"With {flows} flows RL-CC's latency is far below DCQCN's (ours: {FAR:.0%} of it)",
            SOURCE,
            (below(ours, dcqcn, common.LATENCY, FAR),),
        )


CLAIMS = common.with_variants(VARIANTS[MANY_TO_ONE], _claims)


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = cluster.run(MANY_TO_ONE, options, progress)
    lines = cluster.series(MANY_TO_ONE)
    figure = series.figure(evidence, lines, (common.GOODPUT, common.LATENCY, common.LATE_DROPS), "flows", TITLE)
    return common.findings(TITLE, cluster.chosen(MANY_TO_ONE, options), options, evidence, COLUMNS, CLAIMS, figure)
