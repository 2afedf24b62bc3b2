# SPDX-License-Identifier: Apache-2.0
"""Figure 9 of ACC (Yan et al., SIGCOMM 2021): operations a second of storage by IO depth, with ACC and static markings.

ACC: 18 servers compute and 6 store, with the mixes of its table 1. The static marking is the vendor's for storage: 30 to 270 KB,
10 %. With ACC VDI has 5 % more operations at a depth of 16 and 15.3 % at 128, file backup up to 30 %. At a low depth nothing is
gained. ACC gives neither the distribution of block sizes, nor how copies are made, nor the times of the disks.

Here as many servers are on preset acc24a, the last six of which store. There are no disks, so operations wait for the network at
every depth. The operations of a pair of servers share a queue pair, as the operations of a connection do. The powers of two in a
range of blocks are equally likely. Operations count that end from 3 to 8 ms.

Rows whose queues keep the last action of ACC's template, which marks nothing below 10 MB, show the cost of a marking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from dc_gym.base.units import parse_time_ns
from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, PAUSES, QUEUE, REWARD, TRAINED, UNMARKED
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Measure, Study, Variant, VariantLine, above, alike, series

TITLE = "Storage: operations a second by IO depth"
SOURCE = "ACC, figure 9"
COMPUTING, STORING = 18, 6
WARMUP_MS, DURATION_MS = 3, 8
VENDOR = "vendor's"
VDI, BACKUP = "vdi", "backup"
MIX_LABELS = {
    **{"oltp": "OLTP", "olap": "OLAP", VDI: "VDI"},
    **{"exchange": "exchange server", "video": "video on demand", BACKUP: "file backup"},
}
DEPTHS: Mapping[str, tuple[int, ...]] = {mix: (1, 16, 128) if mix == VDI else (1, 128) for mix in MIX_LABELS}
SPARE_PER_MS = {"oltp": 210, "olap": 4, VDI: 160, "exchange": 20, "video": 45, BACKUP: 80}
"""Operations in a ms that a computing server has room for: 2.5 times the capacity of its share of the storage servers' lines."""
MOST_PER_MS = 100
"""Operations that a single place may make in a ms: one of the smallest block takes 7 us, one of the mean more than 10."""
WHO = (VENDOR, TRAINED)
KEYS: Mapping[str, Mapping[str, Any]] = {**CONTESTANTS, VENDOR: {"topology.marking": "acc-vendor"}}
COLORS = {**common.COLORS, VENDOR: "#117733"}
LOOKS = (("v", ":"), ("^", ":"), ("o", "-"), ("D", ":"), ("x", ":"), ("s", "--"))
"""Marker and line by mix."""
GAINS = {(VDI, 16): 5.0, (VDI, 128): 15.3, (BACKUP, 128): 30.0}
"""By how many percent operations a second are more with ACC than with the vendor's marking."""
ALIKE = 0.02
IOPS = Measure("iops", "operations a second (1000)", 1e-3, 4)
TIME = Measure("operation_s", "mean time of an operation (us)", 1e6, 4)
TAIL = Measure("operation_p99_s", "its 99th percentile (us)", 1e6, 4)
ENDED = Measure("places_at_end", "places without an operation left (%)", 100, 3)


def name(mix: str, depth: int, contestant: str) -> str:
    return f"{MIX_LABELS[mix]}, depth {depth}, {contestant}"


def rounds(mix: str, depth: int) -> int:
    """Returns how many operations follow one another in each of the places under way, which is more than a run needs."""
    return 5 + DURATION_MS * SPARE_PER_MS[mix] // depth if depth > 1 else DURATION_MS * MOST_PER_MS


VARIANTS = [
    Variant(
        name(mix, depth, who),
        {"workload.mix": mix, "workload.outstanding": depth, "workload.rounds": rounds(mix, depth), **KEYS[who]},
        COLORS[who],
    )
    for (mix, depth), who in (
        *product([(mix, depth) for mix, depths in DEPTHS.items() for depth in depths], WHO),
        *product(((VDI, 128), (BACKUP, 128)), [UNMARKED]),
    )
]


def _claims() -> Iterator[Claim]:
    for (mix, depth), percent in GAINS.items():
        words = f"{MIX_LABELS[mix]}, depth {depth}: more operations a second than with the vendor's marking (ACC: {percent:g} %)"
        yield Claim(words, SOURCE, (above(name(mix, depth, TRAINED), name(mix, depth, VENDOR), IOPS),))
    words = f"{MIX_LABELS[VDI]}, depth 1: as many operations a second as with the vendor's marking (ours: within {ALIKE:.0%})"
    yield Claim(words, SOURCE, alike(name(VDI, 1, TRAINED), name(VDI, 1, VENDOR), IOPS, ALIKE))


def measure(result: Result) -> dict[str, float]:
    """Returns the measures of the operations that ended after the warm-up, and whether any place ran out of operations."""
    flows, time = result.records("flows"), result.manifest["spec"]["time"]
    start_ns, end_ns = (parse_time_ns(time[key], key) for key in ("warmup", "duration"))
    ended = flows[(flows["end_ns"] >= start_ns) & (flows["end_ns"] < end_ns)]
    if not len(ended):
        return {}
    took_s = (ended["end_ns"] - ended["start_ns"]) / 1e9
    last = flows[flows["rep"] == flows["rep"].max()]
    return {
        IOPS.name: len(ended) / ((end_ns - start_ns) / 1e9),
        TIME.name: float(took_s.mean()),
        TAIL.name: float(np.percentile(took_s, 99)),
        QUEUE.name: number(result.summary["mean_queue_bytes"]),
        REWARD.name: common.reward_of(result),
        ENDED.name: float((last["end_ns"] >= 0).mean()),
        **common.pauses(result),
    }


LINES = [
    VariantLine(f"{MIX_LABELS[mix]}, {who}", COLORS[who], {float(depth): name(mix, depth, who) for depth in depths}, *how)
    for (mix, depths), how in zip(DEPTHS.items(), LOOKS, strict=True)
    for who in WHO
]
STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={
        **common.FABRICS[common.PFC],
        "nic.queue_pairs": "hosts",
        "workload.kind": "storage",
        "workload.storage": STORING,
        **common.sampled(DURATION_MS, 100, 25, WARMUP_MS),
    },
    variants=VARIANTS,
    measures=(IOPS, TIME, TAIL, QUEUE, PAUSES, REWARD, ENDED),
    measure=measure,
    claims=[*_claims()],
    draw=partial(series.figure, series=LINES, columns=(IOPS, TIME, QUEUE), xlabel="IO depth", title=TITLE),
    seeds=3,
    facts=common.FACTS,
    runs="storage",
)
