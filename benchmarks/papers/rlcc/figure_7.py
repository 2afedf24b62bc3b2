# SPDX-License-Identifier: Apache-2.0
"""Figure 7 of RL-CC: all-to-all on its cluster, goodput and latency. The paper draws bars and gives no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers.rlcc import cluster as cluster
from dc_gym.benchmarks.papers.rlcc import common
from dc_gym.benchmarks.papers.rlcc.cluster import A_HOST, ALL_TO_ALL, VARIANTS, row_name
from dc_gym.reproduce import series
from dc_gym.reproduce.claims import Claim, above, below
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions

TITLE = "All-to-all on the cluster: goodput and latency"
SOURCE = "RL-CC, section VI, figure 7 (text only)"
ROWS = cluster.ROWS[ALL_TO_ALL]
COLUMNS = (common.GOODPUT, common.LATENCY, common.INFLATION, common.JAIN, common.DROPS, common.LATE_DROPS, common.RESENT)


def _claims(variant: str) -> Iterator[Claim]:
    for flows in A_HOST:
        ours, dcqcn = (row_name(who, ALL_TO_ALL, flows, variant) for who in ("RL-CC", "DCQCN"))
        yield Claim(
            f"With {flows} flow{'s' * (flows > 1)} a host RL-CC has more goodput and less latency than DCQCN",
            SOURCE,
            (above(ours, dcqcn, common.GOODPUT), below(ours, dcqcn, common.LATENCY)),
        )


CLAIMS = common.with_variants(VARIANTS[ALL_TO_ALL], _claims)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = cluster.run(ALL_TO_ALL, options, progress)
    lines = cluster.series(ALL_TO_ALL)
    figure = series.figure(evidence, lines, (common.GOODPUT, common.LATENCY, common.LATE_DROPS), "flows a host", TITLE)
    return common.findings(TITLE, cluster.chosen(ALL_TO_ALL, options), options, evidence, COLUMNS, CLAIMS, figure)
