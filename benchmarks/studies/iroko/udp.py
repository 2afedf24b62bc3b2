# SPDX-License-Identifier: Apache-2.0
"""Iroko's thesis, section 5: figure 5.2 with UDP under the agent. The thesis makes a claim about it but has no figure."""

from __future__ import annotations

from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, REWARD, SWITCH
from dc_gym.study import Claim, above, below

TITLE = "Dumbbell at 10 Mbit/s, UDP under the agent: reward, goodput and queues"
SOURCE = "thesis, section 5: UDP on the dumbbell, equal or better for learning agents"
CLAIMS = [
    Claim(f"With UDP {who} does at least as well against DCTCP", SOURCE, (above(who, DCTCP, REWARD), below(who, DCTCP, SWITCH)))
    for who in ("PPO", "APPO", "DDPG")
]
NOTE = "TCPs carry the same pairs over TCP. Lost is UDP payload that was sent and did not arrive, host drops included."
STUDY = common.study(common.DUMBBELL_UDP, TITLE, CLAIMS, note=NOTE)
