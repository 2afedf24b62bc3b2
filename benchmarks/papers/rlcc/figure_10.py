# SPDX-License-Identifier: Apache-2.0
"""Figure 10 of RL-CC: long flows, and 50 or 100 short ones that join at one instant; 7 hosts, one switch.

The paper gives neither the number of long flows nor the size of the short ones; here they are 2 and 500 kB. Slowdown is
completion time over base RTT, as in the paper, not over the time that the flow would take alone.
"""

from __future__ import annotations

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers.rlcc import cluster as cluster
from dc_gym.benchmarks.papers.rlcc import common
from dc_gym.benchmarks.papers.rlcc.cluster import (
    BUFFERS,
    LONG_SHARE,
    LONG_SHORT,
    RECOVERY,
    RIVALS,
    SHORT,
    SLOWDOWN,
    UNFINISHED,
    name,
    on,
)
from dc_gym.reproduce import series
from dc_gym.reproduce.claims import Claim, above, below
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions

TITLE = "Long and short flows over one switch: what the long ones keep, how long the short ones take"
SOURCE = "RL-CC, section VI, figure 10 (text only)"
ROWS = cluster.ROWS[LONG_SHORT]
COLUMNS = (LONG_SHARE, SLOWDOWN, UNFINISHED, RECOVERY, common.LATENCY, common.DROPS, common.RESENT)


def _who(who: str, short: int, buffer: str) -> str:
    return name(on(who, buffer), LONG_SHORT, short)


CLAIMS = tuple(
    claim
    for buffer in BUFFERS
    for short in SHORT
    for claim in (
        Claim(
            f"With {short} short flows RL-CC's long ones have the most",
            SOURCE,
            tuple(above(_who("RL-CC", short, buffer), _who(each, short, buffer), LONG_SHARE) for each in RIVALS),
            variant=buffer,
        ),
        Claim(
            f"{short} short flows are done first under RL-CC",
            SOURCE,
            tuple(below(_who("RL-CC", short, buffer), _who(each, short, buffer), SLOWDOWN) for each in RIVALS),
            variant=buffer,
        ),
    )
)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = cluster.run(LONG_SHORT, options, progress)
    lines = cluster.series(LONG_SHORT)
    figure = series.figure(evidence, lines, (LONG_SHARE, SLOWDOWN, RECOVERY), "short flows", TITLE, base=None)
    return common.findings(TITLE, cluster.chosen(LONG_SHORT, options), options, evidence, COLUMNS, CLAIMS, figure)
