# SPDX-License-Identifier: Apache-2.0
"""Table 6.2 of FDCC (K. Zhang, MSc thesis 2023): 4, 16, 256 and 1024 flows to one receiver through a dumbbell of 64 pairs."""

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
    PAUSED,
    PAUSES,
    QUEUE,
    RIVALS,
    RLCC,
    SLOWDOWN,
    SLOWDOWN_TAIL,
    SMALL,
    TAIL,
    TIMELY,
    TOGETHER,
    UNFAIR,
    UNFINISHED,
    Change,
    Traffic,
    name,
)
from dc_gym.study.collect import Variant
from dc_gym.study.claims import Claim, Criterion, Explanation, above, below, less_than, more_than
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "n flows to one through a dumbbell"
SOURCE = "FDCC, table 6.2"
NAME = "dumbbell"
COUNTS, PAIRS, LINKS = (4, 16, 256, 1024), 64, 3
COLUMNS = (QUEUE, TAIL, SLOWDOWN, SLOWDOWN_TAIL, UNFAIR, GOODPUT, PAUSED, PAUSES, DROPPED, UNFINISHED)
PRINTED = (QUEUE, TAIL, SLOWDOWN, SLOWDOWN_TAIL, UNFAIR, GOODPUT)
"""The quantities of the thesis' table, in its order."""
PAPER: Mapping[str, Mapping[int, tuple[float, ...]]] = {
    DCQCN: {
        4: (42_993, 48_208, 4.0, 4.1, 2e-5, 0.96),
        16: (135_260, 151_960, 15.4, 16.0, 0.03805, 0.99),
        256: (1_098_613, 2_882_000, 253, 255.5, 0.00997, 0.96),
        1024: (6_718_385, 6_764_840, 975.4, 982.1, 0.00683, 0.99),
    },
    TIMELY: {
        4: (43_654, 49_632, 4, 4, 2e-5, 0.95),
        16: (130_875, 144_672, 15.8, 16.2, 0.01845, 0.96),
        256: (1_372_074, 4_037_088, 293.8, 296.1, 0.00762, 0.83),
        1024: (1_914_595, 6_554_592, 1026.1, 1028.3, 0.00218, 0.95),
    },
    HPCC: {
        4: (1_089, 3_354, 3.3, 4.3, 0.299, 0.93),
        16: (2_804, 6_708, 17.4, 17.6, 0.01279, 0.88),
        256: (131_961, 3_274_622, 294.5, 295.2, 0.00243, 0.83),
        1024: (1_347_185, 6_502_288, 1089.2, 1091.4, 0.00195, 0.89),
    },
    RLCC: {
        4: (49_565, 52_546, 4.3, 4.3, 1e-5, 0.90),
        16: (253_289, 253_786, 17, 17, 3e-5, 0.89),
        256: (4_167_130, 4_286_572, 255.1, 255.4, 0.00117, 0.95),
        1024: (3_085_705, 6_987_246, 984.35, 986.5, 0.00225, 0.98),
    },
    FDCC: {
        4: (49_275, 51_128, 4.1, 4.1, 2e-5, 0.93),
        16: (30_716, 31_525, 16.9, 16.9, 2e-5, 0.90),
        256: (3_578_234, 3_688_457, 254.5, 254.7, 0.00091, 0.96),
        1024: (2_495_439, 6_572_722, 975.6, 977.1, 0.00153, 0.99),
    },
}
WINDOWS = Change("windows alone", {"topology.marking": "none"})
"""DCQCN that is never told of a mark, so that nothing but the window of one BDP acts."""
SECN1 = Change("secn1", {"topology.marking": "secn1"})
"""The marking of DCQCN's own paper."""
OTHER_COUNTS = (16, 256)
CROWDED = (16, 256, 1024)
"""The numbers of flows with which FDCC is not the fairest here."""
TIMES = Change("times of 2 and 12 us", {"nic.parameters.t_low": 2000, "nic.parameters.t_high": 12000})
"""Ours: 12 us is the round trip that the thesis' queue of TIMELY makes with 16 flows, 131 kB."""
ACTING = {who: (TOGETHER, SMALL) for who in CONTESTANTS} | {DCQCN: (SECN1, TOGETHER, SMALL), TIMELY: (TIMES, TOGETHER, SMALL)}
"""Changes with which each contestant acts with 16 flows, and windows have more than three packets."""
NOTES = (
    *flows_to_one.NOTES,
    f"Rows `{WINDOWS.label}` are DCQCN without marks: only the window of one BDP acts. Rows `{SECN1.label}` have the marking of"
    " DCQCN's own paper.",
)


def _row(who: str, flows: int, *changes: Change) -> Variant:
    paper = {} if WINDOWS in changes or SECN1 in changes else _paper(who, flows)
    return flows_to_one.row(who, Traffic(flows, PAIRS), flows_to_one.DUMBBELL, paper, *changes)


def _paper(who: str, flows: int) -> dict[str, float]:
    return {column.name: value for column, value in zip(PRINTED, PAPER[who][flows], strict=True)}


ROWS = [
    *(_row(who, flows) for flows in COUNTS for who in CONTESTANTS),
    *(_row(DCQCN, flows, change) for flows in OTHER_COUNTS for change in (WINDOWS, SECN1)),
    *(_row(who, flows, TOGETHER) for flows in CROWDED for who in CONTESTANTS),
    *(_row(who, 16, *changes) for who, changes in ACTING.items()),
    *(_row(TIMELY, flows, TIMES) for flows in CROWDED),
]
PAGE = "docs/reproduce-fdcc.md#table-62-n-flows-to-one-through-a-dumbbell"
IDLE = Explanation(
    hypothesis="the thesis' RL-CC never cuts: with 16 and 256 flows its queue is what windows of one BDP leave",
    experiment=f"the rows `{DCQCN}, {WINDOWS.label}` of dcgym reproduce fdcc table-6.2",
    page=PAGE,
    showed="they leave 244 kB and 4.19 MB (five seeds), the thesis' RL-CC has 253 kB and 4.17 MB; ours holds 13 kB with 16 flows,"
    " and FDCC 46",
)
HEAD_START = Explanation(
    hypothesis="FDCC's first flows gain because they have the line alone: 1 ms is 735 base round trips",
    experiment=f"the rows `{TOGETHER.label}` of dcgym reproduce fdcc table-6.2, which change workload.jitter alone",
    page=PAGE,
    showed="with 256 and 1024 flows that start together FDCC is the fairest with five seeds: its unfair ratio is 0.003 and 0.014"
    " (with spread starts 0.26 and 1.13), the best rival's 0.064 and 0.21 (0.045 and 0.44)",
)
GRAINS = Explanation(
    hypothesis="three things together: the first flows have the line alone; DCQCN and TIMELY do nothing with 16 flows here, so"
    " that their windows of one BDP stay equal; FDCC's are two or three whole packets, between which each flow hops in its own"
    " way",
    experiment=f"the rows `{TOGETHER.label}, {SMALL.label}` of dcgym reproduce fdcc table-6.2, in which DCQCN has `{SECN1.label}`"
    f" and TIMELY {TIMES.label}, so that both cut",
    page=PAGE,
    showed="then FDCC's unfair ratio is 0.0025 (five seeds), the best rival's 0.0048 (RL-CC); with starts within 1 us alone it is"
    " 0.013, and DCQCN's and TIMELY's 0.0001",
)
TIMELY_TIMES = Explanation(
    hypothesis="the thesis' TIMELY has shorter times: its queue of 16 flows, 131 kB, is 12 us, where times of 50 and 500 us do"
    " nothing; with shorter ones it carries less, and its flows take longer",
    experiment=f"the rows `{TIMELY}, {TIMES.label}` of dcgym reproduce fdcc table-6.2, which change TIMELY's two times alone",
    page=PAGE,
    showed="with times of 2 and 12 us its queue of 16 flows is 124 kB, and with 256 and 1024 flows the mean slowdown is 269 and"
    " 1083 (242 and 902 by default), FDCC's 267 and 1058 (five seeds)",
)
CAUSES = {16: GRAINS, 256: HEAD_START, 1024: HEAD_START}


def _fairest(flows: int, changes: Mapping[str, tuple[Change, ...]] | None = None, variant: str = "") -> Claim:
    """Returns the claim on the rows that have these changes, by contestant."""
    changes_of = changes or dict.fromkeys(CONTESTANTS, ())
    names = {who: name(who, flows, *changes_of[who]) for who in CONTESTANTS}
    return Claim(
        f"{flows} flows: FDCC is the fairest",
        SOURCE,
        tuple(below(names[FDCC], names[other], UNFAIR) for other in RIVALS),
        explanation=None if changes else CAUSES[flows],
        variant=variant,
    )


def _sooner_than_timely(*changes: Change) -> Claim:
    """Returns the claim with TIMELY's rows that have these changes."""
    return Claim(
        "256 and 1024 flows: FDCC's flows take less long than TIMELY's (mean slowdown)",
        SOURCE,
        tuple(below(name(FDCC, flows), name(TIMELY, flows, *changes), SLOWDOWN) for flows in (256, 1024)),
        explanation=None if changes else TIMELY_TIMES,
        variant=flows_to_one.labels(changes),
    )


def _near_the_thesis(row: str, who: str, flows: int) -> tuple[Criterion, Criterion]:
    """Returns the criteria that a row's queue is the thesis' of `who`, within NEAR of it."""
    queue_bytes = PAPER[who][flows][0]
    return more_than(row, QUEUE, (1 - NEAR) * queue_bytes), less_than(row, QUEUE, (1 + NEAR) * queue_bytes)


NEAR = 0.1
"""Ours: a queue is the thesis' within that part of it."""
OTHERS = (DCQCN, TIMELY, RLCC)
CLAIMS = (
    *(
        Claim(
            f"{flows} flows: HPCC has the shortest mean queue",
            SOURCE,
            tuple(below(name(HPCC, flows), name(other, flows), QUEUE) for other in OTHERS),
            why="a queue that the first millisecond fills counts for more in a shorter run",
        )
        for flows in COUNTS
    ),
    Claim(
        "4 flows: HPCC is the least fair",
        SOURCE,
        tuple(above(name(HPCC, 4), name(other, 4), UNFAIR) for other in OTHERS),
        why="the thesis does not give its rivals' parameters",
    ),
    Claim(
        "16 flows and more: HPCC's flows take longer than DCQCN's and RL-CC's (telemetry in each frame)",
        SOURCE,
        tuple(above(name(HPCC, flows), name(other, flows), SLOWDOWN) for flows in (16, 256, 1024) for other in (DCQCN, RLCC)),
    ),
    Claim(
        "RL-CC's queue is longer than DCQCN's with 16 and 256 flows, and shorter with 1024",
        SOURCE,
        (
            *(above(name(RLCC, flows), name(DCQCN, flows), QUEUE) for flows in (16, 256)),
            below(name(RLCC, 1024), name(DCQCN, 1024), QUEUE),
        ),
        why="the thesis does not say which policy, beta and target its RL-CC has, nor DCQCN's parameters",
        explanation=IDLE,
    ),
    Claim(
        f"16 and 256 flows: windows alone leave the thesis' queue of RL-CC (within {NEAR:.0%}), longer than DCQCN's with secn1",
        SOURCE,
        tuple(
            criterion
            for flows in OTHER_COUNTS
            for criterion in (
                *_near_the_thesis(name(DCQCN, flows, WINDOWS), RLCC, flows),
                above(name(DCQCN, flows, WINDOWS), name(DCQCN, flows, SECN1), QUEUE),
            )
        ),
        ours=True,
    ),
    *(_fairest(flows) for flows in CAUSES),
    *(_fairest(flows, dict.fromkeys(CONTESTANTS, (TOGETHER,)), TOGETHER.label) for flows in CROWDED),
    _fairest(16, ACTING, f"all cut, {TOGETHER.label}, {SMALL.label}"),
    Claim(
        "4 flows: FDCC is fairer than HPCC",
        SOURCE,
        (below(name(FDCC, 4), name(HPCC, 4), UNFAIR),),
    ),
    Claim(
        "16 flows: FDCC's mean queue is shorter than DCQCN's, TIMELY's and RL-CC's",
        SOURCE,
        tuple(below(name(FDCC, 16), name(other, 16), QUEUE) for other in OTHERS),
        why="the thesis' RL-CC does not cut (rows of windows alone), ours does",
        explanation=IDLE,
    ),
    Claim(
        "FDCC's mean queue is longer than HPCC's, with every number of flows (a limit that the thesis tells)",
        "FDCC, table 6.2 and section 6.2",
        tuple(above(name(FDCC, flows), name(HPCC, flows), QUEUE) for flows in COUNTS),
    ),
    Claim(
        "16 flows and more: FDCC carries more than HPCC",
        SOURCE,
        tuple(above(name(FDCC, flows), name(HPCC, flows), GOODPUT) for flows in (16, 256, 1024)),
    ),
    Claim(
        "256 and 1024 flows: FDCC's flows take less long than HPCC's (mean slowdown)",
        SOURCE,
        tuple(below(name(FDCC, flows), name(HPCC, flows), SLOWDOWN) for flows in (256, 1024)),
    ),
    _sooner_than_timely(),
    _sooner_than_timely(TIMES),
    Claim(
        f"16 flows: with times of 2 and 12 us TIMELY has the thesis' queue (within {NEAR:.0%})",
        SOURCE,
        _near_the_thesis(name(TIMELY, 16, TIMES), TIMELY, 16),
        ours=True,
    ),
    Claim(
        "Nothing is dropped (PFC)",
        SOURCE,
        tuple(less_than(name(who, flows), DROPPED, 1) for flows in COUNTS for who in CONTESTANTS),
    ),
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, partial(flows_to_one.measure, links=LINKS))
    facts = flows_to_one.facts("a dumbbell of 64 pairs", COUNTS, options.full)
    figure = flows_to_one.figure(evidence, COUNTS, (QUEUE, UNFAIR, GOODPUT), TITLE)
    return own_rate.findings(TITLE, facts, options, evidence, COLUMNS, CLAIMS, figure, NOTES)
