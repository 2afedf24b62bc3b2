# SPDX-License-Identifier: Apache-2.0
"""Test category 3 of the draft: ECMP entropy by queue pairs a pair of hosts, flowlets by their gap, and packet spraying.

Each host sends 4 MB to the host of the same place in the next leaf, over Q queue pairs: a perfect balance gives every pair its
line. The draft counts flows in MMR; here it is of bytes, which flows of one size make the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dc_gym.benchmarks.studies.bmwg import common
from dc_gym.benchmarks.studies.bmwg.common import ECMP, GOODPUT, HOSTS_PER_LEAF, JFI, LEAVES, MMR, SPRAY
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Study, Variant, above, below, collect, drawing

TITLE = "Load balancing: entropy of ECMP, flowlets, packet spray"
SIZE_BYTES, QUEUE_PAIRS, GAPS_US = 4_000_000, (1, 4, 8, 16, 32), (10, 50, 250)
DLB_QUEUE_PAIRS = 4
IDEAL_S = SIZE_BYTES * 8 / common.LINE_BPS


def ecmp(queue_pairs: int) -> str:
    return f"{ECMP}, Q = {queue_pairs}"


def dlb(gap_us: int) -> str:
    return f"DLB, gap {gap_us} us, Q = {DLB_QUEUE_PAIRS}"


def measure(result: Result) -> dict[str, float]:
    """Returns the KPIs of the draft's table of load-balancing configurations; goodput until the last pair is done."""
    flows = result.records("flows")
    took_s = number((flows["end_ns"].max() - flows["start_ns"].min()) / 1e9) if (flows["end_ns"] >= 0).all() else float("nan")
    return {GOODPUT.name: IDEAL_S / took_s} | common.uplinks(result) | common.transport(result)


def variant(name: str, queue_pairs: int, balance: Mapping[str, Any], color: str) -> Variant:
    return Variant(name, {**balance, "workload.file": f"{queue_pairs}.csv"}, color)


STUDY = Study(
    title=TITLE,
    source=f"{common.SOURCE}, test category 3",
    base={**common.FABRIC, "workload.kind": "matrix", "workload.jitter": "1us", "time.duration": "60ms"},
    variants=[
        *(variant(ecmp(pairs), pairs, common.BALANCING[ECMP], common.COLORS[ECMP]) for pairs in QUEUE_PAIRS),
        *(
            variant(
                *(dlb(gap_us), DLB_QUEUE_PAIRS, {"topology.balance": "flowlet", "topology.balance_gap": f"{gap_us}us"}),
                common.COLORS[common.FLOWLET],
            )
            for gap_us in GAPS_US
        ),
        variant(SPRAY, 1, common.BALANCING[SPRAY], common.COLORS[SPRAY]),
        variant(f"{SPRAY}, in turn", 1, {"topology.balance": "round_robin"}, "#CC79A7"),
    ],
    files={f"{pairs}.csv": collect.to_next_rack(LEAVES, HOSTS_PER_LEAF, SIZE_BYTES, pairs) for pairs in QUEUE_PAIRS},
    measures=(MMR, JFI, common.OUT_OF_ORDER, common.RESENT, GOODPUT, common.PAUSES, common.DROPS),
    measure=measure,
    seeds=common.SEEDS,
    claims=[
        Claim("More queue pairs even out ECMP", "ours", (below(ecmp(32), ecmp(1), MMR), above(ecmp(32), ecmp(1), JFI))),
        Claim("Packet spray is more even than ECMP with any of these queue pairs", "ours", (below(SPRAY, ecmp(32), MMR),)),
    ],
    draw=partial(drawing.dot_panels, columns=(MMR, JFI, common.OUT_OF_ORDER, GOODPUT), title=TITLE),
)
