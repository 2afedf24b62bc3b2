# SPDX-License-Identifier: Apache-2.0
"""Iroko's thesis, section 5: figure 5.2 with UDP under the agent. The thesis makes a claim about it but has no figure."""

from __future__ import annotations

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, REWARD, SWITCH
from dc_gym.study.claims import Claim, Explanation, above, below
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "Dumbbell at 10 Mbit/s, UDP under the agent: reward, goodput and queues"
SOURCE = "thesis, section 5: UDP on the dumbbell, equal or better for learning agents"
COMMANDED = Explanation(
    hypothesis="the reward counts commanded shares: two senders that share the line command 0.75 on average, receivers included,"
    " and a TCP counts as 1, so that no agent is ahead of DCTCP by it",
    experiment="the fair-share oracle of dcgym reproduce iroko udp, and --preset mended --steps 100000",
    page="docs/reproduce-iroko.md#udp-on-the-dumbbell-udp-30-s",
    showed="with an empty queue (0.6 kB) the oracle earns 0.743, the thesis' DCTCP 0.740; after 100,000 steps PPO, DDPG and APPO"
    " leave 6.4, 1.0 and 17 kB (DCTCP 52) and earn 0.726, 0.734 and 0.65 (three seeds)",
)
CLAIMS = tuple(
    Claim(
        f"With UDP {name} does at least as well against DCTCP",
        SOURCE,
        (above(name, DCTCP, REWARD), below(name, DCTCP, SWITCH)),
        explanation=COMMANDED,
    )
    for name in ("PPO", "APPO", "DDPG")
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    note = "TCPs carry the same pairs over TCP. Lost is UDP payload that was sent and did not arrive, host drops included."
    return common.run(common.DUMBBELL_UDP, options, progress, TITLE, CLAIMS, notes=(note,))
