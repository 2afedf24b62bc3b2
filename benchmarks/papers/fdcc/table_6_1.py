# SPDX-License-Identifier: Apache-2.0
"""Table 6.1 of FDCC (K. Zhang, MSc thesis 2023): goodput of 48, 192 and 768 flows from three racks to a host of the fourth.

The fat-tree has four access switches with 16 hosts each, and four aggregation switches (preset fdcc64).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers import own_rate
from dc_gym.benchmarks.papers.fdcc import n_to_one as flows_to_one
from dc_gym.benchmarks.papers.fdcc.n_to_one import (
    DCQCN,
    DROPPED,
    GOODPUT,
    HPCC,
    PAUSED,
    PAUSES,
    QUEUE,
    RIVALS,
    RLCC,
    SLOWDOWN,
    SLOWDOWN_TAIL,
    TIMELY,
    UNFAIR,
    UNFINISHED,
    Traffic,
    name,
)
from dc_gym.reproduce.claims import Claim, above, below, less_than
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions

TITLE = "n flows from three racks to a host of the fourth"
SOURCE = "FDCC, table 6.1"
NAME = "racks"
COUNTS, SENDERS, LINKS = (48, 192, 768), 48, 4
COLUMNS = (GOODPUT, SLOWDOWN, SLOWDOWN_TAIL, UNFAIR, QUEUE, PAUSED, PAUSES, DROPPED, UNFINISHED)
PAPER: Mapping[str, Mapping[int, float]] = {
    DCQCN: {48: 0.99, 192: 0.98, 768: 0.97},
    TIMELY: {48: 0.99, 192: 0.98, 768: 0.96},
    HPCC: {48: 0.87, 192: 0.88, 768: 0.86},
    RLCC: {48: 0.98, 192: 0.89, 768: 0.88},
}
ROWS = [
    flows_to_one.row(who, Traffic(flows, SENDERS), flows_to_one.FAT_TREE, {GOODPUT.name: PAPER[who][flows]})
    for flows in COUNTS
    for who in RIVALS
]
CLAIMS = (
    *(
        Claim(
            f"{flows} flows: HPCC carries the least",
            SOURCE,
            tuple(below(name(HPCC, flows), name(other, flows), GOODPUT) for other in (DCQCN, TIMELY, RLCC)),
        )
        for flows in COUNTS
    ),
    Claim(
        "192 and 768 flows: RL-CC carries less than DCQCN and TIMELY",
        SOURCE,
        tuple(above(name(other, flows), name(RLCC, flows), GOODPUT) for flows in (192, 768) for other in (DCQCN, TIMELY)),
        why="the thesis does not say which policy, beta and target its RL-CC has",
    ),
    Claim(
        "Nothing is dropped (PFC)",
        SOURCE,
        tuple(less_than(name(who, flows), DROPPED, 1) for flows in COUNTS for who in RIVALS),
    ),
)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, partial(flows_to_one.measure, links=LINKS))
    facts = flows_to_one.facts(
        "a fat-tree of 4 access switches with 16 hosts each and 4 aggregation switches", COUNTS, options.full
    )
    figure = flows_to_one.figure(evidence, COUNTS, (GOODPUT, UNFAIR, PAUSED), TITLE)
    return own_rate.findings(TITLE, facts, options, evidence, COLUMNS, CLAIMS, figure, flows_to_one.NOTES)
