# SPDX-License-Identifier: Apache-2.0
"""Figure 5.4 of Iroko's thesis: two pairs over 1 Gbit/s with queues of 4 MB, TCP."""

from __future__ import annotations

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers.iroko import common
from dc_gym.benchmarks.papers.iroko.common import DCTCP, GOODPUT, SWITCH
from dc_gym.reproduce.claims import Claim, above, below, learned
from dc_gym.reproduce.evidence import Floats
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions

TITLE = "Dumbbell at 1 Gbit/s, TCP: reward, goodput and queues"
SOURCE = "thesis, section 5, figure 5.4"
LINE_BPS = 1e9


def _starts_well_and_collapses(steps: Floats, goodput_bps: Floats) -> bool:
    first, last = steps <= 0.5 * steps[-1], steps > 0.9 * steps[-1]
    return bool(goodput_bps[first].max() > 0.5 * LINE_BPS and np.mean(goodput_bps[last]) < 0.25 * LINE_BPS)


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
        (
            learned(
                "DDPG",
                "goodput in training above 500 Mbit/s in its first half, below 250 on average in its last tenth",
                GOODPUT,
                _starts_well_and_collapses,
            ),
        ),
    ),
)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    return common.run(common.DUMBBELL_1G, options, progress, TITLE, CLAIMS, (*common.PANELS, common.RTT_PANEL))
