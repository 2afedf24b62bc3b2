# SPDX-License-Identifier: Apache-2.0
"""FDCC's training: policies of several seeds in incasts of labs that no training had, beside FDCC's rivals.

Each seed is of `method fdcc train --seed N`, with at most 32 flows. Its policy then runs in the NICs of n flows to one
receiver, on the dumbbell of the thesis' table 6.2, scaled to 10 Gbit/s: flows start within 73 base round trips there. (At 100
Gbit/s it is 735. With 256 flows of 3.75 MB the first one then sends a fifth of its bytes before most others begin, and no equal
shares make up for it.)
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from dc_gym.benchmarks.studies.fdcc import common, n_to_one
from dc_gym.benchmarks.studies.fdcc.common import DCQCN, FDCC, HPCC, PAUSES, RLCC, TIMELY, UNFINISHED
from dc_gym.benchmarks.studies.fdcc.n_to_one import OWN_GOODPUT, UNFAIR, Traffic
from dc_gym.benchmarks.studies.learning.common import AfterTraining, Method, most
from dc_gym.methods.fdcc.offline.presets import FdccTrainingSettings
from dc_gym.study import Claim, Evidence, Measure, Study

COUNTS, LINKS, PAIRS, ENOUGH = (4, 16, 64, 256), 3, 64, 3 / 5
CROWDED = (64, 256)
"""Numbers of flows with which FDCC's must be fairer than its rivals'; with fewer they may be as fair."""
RIVALS = (DCQCN, TIMELY, HPCC, RLCC)
LEAST_OWN_GOODPUT, NEAR = 0.95, 1e-3
NETWORK = {**common.DUMBBELL, **n_to_one.SCALED}
VARIANTS = [
    replace(
        n_to_one.variant(who, Traffic(flows, PAIRS, n_to_one.SCALE), NETWORK),
        given={"links": LINKS, "scale": n_to_one.SCALE},
        by_seed={"nic.policy": "seed-{seed}/policy.npz"} if who == FDCC else {},
    )
    for flows in COUNTS
    for who in (*RIVALS, FDCC)
]


def full_line(evidence: Evidence, seed: int, flows: int) -> bool:
    return _of(evidence, FDCC, flows, OWN_GOODPUT, seed, 0.0) >= LEAST_OWN_GOODPUT


def all_end(evidence: Evidence, seed: int, flows: int) -> bool:
    return not _of(evidence, FDCC, flows, UNFINISHED, seed)


def fair(evidence: Evidence, seed: int, flows: int) -> bool:
    mine, *rivals = (_of(evidence, who, flows, UNFAIR, seed) for who in (FDCC, DCQCN, TIMELY))
    return mine < min(rivals) or (flows not in CROWDED and mine <= min(rivals) + NEAR)


def quiet(evidence: Evidence, seed: int, flows: int) -> bool:
    mine, *rivals = (_of(evidence, who, flows, PAUSES, seed) for who in (FDCC, DCQCN, RLCC))
    return mine <= min(rivals)


def everything(evidence: Evidence, seed: int, flows: int) -> bool:
    """Returns whether a seed's policy passes with all numbers of flows."""
    return all(holds(evidence, seed, each) for each in COUNTS for holds, *_ in REQUIRED.values())


def _of(evidence: Evidence, who: str, flows: int, measure: Measure, seed: int, unknown: float = math.inf) -> float:
    """Returns a value; flows that do not end leave some unknown."""
    return evidence.values(n_to_one.name(who, flows), measure.name).get(seed, unknown)


REQUIRED = {
    "The line is full": (full_line, (), OWN_GOODPUT),
    "All flows end": (all_end, (), UNFINISHED),
    "As fair as DCQCN and TIMELY, and fairer from 64 flows on": (fair, (DCQCN, TIMELY), UNFAIR),
    "No more pauses than with DCQCN and RL-CC": (quiet, (DCQCN, RLCC), PAUSES),
}
ALL = {**REQUIRED, "A seed passes everything": (everything, RIVALS, UNFINISHED)}
STUDY = Study(
    title="FDCC's policies, trained in a fluid model, in incasts of 4 to 256 flows",
    variants=VARIANTS,
    measures=n_to_one.MEASURES,
    measure=n_to_one.measure,
    claims=[
        Claim(
            text,
            "ours: it has learned what FDCC is for",
            tuple(
                most(
                    tuple(n_to_one.name(who, flows) for who in (FDCC, *rivals)),
                    f"{flows} flows: {text}",
                    ENOUGH,
                    partial(holds, flows=flows),
                    measure.name,
                )
                for flows in (COUNTS if holds is not everything else COUNTS[-1:])
            ),
            ours=True,
        )
        for text, (holds, rivals, measure) in ALL.items()
    ],
    identities=common.nothing_dropped(VARIANTS),
    draw=lambda evidence: n_to_one.figure(
        evidence, {"": COUNTS}, measures=n_to_one.PRINTED, title="FDCC as trained, beside its rivals"
    ),
    facts=common.facts("a dumbbell of 64 pairs at a tenth of the rate", n_to_one.TRAFFIC),
    collect=AfterTraining(Method("fdcc", "--episodes", FdccTrainingSettings().episodes), lambda seed: {f"seed-{seed}": ()}),
    trains=True,
)
