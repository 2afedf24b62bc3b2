# SPDX-License-Identifier: Apache-2.0
"""Figure 6.2 of FDCC (K. Zhang, MSc thesis 2023): four flows to one receiver, which join one after the other.

In the thesis a flow joins each 35 ms, and FDCC swings less and is fairer. Here one joins each 5 ms, or with --length full each 35
ms. Rates are judged in the second half of each phase, when the newcomer has had half of the phase to get its share.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dc_gym.benchmarks.studies.fdcc import common, over_time
from dc_gym.benchmarks.studies.fdcc.common import DROPPED, FDCC, HPCC, PAUSES
from dc_gym.results.results import Result
from dc_gym.study import Claim, Floats, Measure, Study, below

TITLE = "Four flows that join one after the other"
SOURCE = "FDCC, figure 6.2 (text only)"
FLOWS, INTERVAL_US = 4, 100
JOIN_MS, FULL_JOIN_MS = 5, 35  # time between two joins: ours, and the thesis'
UNFAIR = Measure("unfair", "unfair ratio, mean of the phases with 2, 3 and 4 flows", digits=3)
LAST_UNFAIR = Measure("last_unfair", "unfair ratio with 4 flows", digits=3)
SWING = Measure("swing", "swing: standard deviation of a flow's rate, of its mean (%)", 100, 3)
USED = Measure("used", "link use", digits=3)
AFTER = 0.5
"""The part of a phase that a newcomer has to get its share, before rates are judged."""
FILES = {"joins.csv": JOIN_MS, "joins-full.csv": FULL_JOIN_MS}
VARIANTS = over_time.variants(FLOWS, *(over_time.keys(file, FLOWS * join, INTERVAL_US) for file, join in FILES.items()))


def phases(t_ms: Floats, shares: Floats, after: float = AFTER) -> list[Floats]:
    """Returns the rates of each phase behind this part of it: [flows that have joined, intervals]."""
    join_ms = (t_ms[0] + t_ms[-1]) / FLOWS
    return [shares[: flows + 1, (t_ms > (flows + after) * join_ms) & (t_ms < (flows + 1) * join_ms)] for flows in range(FLOWS)]


def measure(result: Result, after: float = AFTER) -> dict[str, float]:
    """Returns the measures of each phase behind this part of it."""
    t_ms, shares = over_time.rates(result, INTERVAL_US)
    rates = phases(t_ms, shares, after)
    means = [phase.mean(axis=1) for phase in rates]
    unfair = [float((mean.max() - mean.mean()) / mean.mean()) for mean in means[1:]]
    swings = [float((phase.std(axis=1) / mean.mean()).mean()) for phase, mean in zip(rates, means, strict=True)]
    return {
        UNFAIR.name: float(np.mean(unfair)),
        LAST_UNFAIR.name: unfair[-1],
        SWING.name: float(np.mean(swings)),
        USED.name: float(shares.sum(axis=0).mean()),
        **common.told(result, PAUSES, DROPPED),
    }


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    variants=VARIANTS,
    files={file: over_time.flows([(flow * join_ms, 0) for flow in range(FLOWS)]) for file, join_ms in FILES.items()},
    measures=(UNFAIR, LAST_UNFAIR, SWING, USED, PAUSES, DROPPED),
    measure=measure,
    track=over_time.track,
    claims=(
        Claim("FDCC's flows are fairer than HPCC's", SOURCE, (below(FDCC, HPCC, UNFAIR),)),
        Claim("FDCC's rates swing less than HPCC's", SOURCE, (below(FDCC, HPCC, SWING),)),
    ),
    identities=common.nothing_dropped(VARIANTS),
    draw=partial(over_time.figure, title=TITLE, names=[f"flow {flow}" for flow in range(1, FLOWS + 1)]),
    facts=common.facts(
        "a dumbbell of 4 pairs",
        f"a flow to one receiver joins each {JOIN_MS} ms, moved by up to 10 us by seed; the thesis (--length full): 35 ms",
    ),
    notes=(
        "The unfair ratio is (largest - mean) / mean of the flows' mean rates in the second half of a phase. The swing is"
        f" measured there, too, of means over {INTERVAL_US} us, and is the mean over flows and phases.",
        "The thesis does not say against whom FDCC swings less and is fairer; HPCC is our reading.",
        common.LINK_USE,
        common.POLICIES,
    ),
)
