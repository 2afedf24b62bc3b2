# SPDX-License-Identifier: Apache-2.0
"""Figure 5.5 of Iroko's thesis: a fat-tree of 16 hosts, the hotspot pattern, UDP senders under the agent.

The thesis does not say how TCPs appear in a figure of UDP. Here they carry the same pairs over TCP. The oracle of disjoint flows
(disjoint.py) shows what maximises the reward.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, GOODPUT, REWARD, SWITCH
from dc_gym.benchmarks.studies.iroko.disjoint import DisjointFlows
from dc_gym.benchmarks.studies.iroko.figure_5_2 import LAGS
from dc_gym.study.claims import Claim, Explanation, above, below, learned
from dc_gym.study.evidence import Floats
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.setup import over_cubic

TITLE = "Fat-tree, hotspot, UDP under the agent: reward, goodput and queues"
SOURCE = "thesis, section 5, figure 5.5"
DISJOINT = over_cubic(DisjointFlows, "oracle of disjoint flows", "#DDAA33", "disjoint")
SETUP = replace(common.FATTREE_UDP, own=(DISJOINT,))


def _still_rising(steps: Floats, rewards: Floats) -> bool:
    last, before = steps > 0.8 * steps[-1], (steps > 0.4 * steps[-1]) & (steps <= 0.8 * steps[-1])
    return bool(np.mean(rewards[last]) > np.mean(rewards[before]) + np.std(rewards[before]) / np.sqrt(max(1, before.sum())))


LEARNS = replace(
    LAGS,
    experiment="dcgym reproduce iroko 5.5 --preset mended --steps 80000, where APPO has ten passes",
    page="docs/reproduce-iroko.md#fat-tree-55-100-mbits-2-s",
    showed="with the final policies the queue is 0.15 ± 0.58 kB where CUBIC has 361 (three seeds; found on seed 11), and most"
    " hosts starve (Jain's index 0.18 to 0.57)",
)
RISES = replace(
    LEARNS,
    showed="the reward rises from -0.42 to 0.2 a step; its last fifth is above the two before with each of three seeds after"
    " 60,000 and 70,000 steps (found on seed 11), with two of them after 80,000; with one pass nothing rises within 20,000",
)
FAR_FROM_OPTIMUM = Explanation(
    hypothesis="APPO is far from the optimum of the reward, which counts commanded shares whoever has them, and that optimum"
    " carries more than both TCPs",
    experiment="the oracle of disjoint flows of dcgym reproduce iroko 5.5 --seeds 5, a policy by hand",
    page=LEARNS.page,
    showed="it carries 877 Mbit/s with an empty queue, DCTCP 818 and TCP NV 762, and earns 0.56 where the fair-share oracle earns"
    " 0.51 (seeds 1 to 5; found on seed 11); APPO earns 0.12 to 0.22 after 80,000 of 5,000,000 steps with the preset mended",
)
CLAIMS = (
    Claim(
        "APPO beats TCP NV and DCTCP in throughput",
        SOURCE,
        (above("APPO", "nv", GOODPUT), above("APPO", DCTCP, GOODPUT)),
        explanation=FAR_FROM_OPTIMUM,
    ),
    Claim("APPO does so with small queues", SOURCE, (below("APPO", "cubic", SWITCH, 0.1),), explanation=LEARNS),
    Claim(
        "APPO had not converged when the run ended",
        SOURCE,
        (learned("APPO", "reward of the last fifth of the training above that of the two before it", REWARD, _still_rising),),
        explanation=RISES,
    ),
    Claim(
        "What maximises the reward beats TCP NV and DCTCP in throughput",
        "ours: the oracle of disjoint flows",
        (
            above(DISJOINT.name, "fair-share", REWARD),
            *(above(DISJOINT.name, name, GOODPUT) for name in ("nv", DCTCP)),
            below(DISJOINT.name, "cubic", SWITCH, 0.1),
        ),
        ours=True,
    ),
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    note = "TCPs carry the same pairs over TCP; the agents' senders are UDP at line rate, so that the agent is the only control."
    return common.run(SETUP, options, progress, TITLE, CLAIMS, notes=(note,))
