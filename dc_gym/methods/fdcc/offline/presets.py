# SPDX-License-Identifier: Apache-2.0
"""The presets of FDCC's training: the thesis' reward and traffic, and ours.

The thesis (K. Zhang 2023, algorithm 1) gives the reward, the curriculum of flows, and a history of up to eight observations. It
gives neither n, gamma, batch, replay, learning rate nor noise: those values are ours in all presets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.methods.fdcc.net import MAX_HISTORY, SPAN
from dc_gym.methods.fdcc.offline.telemetry_fluid import Signals
from dc_gym.nets.fixed_point import Floats

CONGESTED = 0.5
"""Algorithm 1: a rate and a queue that exceed the line by this part of it, and of the BDP, are punished."""
QUEUE_PER_ROOT = 0.75
"""Ours: N flows are to leave a queue of this times sqrt(N) BDP, as RL-CC's flows do by their target (eq. 2 there)."""
SHORT_QUEUE_PER_ROOT = 0.02
"""That of the preset short-queue: about none."""
TEACHER_GAIN = 0.3
"""Ours: the teacher goes this part of the way to where a window should be, in logarithms, with one decision."""
LEAST_SHARE = 2.0**-6
"""Ours: an even smaller part of its share counts no less."""
Reward = Callable[[Signals, Floats, float], Floats]
"""Returns rewards for flows' measurements, the number of flows that would share their line equally, and `queue_per_root`."""


def thesis_reward(state: Signals, count: Floats, queue_per_root: float = 0.0) -> Floats:
    """Returns algorithm 1's reward, which wants no queue. THROUGHPUT is the flow's own, since it is compared with 1 / N."""
    congested = state.switch_rate + state.queue - 1.0 > CONGESTED
    return np.asarray(np.where(congested, -state.rtt, state.goodput + 1.0 / state.rtt - (state.goodput - 1.0 / count) ** 2))


def our_reward(state: Signals, count: Floats, queue_per_root: float = QUEUE_PER_ROOT) -> Floats:
    """Returns our reward: minus the deviations of share and round trip from where they should be, in octaves.

    A flow's share should be 1 / N of the line. In algorithm 1 the term for it vanishes as N grows; here it does not. The round
    trip should be 1 + queue_per_root sqrt(N), so that a flow finds equal shares where it finds equal queues.
    """
    share = np.log2(np.maximum(state.goodput * count, LEAST_SHARE))
    round_trip = np.log2(state.rtt / (1.0 + queue_per_root * np.sqrt(count)))
    return np.asarray(-_huber(share) - _huber(round_trip))


def teacher(windows: Floats, count: Floats, queue_per_root: float = QUEUE_PER_ROOT) -> Floats:
    """Returns the outputs o of a teacher that has the count of flows as an input, for windows in BDP (ours).

    It brings each window towards (1 + queue_per_root sqrt(N)) / N: equal shares, and the queue of our reward. A flow in a network
    cannot observe N.
    """
    target = np.minimum((1.0 + queue_per_root * np.sqrt(count)) / count, 1.0)
    change = np.clip((target / windows) ** TEACHER_GAIN, 1.0 / (1.0 + SPAN), 1.0 + SPAN)
    return np.asarray(np.where(change >= 1.0, change - 1.0, 1.0 - 1.0 / change) / SPAN)


def _huber(octaves: Floats) -> Floats:
    size = np.abs(octaves)
    return np.asarray(np.where(size < 1.0, 0.5 * size * size, size - 0.5))


@dataclass(frozen=True, slots=True)
class FdccPreset:
    """A reward, and the traffic that a policy is trained on."""

    name: str
    reward: Reward
    wide: bool
    """Also windows of many BDP, other traffic in queue and line, and flows that begin with any share."""
    central: bool
    """Critics see the network: the count of flows, all windows, and the other flows' actions. Actors never do."""
    taught: bool
    """Actors also imitate `teacher` (TD3 + BC, Fujimoto and Gu 2021)."""
    lone: bool
    """Each episode also has flows that are alone on their bottleneck. The thesis' curriculum begins with two flows."""
    summary: str
    queue_per_root: float = QUEUE_PER_ROOT
    """N flows are to leave a queue of that times sqrt(N) BDP."""


OURS = FdccPreset(
    "ours",
    our_reward,
    True,
    True,
    True,
    True,
    "shares and round trips in octaves; floods, other traffic, lone flows, and a teacher",
)
PRESETS = {
    preset.name: preset
    for preset in (
        OURS,
        replace(OURS, name="crowds", lone=False, summary="ours, but always two flows or more, as in the thesis' curriculum"),
        replace(
            OURS,
            name="short-queue",
            queue_per_root=SHORT_QUEUE_PER_ROOT,
            summary="ours, but flows are to leave next to no queue",
        ),
        FdccPreset(
            "thesis",
            thesis_reward,
            False,
            False,
            False,
            False,
            "algorithm 1's reward; windows of one BDP that start within 1 ms",
        ),
    )
}


def preset(name: str) -> FdccPreset:
    if name not in PRESETS:
        raise UsageError("--preset: " + unknown("preset", name, PRESETS))
    return PRESETS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class FdccTrainingSettings:
    """The settings of a training."""

    preset: str = "ours"
    seed: int = 1
    episodes: int = 12
    """Episodes of each stage of the curriculum."""
    stages: tuple[int, ...] = (2, 4, 8, 16, 32)
    """The most flows on a bottleneck, stage by stage."""
    lone: int = 32
    """Further flows of an episode, each alone on a bottleneck, if the preset has them."""
    tested: tuple[int, ...] = (1, 4, 64, 256)
    """The flows of the model's incasts that a policy is tested in after each stage."""
    flows: int = 256
    """Flows of an episode, over all of its networks."""
    steps: int = 200
    """Steps of the fluid model in an episode; a round trip has eight."""
    updates: int = 60
    """Updates of the critics after each episode."""
    history: int = MAX_HISTORY
    """Observations that a decision's gradient goes back over, and that the critics see."""
    sequences: int = 32
    """Sequences of `history` decisions in a batch."""
    replay: int = 200_000
    """Decisions that are kept."""
    discount: float = 0.9
    """For each decision."""
    returns: int = 3
    """Decisions until the critics' estimate takes over (n-step returns)."""
    learning_rate: float = 1e-3
    target_rate: float = 0.01
    """Part of the way that the targets go towards the networks at each update."""
    actor_every: int = 2
    """Updates of the critics for one of the actor (TD3's delay)."""
    target_noise: float = 0.1
    """Standard deviation of the noise in the targets' actions, which is clipped at twice as much."""
    value_weight: float = 0.5
    """Weight of the critics' values beside the teacher's squared error; values are divided by their mean size (TD3 + BC)."""
    explore: float = 0.2
    """Standard deviation of the noise in actions: of a flow's own noise, and of the noise that a network's flows share."""

    @property
    def total(self) -> int:
        """Episodes of all stages."""
        return self.episodes * len(self.stages)

    def __post_init__(self) -> None:
        preset(self.preset)
        if not 1 <= self.history <= MAX_HISTORY:
            raise UsageError(f"--history {self.history}: FDCC looks back on 1 to {MAX_HISTORY} observations; give one of those")
        for name in ("episodes", "flows", "steps", "updates", "sequences", "replay", "returns", "actor_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')} {getattr(self, name)}: give 1 or more")
        if not 0 <= self.discount < 1:
            raise UsageError(f"--discount {self.discount:g}: give a number from 0 to below 1")
        if not 0 < self.learning_rate < 1:
            raise UsageError(f"--learning-rate {self.learning_rate:g}: give a number above 0, below 1")
        if not 0 <= self.explore < math.inf:
            raise UsageError(f"--explore {self.explore:g}: give a number from 0")
