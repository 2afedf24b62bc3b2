# SPDX-License-Identifier: Apache-2.0
"""Figure 5.2 of Iroko's thesis: two pairs over 10 Mbit/s, TCP; reward, bandwidth and queue by policy."""

from __future__ import annotations

from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, GOODPUT, REWARD, SWITCH, WHILE_LEARNING, episode, learning
from dc_gym.study import Claim, above, below

TITLE = "Dumbbell at 10 Mbit/s, TCP: reward, goodput and queues"
SOURCE = "thesis, section 5, figure 5.2"
CLAIMS = (
    Claim("DDPG cuts the queue", SOURCE, (below("DDPG", "cubic", SWITCH, 0.5),)),
    Claim("APPO cuts the queue", SOURCE, (below("APPO", "cubic", SWITCH, 0.5),)),
    Claim("TCP NV does badly", SOURCE, (above("nv", DCTCP, SWITCH), below("nv", DCTCP, REWARD))),
    Claim("Learning agents pay with bandwidth: DDPG", SOURCE, (below("DDPG", DCTCP, GOODPUT),)),
    Claim(
        "Learning agents pay with bandwidth: APPO",
        SOURCE,
        (below("APPO", DCTCP, GOODPUT),),
    ),
    Claim(
        "DDPG settles at a minimal allocation and starves all hosts",
        SOURCE,
        (below("DDPG", "fair-share", GOODPUT, 0.1),),
    ),
    Claim(
        "PPO over TCP is the best mix of a short queue and reward",
        SOURCE,
        (below("PPO", DCTCP, SWITCH), above("PPO", DCTCP, REWARD), above("PPO", "nv", REWARD), above("PPO", "DDPG", REWARD)),
    ),
    Claim("REINFORCE is not better than PPO", SOURCE, (below("REINFORCE", "PPO", REWARD),)),
    *(
        Claim(f"{who} cuts the queue", SOURCE, (below(learning(who), episode("cubic"), SWITCH, 0.5),), setup=WHILE_LEARNING)
        for who in ("DDPG", "APPO")
    ),
    *(
        Claim(
            f"Learning agents pay with bandwidth: {who}",
            SOURCE if paper else "ours: the synchronous form of APPO",
            (below(learning(who), episode(DCTCP), GOODPUT),),
            setup=WHILE_LEARNING,
            ours=not paper,
        )
        for who, paper in (("DDPG", True), ("APPO", True), ("PPO", False))
    ),
)

STUDY = common.study(common.DUMBBELL_10M, TITLE, CLAIMS, (*common.PANELS, common.RTT_PANEL))
