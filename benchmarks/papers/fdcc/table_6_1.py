# SPDX-License-Identifier: Apache-2.0
"""Table 6.1 of FDCC (K. Zhang, MSc thesis 2023): goodput of 48, 192 and 768 flows from three racks to a host of the fourth.

The fat-tree has four access switches with 16 hosts each, and four aggregation switches (preset fdcc64).

The thesis ran in NS-3, and gives TIMELY its paper's parameters, whose sources have no least rate. The HPCC artifact, a simulator
on NS-3 with the same rivals, has one: 1 % of the line (run.py, MIN_RATE). Hypothesis, from seed 1: TIMELY carries too little
because its flows fall far below their share. So rows named "least rate 1 %" have TIMELY with that key alone changed, and claims
that compare with TIMELY are judged on them once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers import own_rate
from dc_gym.benchmarks.papers.fdcc import n_to_one as flows_to_one
from dc_gym.benchmarks.papers.fdcc.n_to_one import (
    CONTESTANTS,
    DCQCN,
    DROPPED,
    FDCC,
    GOODPUT,
    HPCC,
    PAUSED,
    PAUSES,
    QUEUE,
    RLCC,
    SLOWDOWN,
    SLOWDOWN_TAIL,
    TIMELY,
    UNFAIR,
    UNFINISHED,
    Traffic,
    name,
)
from dc_gym.reproduce.claims import Claim, Explanation, above, below, less_than
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions

TITLE = "n flows from three racks to a host of the fourth"
SOURCE = "FDCC, table 6.1"
NAME = "racks"
COUNTS, SENDERS, LINKS = (48, 192, 768), 48, 4
CROWDED = (192, 768)
"""The numbers of flows with which TIMELY carries less than HPCC here."""
FLOOR = "least rate 1 %"
FLOORED = f"{TIMELY}, {FLOOR}"
FLOOR_KEYS: Mapping[str, float] = {"nic.parameters.rate_min": 10486}
"""1 % of the line, in 2^-20 of it."""
COLUMNS = (GOODPUT, SLOWDOWN, SLOWDOWN_TAIL, UNFAIR, QUEUE, PAUSED, PAUSES, DROPPED, UNFINISHED)
PAPER: Mapping[str, Mapping[int, float]] = {
    DCQCN: {48: 0.99, 192: 0.98, 768: 0.97},
    TIMELY: {48: 0.99, 192: 0.98, 768: 0.96},
    HPCC: {48: 0.87, 192: 0.88, 768: 0.86},
    RLCC: {48: 0.98, 192: 0.89, 768: 0.88},
    FDCC: {48: 0.98, 192: 0.93, 768: 0.94},
}
ROWS = [
    *(
        flows_to_one.row(who, Traffic(flows, SENDERS), flows_to_one.FAT_TREE, {GOODPUT.name: PAPER[who][flows]})
        for flows in COUNTS
        for who in CONTESTANTS
    ),
    *(
        flows_to_one.row(
            TIMELY, Traffic(flows, SENDERS), flows_to_one.FAT_TREE, {GOODPUT.name: PAPER[TIMELY][flows]}, FLOORED, FLOOR_KEYS
        )
        for flows in CROWDED
    ),
]
FALLS = Explanation(
    hypothesis="TIMELY carries too little because its flows fall far below their share of the line, and rise slowly",
    experiment=f"the rows `{FLOORED}` of dcgym reproduce fdcc table-6.1, which change this one key",
    page="docs/reproduce-fdcc.md#table-61-n-flows-from-three-racks-to-the-fourth",
    showed="with a least rate of 1 % of the line, as in HPCC's simulator, TIMELY carries 0.995 with 192 flows and 0.93 to 1.00"
    " with 768 (five seeds), more than RL-CC and HPCC",
)


def _hpcc_least(flows: int, timely: str, variant: str = "") -> Claim:
    return Claim(
        f"{flows} flows: HPCC carries the least",
        SOURCE,
        tuple(below(name(HPCC, flows), name(other, flows), GOODPUT) for other in (DCQCN, timely, RLCC)),
        why="the thesis does not say which least rate its TIMELY has",
        explanation=FALLS if flows in CROWDED else None,
        variant=variant,
    )


def _rlcc_less(timely: str, variant: str = "") -> Claim:
    return Claim(
        "192 and 768 flows: RL-CC carries less than DCQCN and TIMELY",
        SOURCE,
        tuple(above(name(other, flows), name(RLCC, flows), GOODPUT) for flows in CROWDED for other in (DCQCN, timely)),
        why="the thesis does not say which policy, beta and target its RL-CC has, and which least rate its TIMELY",
        explanation=FALLS,
        variant=variant,
    )


CLAIMS = (
    *(_hpcc_least(flows, TIMELY) for flows in COUNTS),
    _rlcc_less(TIMELY),
    *(_hpcc_least(flows, FLOORED, FLOOR) for flows in CROWDED),
    _rlcc_less(FLOORED, FLOOR),
    Claim(
        "FDCC carries more than HPCC, with every number of flows",
        SOURCE,
        tuple(above(name(FDCC, flows), name(HPCC, flows), GOODPUT) for flows in COUNTS),
    ),
    Claim(
        "192 and 768 flows: FDCC carries more than RL-CC",
        SOURCE,
        tuple(above(name(FDCC, flows), name(RLCC, flows), GOODPUT) for flows in CROWDED),
        why="the thesis does not say which policy, beta and target its RL-CC has",
    ),
    Claim(
        "192 and 768 flows: FDCC carries less than DCQCN",
        SOURCE,
        tuple(below(name(FDCC, flows), name(DCQCN, flows), GOODPUT) for flows in CROWDED),
    ),
    Claim(
        "Nothing is dropped (PFC)",
        SOURCE,
        tuple(less_than(name(who, flows), DROPPED, 1) for flows in COUNTS for who in CONTESTANTS),
    ),
)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, partial(flows_to_one.measure, links=LINKS))
    facts = flows_to_one.facts(
        "a fat-tree of 4 access switches with 16 hosts each and 4 aggregation switches", COUNTS, options.full
    )
    figure = flows_to_one.figure(evidence, COUNTS, (GOODPUT, UNFAIR, PAUSED), TITLE)
    return own_rate.findings(TITLE, facts, options, evidence, COLUMNS, CLAIMS, figure, flows_to_one.NOTES)
