# SPDX-License-Identifier: Apache-2.0
"""Table 1 of PCC-RL: many-to-one with 128 to 8192 flows; switch utilization, fairness, queue latency, drop rate.

The paper does not say how many hosts send; here there are 8. The default runs 128 and 1024 flows, --full all four.
"""

from __future__ import annotations

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.pcc_rl import common as pccrl
from dc_gym.benchmarks.studies.pcc_rl.common import COLORS, HPCC, IN_TABLES, LOOKS, QUANTITIES, VALUES, VARIANT_OF, printed, swift
from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.benchmarks.studies.rl_cc.common import name
from dc_gym.study import series
from dc_gym.study.claims import Claim, above, below, less_than
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.scaled import MS, RunLength, ScaledNetwork
from dc_gym.study.series import VariantLine

TITLE = "Many-to-one by number of flows: utilization, fairness, queue and drops"
SOURCE = "PCC-RL, Table 1"
NETWORK = ScaledNetwork("eight", "one switch, 8 senders, 1 receiver", {**rlcc.SINGLE, "hosts": 9}, 8)
FLOWS = (128, 1024, 4096, 8192)
DEFAULT = (128, 1024)
LENGTHS = {128: RunLength(40 * MS, 25 * MS), 1024: RunLength(60 * MS, 40 * MS)}
FULL = RunLength(1_000 * MS, 500 * MS)
PAPER = {
    "PCC-RL": ((92, 95, 8, 0), (90, 70, 15, 0), (91, 44, 26, 0), (92, 29, 42, 0)),
    "DC2QCN": ((96, 84, 8, 0), (88, 82, 17, 0), (85, 67, 110, 0.2), (100, 72, 157, 1.3)),
    "Swift": ((98, 99, 40, 0), (91, 98, 66, 0), (90, 56, 120, 0.1), (92, 50, 123, 0.2)),
    HPCC: ((83, 96, 5, 0), (59, 48, 27, 0), (73, 13, 79, 0.2), (86, 8, 125, 0.9)),
}
"""SU in %, FR in %, QL in us, DR in Gbit/s, by number of flows."""
NONE = 1e-3


ROWS = [
    rlcc.many_to_one(
        name(who, flows),
        controller,
        NETWORK,
        flows,
        length=LENGTHS.get(flows, LENGTHS[1024]),
        full=FULL,
        paper={} if who in VARIANT_OF else printed(paper),
        values=VALUES.get(who, {}),
        variant=VARIANT_OF.get(who, rlcc.OWN),
        color=COLORS[who],
    )
    for who, controller in IN_TABLES.items()
    for flows, paper in zip(FLOWS, PAPER.get(who, PAPER["PCC-RL"]), strict=True)
]


def _claims(variant: str) -> tuple[Claim, ...]:
    return (
        *(
            Claim(f"With {flows} flows PCC-RL drops nothing", SOURCE, (less_than(name("PCC-RL", flows), rlcc.DROP_RATE, NONE),))
            for flows in FLOWS
        ),
        *(
            Claim(
                f"With {flows} flows the rivals drop",
                SOURCE,
                tuple(above(name(who, flows), name("PCC-RL", flows), rlcc.DROP_RATE) for who in ("DC2QCN", swift(variant))),
            )
            for flows in FLOWS[2:]
        ),
        *(
            Claim(
                f"With {flows} flows PCC-RL's queue is shorter than Swift's",
                SOURCE,
                (below(name("PCC-RL", flows), name(swift(variant), flows), rlcc.QUEUE),),
            )
            for flows in FLOWS
        ),
        *(
            Claim(
                f"With {flows} flows HPCC uses the switch less than PCC-RL",
                SOURCE,
                (below(name(HPCC, flows), name("PCC-RL", flows), rlcc.UTILIZATION),),
            )
            for flows in FLOWS
        ),
        Claim(
            "HPCC's fairness falls with the number of flows",
            SOURCE,
            (below(name(HPCC, FLOWS[1]), name(HPCC, FLOWS[0]), rlcc.FAIRNESS),),
        ),
        Claim(
            "PCC-RL's fairness falls with the number of flows",
            SOURCE,
            (below(name("PCC-RL", FLOWS[1]), name("PCC-RL", FLOWS[0]), rlcc.FAIRNESS),),
        ),
    )


CLAIMS = rlcc.with_variants((rlcc.PCC,), _claims)


def run(options: StudyOptions, progress: Progress) -> Findings:
    names = {name(who, flows) for who in IN_TABLES for flows in DEFAULT}
    rows = [row for row in ROWS if options.full or row.name in names]
    evidence = rlcc.run("table-1", rows, options, progress)
    lines = [
        VariantLine(pccrl.label(who), COLORS[who], {flows: name(who, flows) for flows in FLOWS}, *LOOKS.get(who, ()))
        for who in IN_TABLES
    ]
    figure = series.figure(evidence, lines, QUANTITIES, "flows", TITLE)
    return pccrl.completed(rlcc.findings(TITLE, rows, options, evidence, QUANTITIES, CLAIMS, figure))
