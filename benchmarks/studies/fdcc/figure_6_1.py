# SPDX-License-Identifier: Apache-2.0
"""Figure 6.1 of FDCC (K. Zhang, MSc thesis 2023): a long flow, and a short one beside it from 1 ms to 1.5 ms.

The thesis shows that FDCC uses the link better than HPCC. It does not give delays; they are taken from tables 6.1 and 6.2.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dc_gym.benchmarks.studies.fdcc import common, over_time
from dc_gym.benchmarks.studies.fdcc.common import DROPPED, FDCC, HPCC, PAUSES
from dc_gym.results.results import Result
from dc_gym.study import OURS, Claim, Floats, Measure, Study, above, less_than, more_than

TITLE = "A long flow, and a short one from 1 ms to 1.5 ms"
SOURCE = "FDCC, figure 6.1 (text only)"
FILE = "long-short.csv"
START_MS, STOP_MS, DURATION_MS, INTERVAL_US = 1.0, 1.5, 2.5, 20
ALONE = Measure("alone", "link use, the long flow alone (0.5 to 1 ms)", digits=3)
SHARED = Measure("shared", "link use, both flows (1.1 to 1.5 ms)", digits=3)
AFTER = Measure("after", "link use after the short flow (1.5 to 2 ms)", digits=3)
USED = Measure("used", "link use from 1 ms to the end", digits=3)
SHORT = Measure("short", "the short flow's part of it (1.25 to 1.5 ms)", digits=3)
SPANS_MS = {"alone": (0.5, START_MS), "shared": (1.1, STOP_MS), "after": (STOP_MS, 2.0), "used": (START_MS, DURATION_MS)}
SHORT_MS = (1.25, STOP_MS)
BY_HAND, CROWDS = "FDCC, policy by hand", "FDCC, never trained alone"
OTHER_POLICIES = {BY_HAND: "fdcc-scripted", CROWDS: "fdcc-crowds"}
VARIANTS = over_time.variants(2, over_time.keys(FILE, DURATION_MS, INTERVAL_US), {})
(OF_FDCC,) = (variant for variant in VARIANTS if variant.name == FDCC)
VARIANTS += [
    replace(OF_FDCC, name=who, values={**OF_FDCC.values, "nic.policy": policy}) for who, policy in OTHER_POLICIES.items()
]
BETTER = "FDCC uses the link better than HPCC: the long flow alone, both flows, and from 1 ms to the end"
CLAIMS = (
    *(
        Claim(BETTER, SOURCE, tuple(above(who, HPCC, column) for column in (ALONE, SHARED, USED)), setup)
        for who, setup in {FDCC: "", BY_HAND: "policy by hand", CROWDS: "never trained alone"}.items()
    ),
    Claim(
        "Both flows: FDCC uses the link better than HPCC, and the short flow has its share within 5 %",
        OURS,
        (above(FDCC, HPCC, SHARED), more_than(FDCC, SHORT, 0.475), less_than(FDCC, SHORT, 0.525)),
    ),
)


def measure(result: Result) -> dict[str, float]:
    t_ms, shares = over_time.rates(result, INTERVAL_US)

    def mean(span_ms: tuple[float, float]) -> Floats:
        return np.asarray(shares[:, (t_ms > span_ms[0]) & (t_ms < span_ms[1])].mean(axis=1))

    short = mean(SHORT_MS)
    used = {name: float(mean(span_ms).sum()) for name, span_ms in SPANS_MS.items()}
    return {**used, SHORT.name: float(short[1] / short.sum()), **common.told(result, PAUSES, DROPPED)}


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    variants=VARIANTS,
    files={FILE: over_time.flows(((0, 0), (START_MS, STOP_MS)))},
    measures=(ALONE, SHARED, AFTER, USED, SHORT, PAUSES, DROPPED),
    measure=measure,
    track=over_time.track,
    claims=CLAIMS,
    identities=common.nothing_dropped(VARIANTS),
    draw=partial(over_time.figure, title=TITLE, names=("long", "short")),
    facts=common.facts(
        "a dumbbell of 2 pairs",
        "a flow for 2.5 ms, and one from 1 to 1.5 ms, to one receiver; starts are moved by up to 10 us by seed",
    ),
    notes=(common.LINK_USE, common.POLICIES),
)
