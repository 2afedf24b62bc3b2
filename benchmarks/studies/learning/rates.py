# SPDX-License-Identifier: Apache-2.0
"""Five PPO trainings on dumbbell-10m, against a random policy, their own beginning, TCP alone and an oracle.

The delay is end to end, srtt - base RTT, and includes the hosts' own queues. So a queue that only moved to the hosts would show;
the longest queues of switches and of hosts are beside it. The thesis' reward (equation 4.3) is trained in the same way: it does
not see the queues of hosts.
"""

from __future__ import annotations

from functools import partial

from dc_gym.learn.registration import SPECS
from dc_gym.study import Claim, Measure, Study, above, below, drawing, learned, measured, trained
from dc_gym.study.trained import COLORS, PolicyVariant, Setup, TrainedLength, TrainedRuns

REWARD = Measure("reward", "reward of a step", digits=3)
GOODPUT = Measure("goodput_bps", "goodput (Mbit/s)", 1e-6)
DELAY = Measure("queueing_delay_s", "queueing delay, end to end (ms)", 1e3)
SWITCH = Measure("switch_queue_bytes", "longest switch queue (kB)", 1e-3)
HOST = Measure("host_queue_bytes", "longest host queue (kB)", 1e-3)
OURS, UNSEEN = "ours: it has learned", "ours: equation 4.3 does not see them"
DRAWN = (REWARD, GOODPUT, SWITCH, HOST)
LENGTH = TrainedLength(seeds=5, steps=100_000, episode="5s", duration="5s", warmup="0s")
PPO, THESIS = "PPO", "PPO-thesis"
SETUP = Setup(
    "rates",
    SPECS["dcgym/Dumbbell10m-v0"],
    default=LENGTH,
    full=LENGTH,
    baselines=("cubic", "fair-share", "random"),
    own=tuple(
        PolicyVariant(name, {"controller.name": "cubic", "agent.observe": "default", **keys}, color, label, algorithm="PPO")
        for name, keys, color, label in (
            (PPO, {}, COLORS["PPO"], "PPO"),
            (THESIS, {"agent.reward": "thesis"}, "#AA4499", "PPO, the thesis' reward"),
        )
    ),
)
LEARNED = learned(PPO, f"{PPO}'s reward is higher in the end", REWARD, lambda _, y: bool(y[-1] > y[0]))
STUDY = Study(
    title="PPO sets the rates of dumbbell-10m",
    variants=SETUP.variants(),
    measures=(REWARD, GOODPUT, DELAY, SWITCH, HOST),
    measure=measured.numbers,
    track=partial(measured.track, names=tuple(column.name for column in DRAWN)),
    seeds=LENGTH.seeds,
    claims=[
        Claim("PPO's reward is above that of a random policy", OURS, (above(PPO, "random", REWARD),)),
        Claim("PPO's reward is above that of its beginning", OURS, (LEARNED,)),
        Claim("PPO's delay is a tenth of CUBIC's, or less", OURS, (below(PPO, "cubic", DELAY, 0.1),)),
        Claim("PPO has 80 % of the oracle's goodput", OURS, (above(PPO, "fair-share", GOODPUT, 0.8),)),
        Claim("The thesis' reward leaves longer queues in hosts", UNSEEN, (above(THESIS, PPO, HOST),)),
    ],
    draw=lambda evidence: drawing.figure(evidence, DRAWN, "PPO sets the rates of dumbbell-10m"),
    facts=trained.facts(SETUP),
    collect=TrainedRuns(SETUP),
    trains=True,
)
