# SPDX-License-Identifier: Apache-2.0
"""Figure 5.2 of Iroko's thesis: two pairs over 10 Mbit/s, TCP; reward, bandwidth and queue by policy."""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.benchmarks.studies.iroko import common
from dc_gym.benchmarks.studies.iroko.common import DCTCP, GOODPUT, REWARD, SWITCH, WHILE_LEARNING, episode, learning
from dc_gym.study import Claim, Floats, above, below, learned

TITLE = "Dumbbell at 10 Mbit/s, TCP: reward, goodput and queues"
SOURCE = "thesis, section 5, figure 5.2"


FALLS = "While they train the queue falls from the first to the last tenth of steps"


def _falls(steps: Floats, queue: Floats) -> bool:
    return bool(queue[steps > 0.9 * steps[-1]].mean() < queue[steps <= 0.1 * steps[-1]].mean())


def _claims() -> Iterator[Claim]:
    for agent in ("DDPG", "APPO"):
        yield Claim(f"{agent} cuts the queue", SOURCE, (below(agent, "cubic", SWITCH, 0.5),))
        yield Claim(f"Learning agents pay with bandwidth: {agent}", SOURCE, (below(agent, DCTCP, GOODPUT),))
    yield Claim("TCP NV does badly", SOURCE, (above("nv", DCTCP, SWITCH), below("nv", DCTCP, REWARD)))
    starved = below("DDPG", "fair-share", GOODPUT, 0.1)
    yield Claim("DDPG settles at a minimal allocation and starves all hosts", SOURCE, (starved,))
    better = (above("PPO", rival, REWARD) for rival in (DCTCP, "nv", "DDPG"))
    yield Claim("PPO over TCP is the best mix of a short queue and reward", SOURCE, (below("PPO", DCTCP, SWITCH), *better))
    yield Claim("REINFORCE is not better than PPO", SOURCE, (below("REINFORCE", "PPO", REWARD),))
    for agent in ("DDPG", "APPO"):
        halved = below(learning(agent), episode("cubic"), SWITCH, 0.5)
        yield Claim(f"{agent} cuts the queue", SOURCE, (halved,), WHILE_LEARNING)
    for agent, source in (("DDPG", SOURCE), ("APPO", SOURCE), ("PPO", "ours: the synchronous form of APPO")):
        less = below(learning(agent), episode(DCTCP), GOODPUT)
        yield Claim(f"Learning agents pay with bandwidth: {agent}", source, (less,), WHILE_LEARNING)
    criteria = tuple(learned(agent, "the queue falls", SWITCH, _falls) for agent in ("DDPG", "APPO"))
    yield Claim(FALLS, "ours: a headline's criterion", criteria)


STUDY = common.study(common.DUMBBELL_10M, TITLE, [*_claims()], (*common.PANELS, common.RTT_PANEL))
