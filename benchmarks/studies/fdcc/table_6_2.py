# SPDX-License-Identifier: Apache-2.0
"""Table 6.2 of FDCC (K. Zhang, MSc thesis 2023): 4, 16, 256 and 1024 flows to one receiver through a dumbbell of 64 pairs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dc_gym.benchmarks.studies.fdcc import common, n_to_one
from dc_gym.benchmarks.studies.fdcc.common import CONTESTANTS, DCQCN, FDCC, HPCC, RIVALS, RLCC, TIMELY, Change
from dc_gym.benchmarks.studies.fdcc.n_to_one import GOODPUT, QUEUE, SLOWDOWN, SMALL, TOGETHER, UNFAIR, Changes, name
from dc_gym.study import OURS, Claim, Criterion, Study, Variant, above, below, less_than, more_than

TITLE = "n flows to one through a dumbbell"
SOURCE = "FDCC, table 6.2"
COUNTS, PAIRS, LINKS = (4, 16, 256, 1024), 64, 3
PAPER: Mapping[tuple[str, int], tuple[float, ...]] = {
    (DCQCN, 4): (42_993, 48_208, 4.0, 4.1, 2e-5, 0.96),
    (DCQCN, 16): (135_260, 151_960, 15.4, 16.0, 0.03805, 0.99),
    (DCQCN, 256): (1_098_613, 2_882_000, 253, 255.5, 0.00997, 0.96),
    (DCQCN, 1024): (6_718_385, 6_764_840, 975.4, 982.1, 0.00683, 0.99),
    (TIMELY, 4): (43_654, 49_632, 4, 4, 2e-5, 0.95),
    (TIMELY, 16): (130_875, 144_672, 15.8, 16.2, 0.01845, 0.96),
    (TIMELY, 256): (1_372_074, 4_037_088, 293.8, 296.1, 0.00762, 0.83),
    (TIMELY, 1024): (1_914_595, 6_554_592, 1026.1, 1028.3, 0.00218, 0.95),
    (HPCC, 4): (1_089, 3_354, 3.3, 4.3, 0.299, 0.93),
    (HPCC, 16): (2_804, 6_708, 17.4, 17.6, 0.01279, 0.88),
    (HPCC, 256): (131_961, 3_274_622, 294.5, 295.2, 0.00243, 0.83),
    (HPCC, 1024): (1_347_185, 6_502_288, 1089.2, 1091.4, 0.00195, 0.89),
    (RLCC, 4): (49_565, 52_546, 4.3, 4.3, 1e-5, 0.90),
    (RLCC, 16): (253_289, 253_786, 17, 17, 3e-5, 0.89),
    (RLCC, 256): (4_167_130, 4_286_572, 255.1, 255.4, 0.00117, 0.95),
    (RLCC, 1024): (3_085_705, 6_987_246, 984.35, 986.5, 0.00225, 0.98),
    (FDCC, 4): (49_275, 51_128, 4.1, 4.1, 2e-5, 0.93),
    (FDCC, 16): (30_716, 31_525, 16.9, 16.9, 2e-5, 0.90),
    (FDCC, 256): (3_578_234, 3_688_457, 254.5, 254.7, 0.00091, 0.96),
    (FDCC, 1024): (2_495_439, 6_572_722, 975.6, 977.1, 0.00153, 0.99),
}
WINDOWS = Change("windows alone", {"topology.marking": "none"})
"""DCQCN that never receives a mark, so that only the window of one BDP acts."""
SECN1 = Change("secn1", {"topology.marking": "secn1"})
"""The marking of DCQCN's own paper."""
OTHER_COUNTS = (16, 256)
CROWDED = (16, 256, 1024)  # the numbers of flows with which FDCC is not the fairest here
TIMES = Change("times of 2 and 12 us", {"nic.parameters.t_low": 2000, "nic.parameters.t_high": 12000})
"""Ours: 12 us is the round trip that the thesis' queue of TIMELY makes with 16 flows, 131 kB."""
ACTING = {who: (TOGETHER, SMALL) for who in CONTESTANTS} | {DCQCN: (SECN1, TOGETHER, SMALL), TIMELY: (TIMES, TOGETHER, SMALL)}
"""Changes with which each contestant acts with 16 flows, and windows have more than three packets."""
NEAR = 0.1  # ours: a queue is the thesis' within that part of it
OTHERS = (DCQCN, TIMELY, RLCC)
NOTES = (
    *n_to_one.NOTES,
    f"Variants `{WINDOWS.label}` are DCQCN without marks: only the window of one BDP acts. Those of `{SECN1.label}` have the"
    " marking of DCQCN's own paper.",
)


def _variant(contestant: str, flows: int, *changes: Change) -> Variant:
    paper = {column.name: value for column, value in zip(n_to_one.PRINTED, PAPER[contestant, flows], strict=True)}
    unlike = WINDOWS in changes or SECN1 in changes
    return n_to_one.variant(contestant, flows, PAIRS, common.DUMBBELL, *changes, paper={} if unlike else paper)


PLAIN = [_variant(who, flows) for flows in COUNTS for who in CONTESTANTS]
VARIANTS = [
    *PLAIN,
    *(_variant(DCQCN, flows, change) for flows in OTHER_COUNTS for change in (WINDOWS, SECN1)),
    *(_variant(who, flows, TOGETHER) for flows in CROWDED for who in CONTESTANTS),
    *(_variant(who, 16, *changes) for who, changes in ACTING.items()),
    *(_variant(TIMELY, flows, TIMES) for flows in CROWDED),
]
_claim = partial(n_to_one.compared, SOURCE)


def _fairest(flows: int, changes: Changes | None = None, setup: str = "") -> Claim:
    return _claim(f"{flows} flows: FDCC is the fairest", below, FDCC, RIVALS, [UNFAIR], [flows], changes, setup)


def _near_the_thesis(variant: str, contestant: str, flows: int) -> tuple[Criterion, Criterion]:
    """Returns the criteria that a variant's queue is the thesis' of `contestant`, within NEAR of it."""
    queue_bytes = PAPER[contestant, flows][0]
    return more_than(variant, QUEUE, (1 - NEAR) * queue_bytes), less_than(variant, QUEUE, (1 + NEAR) * queue_bytes)


def _windows_alone(flows: int) -> tuple[Criterion, ...]:
    windows = name(DCQCN, flows, WINDOWS)
    return *_near_the_thesis(windows, RLCC, flows), above(windows, name(DCQCN, flows, SECN1), QUEUE)


SOONER = "256 and 1024 flows: FDCC's flows take less long than"
RLCC_LONGER = "RL-CC's queue is longer than DCQCN's with 16 and 256 flows, and shorter with 1024"
CLAIMS = (
    *(_claim(f"{flows} flows: HPCC has the shortest mean queue", below, HPCC, OTHERS, [QUEUE], [flows]) for flows in COUNTS),
    _claim("4 flows: HPCC is the least fair", above, HPCC, OTHERS, [UNFAIR], [4]),
    _claim(
        "16 flows and more: HPCC's flows take longer than DCQCN's and RL-CC's (telemetry in each frame)",
        *(above, HPCC, (DCQCN, RLCC), [SLOWDOWN], CROWDED),
    ),
    Claim(
        RLCC_LONGER,
        SOURCE,
        tuple(than(name(RLCC, n), name(DCQCN, n), QUEUE) for n, than in ((16, above), (256, above), (1024, below))),
    ),
    Claim(
        f"16 and 256 flows: windows alone leave the thesis' queue of RL-CC (within {NEAR:.0%}), longer than DCQCN's with secn1",
        OURS,
        tuple(criterion for flows in OTHER_COUNTS for criterion in _windows_alone(flows)),
    ),
    *(_fairest(flows) for flows in CROWDED),
    *(_fairest(flows, dict.fromkeys(CONTESTANTS, (TOGETHER,)), TOGETHER.label) for flows in CROWDED),
    _fairest(16, ACTING, f"all cut, {TOGETHER.label}, {SMALL.label}"),
    _claim("4 flows: FDCC is fairer than HPCC", below, FDCC, [HPCC], [UNFAIR], [4]),
    _claim("16 flows: FDCC's mean queue is shorter than DCQCN's, TIMELY's and RL-CC's", below, FDCC, OTHERS, [QUEUE], [16]),
    n_to_one.compared(
        "FDCC, table 6.2 and section 6.2",
        "FDCC's mean queue is longer than HPCC's, with every number of flows (a limit that the thesis tells)",
        *(above, FDCC, [HPCC], [QUEUE], COUNTS),
    ),
    _claim("16 flows and more: FDCC carries more than HPCC", above, FDCC, [HPCC], [GOODPUT], CROWDED),
    _claim(f"{SOONER} HPCC's (mean slowdown)", below, FDCC, [HPCC], [SLOWDOWN], (256, 1024)),
    *(
        _claim(f"{SOONER} TIMELY's (mean slowdown)", below, FDCC, [TIMELY], [SLOWDOWN], (256, 1024), *how)
        for how in (({}, ""), ({TIMELY: (TIMES,)}, TIMES.label))
    ),
    Claim(
        f"16 flows: with times of 2 and 12 us TIMELY has the thesis' queue (within {NEAR:.0%})",
        OURS,
        _near_the_thesis(name(TIMELY, 16, TIMES), TIMELY, 16),
    ),
)
STUDY = Study(
    title=TITLE,
    source=SOURCE,
    variants=VARIANTS,
    measures=n_to_one.MEASURES,
    measure=partial(n_to_one.measure, links=LINKS),
    claims=CLAIMS,
    identities=common.nothing_dropped(PLAIN),
    draw=n_to_one.figure({"": COUNTS}, (QUEUE, UNFAIR, GOODPUT), TITLE),
    facts=common.facts(f"a dumbbell of {PAIRS} pairs", n_to_one.TRAFFIC),
    notes=NOTES,
)
