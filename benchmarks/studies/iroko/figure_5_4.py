# SPDX-License-Identifier: Apache-2.0
"""Figure 5.4 of Iroko's thesis: two pairs over 1 Gbit/s with queues of 4 MB, TCP."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, GOODPUT, REWARD, SWITCH
from dc_gym.benchmarks.studies.iroko.cuts import StepCuts
from dc_gym.study import Claim, Floats, above, below, learned
from dc_gym.study.trained import THESIS_AGENT, over_cubic

TITLE = "Dumbbell at 1 Gbit/s, TCP: reward, goodput and queues"
SOURCE = "thesis, section 5, figure 5.4"
LINE_BPS = 1e9
EXACT_TBF = {"agent.tbf": "exact", "agent.burst": "1514B"}
STOCK = over_cubic(StepCuts, "cuts of one step, stock tbf", "#117733", "cuts-stock", **THESIS_AGENT)
EXACT = over_cubic(StepCuts, "cuts of one step, exact tbf", "#8C6D31", "cuts-exact", **EXACT_TBF)
SETUP = replace(common.DUMBBELL_1G, own=(STOCK, EXACT))


def _starts_well_and_collapses(steps: Floats, goodput_bps: Floats) -> bool:
    first, last = steps <= 0.5 * steps[-1], steps > 0.9 * steps[-1]
    return bool(goodput_bps[first].max() > 0.5 * LINE_BPS and np.mean(goodput_bps[last]) < 0.25 * LINE_BPS)


def _halves(steps: Floats, goodput_bps: Floats) -> bool:
    tenths = [goodput_bps[(steps > part * steps[-1]) & (steps <= (part + 0.1) * steps[-1])].mean() for part in np.arange(10) / 10]
    return bool(tenths[-1] < 0.5 * max(tenths[:-1]))


HALVED = "DDPG's goodput ends below half of what it was"
COLLAPSE = "goodput in training above 500 Mbit/s in its first half, below 250 on average in its last tenth"
CLAIMS = (
    Claim(
        "TCP NV does much better than at 10 Mbit/s: a short queue at full throughput",
        SOURCE,
        (below("nv", "cubic", SWITCH, 0.1), above("nv", DCTCP, GOODPUT, 0.9)),
    ),
    Claim(
        "APPO comes near TCP NV and DCTCP in throughput",
        SOURCE,
        tuple(above("APPO", name, GOODPUT, 0.8) for name in ("nv", DCTCP)),
    ),
    Claim(
        "DDPG starts well, then its throughput collapses",
        SOURCE,
        (learned("DDPG", COLLAPSE, GOODPUT, _starts_well_and_collapses),),
    ),
    Claim(HALVED, "ours: a headline's criterion", (learned("DDPG", "last tenth below half of the greatest", GOODPUT, _halves),)),
    Claim(
        "Under stock tbf cuts of one step in 128 take away half of the goodput, and earn more than DCTCP",
        "ours: a policy by hand",
        (below(STOCK.name, EXACT.name, GOODPUT, 0.5), above(STOCK.name, DCTCP, REWARD)),
    ),
)

STUDY = common.study(SETUP, TITLE, CLAIMS, (*common.PANELS, common.RTT_PANEL))
