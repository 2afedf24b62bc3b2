# SPDX-License-Identifier: Apache-2.0
"""Test category 4 of the draft: AllReduce, AllGather and AlltoAll of 16 accelerators, by size and load balancing.

BusBW and the time of an iteration are means over 3 iterations. The ranks lie across the leaves in turns, so that each step of a
ring crosses the spines.
"""

from __future__ import annotations

from functools import partial
from itertools import product

from dc_gym.benchmarks.studies.bmwg import common
from dc_gym.benchmarks.studies.bmwg.common import BALANCING, BUSBW, JCT
from dc_gym.results.results import Result
from dc_gym.study import Study, Variant, drawing
from dc_gym.study.claims import less_than

TITLE = "Collectives: BusBW and JCT by size and load balancing"
COLLECTIVES = {"AllReduce": "all_reduce_ring", "AllGather": "all_gather", "AlltoAll": "all_to_all"}
SIZES_MB = (1, 8)
DURATIONS_MS = {1: 20, 8: 100}


def name(collective: str, size_mb: int, balancing: str) -> str:
    return f"{collective}, {size_mb} MB, {balancing}"


def measure(result: Result) -> dict[str, float]:
    """Returns BusBW, the time of an iteration, and the KPIs of uplinks and transport."""
    return common.job(result) | common.uplinks(result) | common.transport(result)


STUDY = Study(
    title=TITLE,
    source=f"{common.SOURCE}, test category 4",
    base={**common.FABRIC, "workload.kind": "job", "workload.rounds": 3, "workload.placement": "round_robin"},
    variants=[
        Variant(
            name(collective, size_mb, balancing),
            {
                **keys,
                "workload.collective": COLLECTIVES[collective],
                "workload.size": f"{size_mb}MB",
                "time.duration": f"{DURATIONS_MS[size_mb]}ms",
            },
            common.COLORS[balancing],
        )
        for collective, size_mb, (balancing, keys) in product(COLLECTIVES, SIZES_MB, BALANCING.items())
    ],
    measures=(BUSBW, JCT, common.MMR, common.JFI, common.OUT_OF_ORDER, common.RESENT, common.PAUSES, common.DROPS),
    measure=measure,
    seeds=common.SEEDS,
    identities=[
        less_than(name(collective, size_mb, balancing), BUSBW, common.LINE_BPS)
        for collective, size_mb, balancing in product(COLLECTIVES, SIZES_MB, BALANCING)
    ],
    draw=partial(drawing.dot_panels, columns=(BUSBW, JCT, common.MMR), title=TITLE),
)
