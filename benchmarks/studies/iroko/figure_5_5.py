# SPDX-License-Identifier: Apache-2.0
"""Figure 5.5 of Iroko's thesis: a fat-tree of 16 hosts, the hotspot pattern, UDP senders under the agent.

The thesis does not say how TCPs appear in a figure of UDP. Here they carry the same pairs over TCP. The oracle of disjoint flows
(disjoint.py) maximises the reward.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, GOODPUT, REWARD, SWITCH
from dc_gym.benchmarks.studies.iroko.disjoint import DisjointFlows
from dc_gym.study import Claim, Floats, above, below, learned
from dc_gym.study.trained import over_cubic

TITLE = "Fat-tree, hotspot, UDP under the agent: reward, goodput and queues"
SOURCE = "thesis, section 5, figure 5.5"
DISJOINT = over_cubic(DisjointFlows, "oracle of disjoint flows", "#DDAA33", "disjoint")
SETUP = replace(common.FATTREE_UDP, own=(DISJOINT,))


def _still_rising(steps: Floats, rewards: Floats) -> bool:
    last, before = steps > 0.8 * steps[-1], (steps > 0.4 * steps[-1]) & (steps <= 0.8 * steps[-1])
    return bool(np.mean(rewards[last]) > np.mean(rewards[before]) + np.std(rewards[before]) / np.sqrt(max(1, before.sum())))


CLAIMS = (
    Claim("APPO beats TCP NV and DCTCP in throughput", SOURCE, tuple(above("APPO", rival, GOODPUT) for rival in ("nv", DCTCP))),
    Claim("APPO does so with small queues", SOURCE, (below("APPO", "cubic", SWITCH, 0.1),)),
    Claim(
        "APPO had not converged when the run ended",
        SOURCE,
        (learned("APPO", "reward of the last fifth of the training above that of the two before it", REWARD, _still_rising),),
    ),
    Claim(
        "What maximises the reward beats TCP NV and DCTCP in throughput",
        "ours: the oracle of disjoint flows",
        (
            above(DISJOINT.name, "fair-share", REWARD),
            *(above(DISJOINT.name, name, GOODPUT) for name in ("nv", DCTCP)),
            below(DISJOINT.name, "cubic", SWITCH, 0.1),
        ),
    ),
)

NOTE = "TCPs carry the same pairs over TCP; the agents' senders are UDP at line rate, so that the agent is the only control."
STUDY = common.study(SETUP, TITLE, CLAIMS, note=NOTE)
