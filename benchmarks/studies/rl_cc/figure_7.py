# SPDX-License-Identifier: Apache-2.0
"""Figure 7 of RL-CC: all-to-all on its cluster, goodput and latency. The paper draws bars and gives no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.rl_cc import cluster as cluster
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.cluster import A_HOST, ALL_TO_ALL, VARIANTS, row_name
from dc_gym.study import series
from dc_gym.study.claims import Claim, Explanation, above, below
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "All-to-all on the cluster: goodput and latency"
SOURCE = "RL-CC, section VI, figure 7 (text only)"
ROWS = cluster.ROWS[ALL_TO_ALL]
COLUMNS = (common.GOODPUT, common.LATENCY, common.INFLATION, common.JAIN, common.DROPS, common.LATE_DROPS, common.RESENT)


PARAMETERS = cluster.still_flooded(
    "figure-7",
    "with the firmware's parameters DCQCN has 0.51 of the line at 719 us, and RL-CC 0.82 at 16.4 us (five seeds); with the"
    " parameters of DCQCN's paper it has 0.80, and which of the two has more depends on the seed",
)
MORE_HOSTS = Explanation(
    hypothesis="with one flow on each of 16 hosts the draw of pairs decides; with 64, as many as the paper has, it evens out",
    experiment="the rows named `8 x 8` of dcgym reproduce rl-cc figure-7",
    page="docs/reproduce-rl-cc.md#the-cluster-figures-6-to-10-table-iv",
    showed="on 64 hosts RL-CC has 0.366 of the line at 16.5 us, and DCQCN 0.336 at 39.9 us; RL-CC has more with each seed",
)
EXPLAINED = {1: MORE_HOSTS, 8: PARAMETERS}
"""Experiments that show why RL-CC has no more goodput than DCQCN, by flows a host."""


def _claims(variant: str) -> Iterator[Claim]:
    for flows in A_HOST:
        ours, dcqcn = (row_name(who, ALL_TO_ALL, flows, variant) for who in ("RL-CC", "DCQCN"))
        yield Claim(
            f"With {flows} flow{'s' * (flows > 1)} a host RL-CC has more goodput and less latency than DCQCN",
            SOURCE,
            (above(ours, dcqcn, common.GOODPUT), below(ours, dcqcn, common.LATENCY)),
            explanation=EXPLAINED.get(flows),
        )


CLAIMS = common.with_variants(VARIANTS[ALL_TO_ALL], _claims)


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = cluster.run(ALL_TO_ALL, options, progress)
    lines = cluster.series(ALL_TO_ALL)
    figure = series.figure(evidence, lines, (common.GOODPUT, common.LATENCY, common.LATE_DROPS), "flows a host", TITLE)
    return common.findings(TITLE, cluster.chosen(ALL_TO_ALL, options), options, evidence, COLUMNS, CLAIMS, figure)
