# SPDX-License-Identifier: Apache-2.0
"""Table 6.1 of FDCC (K. Zhang, MSc thesis 2023): goodput of 48, 192 and 768 flows from three racks to a host of the fourth.

The fat-tree has four access switches with 16 hosts each, and four aggregation switches (preset fdcc64).

The thesis ran in NS-3, and gives TIMELY its paper's parameters, whose sources have no least rate. The HPCC artifact, a simulator
on NS-3 with the same rivals, has one: 1 % of the line (run.py, MIN_RATE). Hypothesis, from seed 1: TIMELY carries too little
because its flows fall far below their share. So rows named "least rate 1 %" have TIMELY with that key alone changed, and claims
that compare with TIMELY are judged on them once more.

That simulator's NICs have no retransmission timeout. Hypothesis, from seeds 1 and 5: with 768 flows PFC holds packets for longer
than the timeout of two full round trips, 1.44 ms, so DCQCN sends much twice (44,000 frames; in seed 1 none), though nothing is
lost. So rows named "no timeout" have one of 1 s, for data and for probes, which no packet waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.fdcc import n_to_one as flows_to_one
from dc_gym.benchmarks.studies.fdcc.n_to_one import (
    CONTESTANTS,
    DCQCN,
    DROPPED,
    FDCC,
    GOODPUT,
    HPCC,
    OWN_GOODPUT,
    PAUSED,
    PAUSES,
    QUEUE,
    RETRANSMITS,
    RLCC,
    SLOWDOWN,
    SLOWDOWN_TAIL,
    TIMELY,
    UNFAIR,
    UNFINISHED,
    Change,
    Traffic,
    name,
)
from dc_gym.study.collect import Variant
from dc_gym.study.claims import Claim, Explanation, above, below, less_than
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "n flows from three racks to a host of the fourth"
SOURCE = "FDCC, table 6.1"
NAME = "racks"
COUNTS, SENDERS, LINKS = (48, 192, 768), 48, 4
CROWDED = (192, 768)
"""The numbers of flows with which the order of contestants is not the thesis' here."""
FLOOR = Change("least rate 1 %", {"nic.parameters.rate_min": 10486})  # in 2^-20 of the line
UNTIMED, UNTIMED_FLOWS = Change("no timeout", {"nic.timeout": "1s"}), 768
COLUMNS = (GOODPUT, OWN_GOODPUT, SLOWDOWN, SLOWDOWN_TAIL, UNFAIR, QUEUE, PAUSED, PAUSES, RETRANSMITS, DROPPED, UNFINISHED)
PAPER: Mapping[str, Mapping[int, float]] = {
    DCQCN: {48: 0.99, 192: 0.98, 768: 0.97},
    TIMELY: {48: 0.99, 192: 0.98, 768: 0.96},
    HPCC: {48: 0.87, 192: 0.88, 768: 0.86},
    RLCC: {48: 0.98, 192: 0.89, 768: 0.88},
    FDCC: {48: 0.98, 192: 0.93, 768: 0.94},
}


def _row(who: str, flows: int, *changes: Change) -> Variant:
    return flows_to_one.row(who, Traffic(flows, SENDERS), flows_to_one.FAT_TREE, {GOODPUT.name: PAPER[who][flows]}, *changes)


ROWS = [
    *(_row(who, flows) for flows in COUNTS for who in CONTESTANTS),
    *(_row(TIMELY, flows, FLOOR) for flows in CROWDED),
    *(_row(who, UNTIMED_FLOWS, UNTIMED) for who in (DCQCN, RLCC, FDCC)),
]
PAGE = "docs/reproduce-fdcc.md#table-61-n-flows-from-three-racks-to-the-fourth"
FALLS = Explanation(
    hypothesis="TIMELY carries too little because its flows fall far below their share of the line, and rise slowly",
    experiment=f"the rows `{TIMELY}, {FLOOR.label}` of dcgym reproduce fdcc table-6.1, which change this one key",
    page=PAGE,
    showed="with a least rate of 1 % of the line, as in HPCC's simulator, TIMELY carries 0.995 with 192 flows and 0.93 to 1.00"
    " with 768 (five seeds), more than RL-CC and HPCC",
)
TELEMETRY_FOR_ALL = Explanation(
    hypothesis="in the thesis telemetry is in RL-CC's frames, too: with 16 flows its queue is never empty (table 6.2), and yet"
    " its flows take 17.0 times as long as a lone one, as FDCC's do (16.9), where DCQCN's take 15.4",
    experiment=f"the column `{OWN_GOODPUT.title}` of dcgym reproduce fdcc table-6.1, in which telemetry counts against nobody",
    page=PAGE,
    showed="there RL-CC has 0.956 and 0.862 with 192 and 768 flows, and FDCC 0.976 and 0.977 (five seeds)",
)
REPEATS = Explanation(
    hypothesis="PFC holds DCQCN's packets for longer than the timeout of 1.44 ms, so its NICs send them again, though none is"
    " lost",
    experiment=f"the rows `{UNTIMED.label}` of dcgym reproduce fdcc table-6.1, which change nic.timeout alone (timeouts of"
    " probes follow it)",
    page=PAGE,
    showed="with 768 flows and a timeout of 1 s DCQCN carries 0.996 and sends nothing twice; with the default 0.950, and 25,000"
    " to 52,000 frames twice in four seeds of five (FDCC: 0.949 with either)",
)


def _hpcc_least(flows: int, *changes: Change) -> Claim:
    """Returns the claim with TIMELY's row that has these changes."""
    others = (name(DCQCN, flows), name(TIMELY, flows, *changes), name(RLCC, flows))
    return Claim(
        f"{flows} flows: HPCC carries the least",
        SOURCE,
        tuple(below(name(HPCC, flows), other, GOODPUT) for other in others),
        why="the thesis does not say which least rate its TIMELY has",
        explanation=FALLS if flows in CROWDED else None,
        variant=flows_to_one.labels(changes),
    )


def _rlcc_less(*changes: Change) -> Claim:
    return Claim(
        "192 and 768 flows: RL-CC carries less than DCQCN and TIMELY",
        SOURCE,
        tuple(
            above(other, name(RLCC, flows), GOODPUT)
            for flows in CROWDED
            for other in (name(DCQCN, flows), name(TIMELY, flows, *changes))
        ),
        why="the thesis does not say which policy, beta and target its RL-CC has, and which least rate its TIMELY",
        explanation=FALLS,
        variant=flows_to_one.labels(changes),
    )


CLAIMS = (
    *(_hpcc_least(flows) for flows in COUNTS),
    _rlcc_less(),
    *(_hpcc_least(flows, FLOOR) for flows in CROWDED),
    _rlcc_less(FLOOR),
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
        explanation=TELEMETRY_FOR_ALL,
    ),
    Claim(
        "192 and 768 flows: FDCC carries more than RL-CC",
        SOURCE,
        tuple(above(name(FDCC, flows), name(RLCC, flows), OWN_GOODPUT) for flows in CROWDED),
        variant="telemetry counts against nobody",
    ),
    Claim(
        "192 and 768 flows: FDCC carries less than DCQCN",
        SOURCE,
        tuple(below(name(FDCC, flows), name(DCQCN, flows), GOODPUT) for flows in CROWDED),
        explanation=REPEATS,
    ),
    Claim(
        f"{UNTIMED_FLOWS} flows: FDCC carries less than DCQCN",
        SOURCE,
        (below(name(FDCC, UNTIMED_FLOWS, UNTIMED), name(DCQCN, UNTIMED_FLOWS, UNTIMED), GOODPUT),),
        variant=UNTIMED.label,
    ),
    Claim(
        "Nothing is dropped (PFC)",
        SOURCE,
        tuple(less_than(name(who, flows), DROPPED, 1) for flows in COUNTS for who in CONTESTANTS),
    ),
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, partial(flows_to_one.measure, links=LINKS))
    facts = flows_to_one.facts(
        "a fat-tree of 4 access switches with 16 hosts each and 4 aggregation switches", COUNTS, options.full
    )
    figure = flows_to_one.figure(evidence, COUNTS, (GOODPUT, UNFAIR, PAUSED), TITLE)
    return own_rate.findings(TITLE, facts, options, evidence, COLUMNS, CLAIMS, figure, flows_to_one.NOTES)
