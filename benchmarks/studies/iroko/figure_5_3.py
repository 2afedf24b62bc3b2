# SPDX-License-Identifier: Apache-2.0
"""Figure 5.3 of Iroko's thesis: the mean RTT over the last tenth of the runs of figure 5.2."""

from __future__ import annotations

from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, DELAY, GOODPUT, HOST, RTT, SWITCH, WHILE_LEARNING, episode, learning
from dc_gym.study import Claim, above, below, drawing

TITLE = "Dumbbell at 10 Mbit/s, TCP: RTT over the last tenth"
SOURCE = "thesis, section 5, figure 5.3"
CLAIMS = (
    Claim("The RTT of DDPG is below DCTCP's", SOURCE, (below("DDPG", DCTCP, RTT),)),
    Claim("The RTT of APPO is below DCTCP's", SOURCE, (below("APPO", DCTCP, RTT),)),
    Claim("TCP NV does badly", SOURCE, (above("nv", DCTCP, RTT),)),
    Claim("The RTT of PPO is below DCTCP's", "ours: the synchronous form of APPO", (below("PPO", DCTCP, RTT),)),
    *(
        Claim(f"The RTT of {who} is below DCTCP's", SOURCE, (below(learning(who), episode(DCTCP), RTT),), setup=WHILE_LEARNING)
        for who in ("DDPG", "APPO")
    ),
)

STUDY = common.study(
    common.DUMBBELL_10M,
    TITLE,
    CLAIMS,
    measures=(RTT, DELAY, SWITCH, HOST, GOODPUT),
    of=("iroko/figure-5.2",),
    derive=lambda evidence: evidence,
    draw=lambda evidence: drawing.dots(evidence, RTT, TITLE),
)
