# SPDX-License-Identifier: Apache-2.0
"""Figure 5.2 of Iroko's thesis: two pairs over 10 Mbit/s, TCP; reward, bandwidth and queue by policy."""

from __future__ import annotations

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, GOODPUT, REWARD, SWITCH, WHILE_LEARNING, episode, learning
from dc_gym.study.claims import Claim, Explanation, above, below
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "Dumbbell at 10 Mbit/s, TCP: reward, goodput and queues"
SOURCE = "thesis, section 5, figure 5.2"
FOUND = "docs/reproduce-iroko.md#dumbbell-of-10-mbits-tcp-52-53-30-s"
LACKING = "docs/reproduce-iroko.md#what-appo-and-ddpg-lack"
MENDED = "dcgym reproduce iroko 5.2 5.3 --preset mended --algorithms APPO,DDPG --steps 100000 --seeds 5"
SATURATED = Explanation(
    hypothesis="DDPG's actor is saturated: values of magnitude 7 to 12 enter its tanh, so it stays at the extreme actions",
    experiment=f"{MENDED}, where DDPG has training.preactivation_l2 = 0.01",
    page=LACKING,
    showed="the queue is 3.7 ± 5.7 kB where CUBIC has 347 (five seeds; found on seed 11), the RTT 15.2 ± 3.5 ms, that of the"
    " thesis' DCTCP 47.7",
)
LAGS = Explanation(
    hypothesis="APPO passes once over each batch, so that its value function lags; with PPO's ten passes it learns as PPO does",
    experiment=f"{MENDED}, where APPO has ten passes",
    page=LACKING,
    showed="while it learns the queue is 13 ± 6 kB where CUBIC has 235, with the final policies 67 ± 99 kB where CUBIC has 347"
    " (five seeds; found on seeds 2 and 11)",
)
EXPLORES = Explanation(
    hypothesis="the thesis' runs are the trainings: agents pay with bandwidth as long as they explore",
    experiment=f"{MENDED}, the claims of the variant `{WHILE_LEARNING}`",
    page=LACKING,
    showed="in the last tenth of trainings DDPG has 8.94 ± 0.56 Mbit/s, APPO 8.79 ± 0.39, the thesis' DCTCP 9.55 (five seeds);"
    " with the final policies DDPG has 9.35 ± 0.30",
)
ENFORCED = Explanation(
    hypothesis="the thesis' tbf fills its bucket at each change, so an agent that explores limits nobody: the reward A (1 - 2Q) "
    "teaches to command little while the queue is long, and hosts starve only once the actor is saturated and repeats its rates",
    experiment="DDPG with preset iroko-thesis, 8,000 steps, under stock and exact tbf",
    page="docs/reproduce-iroko.md#is-it-the-enforcement-trainings-under-stock-tbf",
    showed="with ten of ten seeds the policy commands 0.08 to 1 % of the line for every host while the queue is long, with the "
    "exact tbf with none of three; that a saturated actor then starves hosts was not tried",
)
COMMANDED = Explanation(
    hypothesis="the reward counts commanded shares: who shares the line cannot earn what a TCP earns, which counts as action 1",
    experiment="the fair-share oracle of dcgym reproduce iroko 5.2",
    page=FOUND,
    showed="with an empty queue the oracle earns 0.74, as much as the thesis' DCTCP",
)
CLAIMS = (
    Claim("DDPG cuts the queue", SOURCE, (below("DDPG", "cubic", SWITCH, 0.5),), explanation=SATURATED),
    Claim("APPO cuts the queue", SOURCE, (below("APPO", "cubic", SWITCH, 0.5),), explanation=LAGS),
    Claim("TCP NV does badly", SOURCE, (above("nv", DCTCP, SWITCH), below("nv", DCTCP, REWARD))),
    Claim("Learning agents pay with bandwidth: DDPG", SOURCE, (below("DDPG", DCTCP, GOODPUT),), explanation=EXPLORES),
    Claim(
        "Learning agents pay with bandwidth: APPO",
        SOURCE,
        (below("APPO", DCTCP, GOODPUT),),
        why="the thesis' stock tbf is not what is missing: with it PPO, the synchronous form, limits nobody and has the whole "
        "line (9.56 Mbit/s, a queue of 364 kB; one seed, 20,000 steps)",
        explanation=EXPLORES,
    ),
    Claim(
        "DDPG settles at a minimal allocation and starves all hosts",
        SOURCE,
        (below("DDPG", "fair-share", GOODPUT, 0.1),),
        explanation=ENFORCED,
    ),
    Claim(
        "PPO over TCP is the best mix of a short queue and reward",
        SOURCE,
        (below("PPO", DCTCP, SWITCH), above("PPO", DCTCP, REWARD), above("PPO", "nv", REWARD), above("PPO", "DDPG", REWARD)),
        explanation=COMMANDED,
    ),
    Claim("REINFORCE is not better than PPO", SOURCE, (below("REINFORCE", "PPO", REWARD),)),
    *(
        Claim(f"{who} cuts the queue", SOURCE, (below(learning(who), episode("cubic"), SWITCH, 0.5),), variant=WHILE_LEARNING)
        for who in ("DDPG", "APPO")
    ),
    *(
        Claim(
            f"Learning agents pay with bandwidth: {who}",
            SOURCE if paper else "ours: the synchronous form of APPO",
            (below(learning(who), episode(DCTCP), GOODPUT),),
            variant=WHILE_LEARNING,
            ours=not paper,
        )
        for who, paper in (("DDPG", True), ("APPO", True), ("PPO", False))
    ),
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    return common.run(common.DUMBBELL_10M, options, progress, TITLE, CLAIMS, (*common.PANELS, common.RTT_PANEL))
