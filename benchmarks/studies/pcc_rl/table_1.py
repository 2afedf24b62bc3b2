# SPDX-License-Identifier: Apache-2.0
"""Table 1 of PCC-RL: many-to-one with 128 to 8192 flows; switch utilization, fairness, queue latency, drop rate.

The paper does not say how many hosts send; here there are 8. The default runs 128 and 1024 flows, `--cases all` all four.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from dc_gym.benchmarks.studies.pcc_rl import common as pccrl
from dc_gym.benchmarks.studies.pcc_rl.common import HPCC, IN_TABLES, MEASURES, SWIFT_PCC
from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.benchmarks.studies.rl_cc.common import name
from dc_gym.study import Claim, Variant, above, below, less_than, series
from dc_gym.study.scaled import MS, RunLength

TITLE = "Many-to-one by number of flows: utilization, fairness, queue and drops"
SOURCE = "PCC-RL, Table 1"
FLOWS = (128, 1024, 4096, 8192)
DEFAULT = FLOWS[:2]
LENGTHS = {128: RunLength(40 * MS, 25 * MS)}
LENGTH, FULL = RunLength(60 * MS, 40 * MS), RunLength(1_000 * MS, 500 * MS)
PAPER = {
    "PCC-RL": ((92, 95, 8, 0), (90, 70, 15, 0), (91, 44, 26, 0), (92, 29, 42, 0)),
    "DC2QCN": ((96, 84, 8, 0), (88, 82, 17, 0), (85, 67, 110, 0.2), (100, 72, 157, 1.3)),
    "Swift": ((98, 99, 40, 0), (91, 98, 66, 0), (90, 56, 120, 0.1), (92, 50, 123, 0.2)),
    HPCC: ((83, 96, 5, 0), (59, 48, 27, 0), (73, 13, 79, 0.2), (86, 8, 125, 0.9)),
}
"""SU in %, FR in %, QL in us, DR in Gbit/s, by number of flows."""
NONE = 1e-3


def variant(who: str, flows: int, length: RunLength, **more: Any) -> Variant:
    """Returns a contestant with a number of flows."""
    printed = () if who == SWIFT_PCC else PAPER.get(who, PAPER["PCC-RL"])[FLOWS.index(flows)]
    options = {"keys": pccrl.KEYS.get(who), "length": length, "full": FULL, **pccrl.told(name(who, flows), who, printed), **more}
    return rlcc.many_to_one(name(who, flows), IN_TABLES[who], pccrl.NINE, flows, **options)


VARIANTS = [variant(who, flows, LENGTHS.get(flows, LENGTH), extra=flows not in DEFAULT) for who in IN_TABLES for flows in FLOWS]


def _claims(setup: str) -> Iterator[Claim]:
    rows = [
        [name(contestant, flows) for contestant in ("PCC-RL", "DC2QCN", rlcc.of_setup("Swift", setup), HPCC)] for flows in FLOWS
    ]
    for flows, (tree, *_) in zip(FLOWS, rows, strict=True):
        yield Claim(f"With {flows} flows PCC-RL drops nothing", SOURCE, (less_than(tree, rlcc.DROP_RATE, NONE),))
    for flows, (tree, *rivals, _) in zip(FLOWS[2:], rows[2:], strict=True):
        yield Claim(f"With {flows} flows the rivals drop", SOURCE, tuple(above(rival, tree, rlcc.DROP_RATE) for rival in rivals))
    for flows, (tree, _, swift, _) in zip(FLOWS, rows, strict=True):
        yield Claim(f"With {flows} flows PCC-RL's queue is shorter than Swift's", SOURCE, (below(tree, swift, rlcc.QUEUE),))
    for flows, (tree, *_, hpcc) in zip(FLOWS, rows, strict=True):
        yield Claim(f"With {flows} flows HPCC uses the switch less than PCC-RL", SOURCE, (below(hpcc, tree, rlcc.UTILIZATION),))
    few, many = DEFAULT
    for contestant in (HPCC, "PCC-RL"):
        falls = (below(name(contestant, many), name(contestant, few), rlcc.FAIRNESS),)
        yield Claim(f"{contestant}'s fairness falls with the number of flows", SOURCE, falls)


STUDY = rlcc.study(
    TITLE,
    SOURCE,
    VARIANTS,
    MEASURES,
    _claims,
    partial(series.figure, series=pccrl.lines(FLOWS, name), columns=MEASURES, xlabel="flows", title=TITLE),
    networks=(pccrl.NINE,),
    setups=(rlcc.PCC,),
    notes=pccrl.NOTES,
)
