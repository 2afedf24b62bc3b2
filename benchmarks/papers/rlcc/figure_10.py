# SPDX-License-Identifier: Apache-2.0
"""Figure 10 of RL-CC: long flows, and 50 or 100 short ones that join at one instant; 7 hosts, one switch.

The paper gives neither the number of long flows nor the size of the short ones. Here there are 2 long ones, and a short one is
one of the paper's WRITEs of 64 KB (section VI): 50 of them fit into 5 MB and 100 do not, as its Table IV has it. In rows named
"500 kB" short flows are larger.
Slowdown is completion time over base RTT, as in the paper, not over the time that the flow would take alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers.rlcc import cluster as cluster
from dc_gym.benchmarks.papers.rlcc import common
from dc_gym.benchmarks.papers.rlcc.cluster import (
    LONG_SHARE,
    LONG_SHORT,
    RECOVERY,
    RIVALS,
    SHORT,
    SLOWDOWN,
    UNFINISHED,
    VARIANTS,
    row_name,
)
from dc_gym.reproduce import series
from dc_gym.reproduce.claims import Claim, above, below
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions

TITLE = "Long and short flows over one switch: what the long ones keep, how long the short ones take"
SOURCE = "RL-CC, section VI, figure 10 (text only)"
ROWS = cluster.ROWS[LONG_SHORT]
COLUMNS = (LONG_SHARE, SLOWDOWN, UNFINISHED, RECOVERY, common.LATENCY, common.DROPS, common.RESENT)


def _claims(variant: str) -> Iterator[Claim]:
    def row(who: str, short: int) -> str:
        return row_name(who, LONG_SHORT, short, variant)

    for short in SHORT:
        yield Claim(
            f"With {short} short flows RL-CC's long ones have the most",
            SOURCE,
            tuple(above(row("RL-CC", short), row(each, short), LONG_SHARE) for each in RIVALS),
        )
        yield Claim(
            f"{short} short flows are done first under RL-CC",
            SOURCE,
            tuple(below(row("RL-CC", short), row(each, short), SLOWDOWN) for each in RIVALS),
        )


CLAIMS = common.with_variants(VARIANTS[LONG_SHORT], _claims)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = cluster.run(LONG_SHORT, options, progress)
    lines = cluster.series(LONG_SHORT)
    figure = series.figure(evidence, lines, (LONG_SHARE, SLOWDOWN, RECOVERY), "short flows", TITLE, base=None)
    return common.findings(TITLE, cluster.chosen(LONG_SHORT, options), options, evidence, COLUMNS, CLAIMS, figure)
