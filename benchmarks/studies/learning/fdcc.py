# SPDX-License-Identifier: Apache-2.0
"""FDCC's training: policies of several seeds in incasts of labs that no training had, beside FDCC's rivals.

Each seed is of `method fdcc train --seed N`, with at most 32 flows. Its policy then runs in the NICs of n flows to one
receiver, on the dumbbell of the thesis' table 6.2, scaled to 10 Gbit/s: flows start within 73 base round trips there. (At 100
Gbit/s it is 735. With 256 flows of 3.75 MB the first one then sends a fifth of its bytes before most others begin, and no equal
shares make up for it.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from dc_gym.benchmarks.studies.fdcc import common, n_to_one
from dc_gym.benchmarks.studies.fdcc.common import DCQCN, FDCC, HPCC, PAUSES, RLCC, TIMELY, UNFINISHED
from dc_gym.benchmarks.studies.fdcc.n_to_one import OWN_GOODPUT, SCALE, UNFAIR
from dc_gym.benchmarks.studies.learning.common import AfterTraining, Method, most
from dc_gym.methods.fdcc.offline.presets import FdccTrainingSettings
from dc_gym.study import Claim, Criterion, Evidence, Measure, Study

COUNTS, LINKS, PAIRS, ENOUGH = (4, 16, 64, 256), 3, 64, 3 / 5
CROWDED = (64, 256)
"""Numbers of flows with which FDCC's must be fairer than its rivals'; with fewer they may be as fair."""
RIVALS = (DCQCN, TIMELY, HPCC, RLCC)
LEAST_OWN_GOODPUT, NEAR = 0.95, 1e-3
NETWORK = {**common.DUMBBELL, **n_to_one.SCALED}
PATH = {"links": LINKS, "scale": SCALE}
BY_SEED = {FDCC: {"nic.policy": "seed-{seed}/policy.npz"}}
VARIANTS = [
    n_to_one.variant(who, flows, PAIRS, NETWORK, given=PATH, by_seed=BY_SEED.get(who, {}))
    for flows in COUNTS
    for who in (*RIVALS, FDCC)
]


def fair(flows: int, value: float, least: float) -> bool:
    return value < least or (flows not in CROWDED and value <= least + NEAR)


REQUIRED: Mapping[str, tuple[Callable[[int, float, float], bool], tuple[str, ...], Measure]] = {
    "The line is full": (lambda flows, mine, least: LEAST_OWN_GOODPUT <= mine < math.inf, (), OWN_GOODPUT),
    "All flows end": (lambda flows, mine, least: not mine, (), UNFINISHED),
    "As fair as DCQCN and TIMELY, and fairer from 64 flows on": (fair, (DCQCN, TIMELY), UNFAIR),
    "No more pauses than with DCQCN and RL-CC": (lambda flows, mine, least: mine <= least, (DCQCN, RLCC), PAUSES),
}
"""Conditions on the number of flows, FDCC's value of a measure, and the least of some rivals."""
EVERYTHING = "A seed passes everything"


def passes(evidence: Evidence, seed: int, text: str, flows: int) -> bool:
    """Returns whether a seed's policy meets a condition; flows that do not end leave some values unknown."""
    holds, rivals, measure = REQUIRED[text]
    value, *others = (
        evidence.values(n_to_one.name(contestant, flows), measure.name).get(seed, math.inf) for contestant in (FDCC, *rivals)
    )
    return holds(flows, value, min(others, default=math.inf))


def passes_all(evidence: Evidence, seed: int) -> bool:
    return all(passes(evidence, seed, text, flows) for text in REQUIRED for flows in COUNTS)


def criterion(text: str, flows: int) -> Criterion:
    """Returns the criterion that enough seeds meet a condition."""
    rivals, measure = REQUIRED[text][1:] if text in REQUIRED else (RIVALS, UNFINISHED)
    about = tuple(n_to_one.name(contestant, flows) for contestant in (FDCC, *rivals))
    holds = partial(passes, text=text, flows=flows) if text in REQUIRED else passes_all
    return most(about, f"{flows} flows: {text}", ENOUGH, holds, measure.name)


STUDY = Study(
    title="FDCC's policies, trained in a fluid model, in incasts of 4 to 256 flows",
    variants=VARIANTS,
    measures=n_to_one.MEASURES,
    measure=n_to_one.measure,
    claims=[
        Claim(text, "ours: it has learned what FDCC is for", tuple(criterion(text, flows) for flows in counts))
        for text, counts in {**dict.fromkeys(REQUIRED, COUNTS), EVERYTHING: COUNTS[-1:]}.items()
    ],
    identities=common.nothing_dropped(VARIANTS),
    draw=n_to_one.figure({"": COUNTS}, n_to_one.PRINTED, "FDCC as trained, beside its rivals"),
    facts=common.facts("a dumbbell of 64 pairs at a tenth of the rate", n_to_one.TRAFFIC),
    collect=AfterTraining(Method("fdcc", "--episodes", FdccTrainingSettings().episodes), lambda seed: {f"seed-{seed}": ()}),
    trains=True,
)
