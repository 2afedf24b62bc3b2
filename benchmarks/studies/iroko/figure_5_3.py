# SPDX-License-Identifier: Apache-2.0
"""Figure 5.3 of Iroko's thesis: the mean RTT over the last tenth of the runs of figure 5.2."""

from __future__ import annotations

from dataclasses import replace

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, DELAY, GOODPUT, HOST, RTT, SWITCH, WHILE_LEARNING, episode, learning
from dc_gym.benchmarks.studies.iroko.figure_5_2 import LAGS, SATURATED
from dc_gym.study import campaign, drawing
from dc_gym.study.claims import Claim, above, below
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "Dumbbell at 10 Mbit/s, TCP: RTT over the last tenth"
SOURCE = "thesis, section 5, figure 5.3"
STARVES = replace(
    LAGS,
    showed="while it learns the RTT is 20 ± 5 ms where the thesis' DCTCP has 47 (five seeds; found on seeds 2 and 11); the final"
    " policies starve one of two senders with four seeds of five, whose round trips are seconds long",
)
CLAIMS = (
    Claim("The RTT of DDPG is below DCTCP's", SOURCE, (below("DDPG", DCTCP, RTT),), explanation=SATURATED),
    Claim("The RTT of APPO is below DCTCP's", SOURCE, (below("APPO", DCTCP, RTT),), explanation=STARVES),
    Claim("TCP NV does badly", SOURCE, (above("nv", DCTCP, RTT),)),
    Claim("The RTT of PPO is below DCTCP's", "ours: the synchronous form of APPO", (below("PPO", DCTCP, RTT),), ours=True),
    *(
        Claim(f"The RTT of {who} is below DCTCP's", SOURCE, (below(learning(who), episode(DCTCP), RTT),), variant=WHILE_LEARNING)
        for who in ("DDPG", "APPO")
    ),
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    """Evaluates the runs of figure 5.2."""
    made = campaign.campaign(common.DUMBBELL_10M, options)
    evidence = made.run(progress)
    found = common.findings(made, evidence, TITLE, CLAIMS, common.PANELS)
    return replace(found, columns=(RTT, DELAY, SWITCH, HOST, GOODPUT), figure=drawing.dots(evidence, RTT, TITLE))
