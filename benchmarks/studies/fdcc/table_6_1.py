# SPDX-License-Identifier: Apache-2.0
"""Table 6.1 of FDCC (K. Zhang, MSc thesis 2023): goodput of 48, 192 and 768 flows from three racks to a host of the fourth.

The fat-tree has four access switches with 16 hosts each, and four aggregation switches (preset fdcc64). The thesis ran in NS-3,
and gives TIMELY its paper's parameters, whose sources have no least rate. The HPCC artifact, a simulator on NS-3 with the same
rivals, has one: 1 % of the line (run.py, MIN_RATE). Its NICs have no retransmission timeout. Variants have either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from dc_gym.benchmarks.studies.fdcc import common, n_to_one
from dc_gym.benchmarks.studies.fdcc.common import CONTESTANTS, DCQCN, FDCC, HPCC, PAUSED, RLCC, TIMELY, Change
from dc_gym.benchmarks.studies.fdcc.n_to_one import GOODPUT, MEASURES, OWN_GOODPUT, UNFAIR, Changes
from dc_gym.study import Study, Variant, above, below

TITLE = "n flows from three racks to a host of the fourth"
SOURCE = "FDCC, table 6.1"
RUNS = "racks"
COUNTS, SENDERS, LINKS = (48, 192, 768), 48, 4
CROWDED, MOST_FLOWS = (192, 768), 768
FLOOR = Change("least rate 1 %", {"nic.parameters.rate_min": 10486})  # in 2^-20 of the line
UNTIMED = Change("no timeout", {"nic.timeout": "1s"})
PAPER: Mapping[str, Mapping[int, float]] = {
    DCQCN: {48: 0.99, 192: 0.98, 768: 0.97},
    TIMELY: {48: 0.99, 192: 0.98, 768: 0.96},
    HPCC: {48: 0.87, 192: 0.88, 768: 0.86},
    RLCC: {48: 0.98, 192: 0.89, 768: 0.88},
    FDCC: {48: 0.98, 192: 0.93, 768: 0.94},
}
FACTS = common.facts("a fat-tree of 4 access switches with 16 hosts each and 4 aggregation switches", n_to_one.TRAFFIC)


def _variant(contestant: str, flows: int, *changes: Change) -> Variant:
    paper = {GOODPUT.name: PAPER[contestant][flows]}
    return n_to_one.variant(contestant, flows, SENDERS, common.FAT_TREE, *changes, paper=paper)


PLAIN = [_variant(who, flows) for flows in COUNTS for who in CONTESTANTS]
VARIANTS = [
    *PLAIN,
    *(_variant(TIMELY, flows, FLOOR) for flows in CROWDED),
    *(_variant(who, MOST_FLOWS, UNTIMED) for who in (DCQCN, RLCC, FDCC)),
]
_claim = partial(n_to_one.compared, SOURCE)
HOW: tuple[tuple[Changes, str, Sequence[int]], ...] = (({}, "", COUNTS), ({TIMELY: (FLOOR,)}, FLOOR.label, CROWDED))
"""Changes of TIMELY, the set-up's name, and numbers of flows."""
OTHERS = (DCQCN, TIMELY, RLCC)
RLCC_LESS = "192 and 768 flows: RL-CC carries less than DCQCN and TIMELY"
MORE_THAN_RLCC = "192 and 768 flows: FDCC carries more than RL-CC"
CLAIMS = (
    *(
        _claim(f"{flows} flows: HPCC carries the least", below, HPCC, OTHERS, [GOODPUT], [flows], changes, setup)
        for changes, setup, counts in HOW
        for flows in counts
    ),
    *(_claim(RLCC_LESS, below, RLCC, OTHERS[:2], [GOODPUT], CROWDED, changes, setup) for changes, setup, _ in HOW),
    _claim("FDCC carries more than HPCC, with every number of flows", above, FDCC, [HPCC], [GOODPUT], COUNTS),
    _claim(MORE_THAN_RLCC, above, FDCC, [RLCC], [GOODPUT], CROWDED),
    _claim(MORE_THAN_RLCC, above, FDCC, [RLCC], [OWN_GOODPUT], CROWDED, setup="telemetry counts against nobody"),
    _claim("192 and 768 flows: FDCC carries less than DCQCN", below, FDCC, [DCQCN], [GOODPUT], CROWDED),
    _claim(
        f"{MOST_FLOWS} flows: FDCC carries less than DCQCN",
        *(below, FDCC, [DCQCN], [GOODPUT], [MOST_FLOWS]),
        changes=dict.fromkeys(CONTESTANTS, (UNTIMED,)),
        setup=UNTIMED.label,
    ),
)
STUDY = Study(
    title=TITLE,
    source=SOURCE,
    variants=VARIANTS,
    measures=MEASURES,
    measure=partial(n_to_one.measure, links=LINKS),
    claims=CLAIMS,
    identities=common.nothing_dropped(PLAIN),
    draw=n_to_one.figure({"": COUNTS}, (GOODPUT, UNFAIR, PAUSED), TITLE),
    facts=FACTS,
    notes=n_to_one.NOTES,
    runs=RUNS,
)
