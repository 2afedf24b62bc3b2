# SPDX-License-Identifier: Apache-2.0
"""Figure 9 of RL-CC at its own size: MPI_Alltoall by size of message, 64 processes on 64 hosts.

All is as in figure 9 but the network, and that three iterations of each size count behind a first one. Open MPI's schedule for 64
processes is Bruck's below 1 KiB, and from there on all messages at once. The paper gives no sizes but 32 B; these are up to
128 KiB.
"""

from __future__ import annotations

import numpy as np

from dc_gym.benchmarks.studies.rl_cc import cluster, common, figure_9
from dc_gym.benchmarks.studies.rl_cc.cluster import RIVALS, WHO
from dc_gym.benchmarks.studies.rl_cc.figure_9 import LATENCIES, LEAST
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Variant, below
from dc_gym.study.claims import any_of
from dc_gym.study.scaled import MS, RunLength
from dc_gym.traffic.kinds.collectives import sizes

TITLE = "MPI_Alltoall of 64 processes by size of message"
SOURCE = "RL-CC, section VI, figure 9 (text only)"
MOST, COUNTED = 1 << 17, 3
MEAN = Measure("alltoall_mean_s", "geometric mean above 32 B (us)", 1e6, 5)
SIZES = sizes(LEAST, MOST)
LENGTH = RunLength(40 * MS, 1 * MS)
WORKLOAD = {"kind": "alltoall", "size": f"{LEAST}B", "largest": f"{MOST}B", "rounds": 1 + COUNTED}


def _variant(who: str) -> Variant:
    keys = {"nic.queue_pairs": "hosts", **common.keys_of(WHO[who], common.FIRMWARE if who == "DCQCN" else common.OWN)}
    return common.variant(who, WHO[who], common.FABRIC, WORKLOAD, keys, 0, length=LENGTH, color=cluster.COLORS[who])


def measured(result: Result) -> dict[str, float]:
    """Returns latencies by size, and their geometric mean above 32 B; NaN where iterations have not ended."""
    values = figure_9.latencies(result)
    return values | {MEAN.name: float(np.exp(np.mean([np.log(values[LATENCIES[size].name]) for size in SIZES[1:]])))}


LOWEST = [[below("RL-CC", rival, LATENCIES[size]) for rival in RIVALS] for size in SIZES[1:]]
STUDY = common.study(
    TITLE,
    SOURCE,
    [_variant(who) for who in WHO],
    (*(LATENCIES[size] for size in SIZES), MEAN, common.DROPS),
    lambda _: (Claim("RL-CC has the lowest latency at one size above 32 B at least", "ours: of figure 9", (any_of(LOWEST),)),),
    common.drawing(TITLE, (9.6, 3.8), figure_9.bars, len(WHO)),
    networks=(common.FABRIC,),
    more=measured,
    seeds=3,
)
