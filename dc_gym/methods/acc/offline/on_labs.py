# SPDX-License-Identifier: Apache-2.0
"""ACC's offline training: one net learns from the queues of many labs (Yan et al., SIGCOMM 2021, section 4.3).

The labs of an episode have one scenario and one seed (scenarios.py), so that they differ by their actions alone. All labs stand
still at each decision. Then their transitions go into one replay, in the order of the labs, and while the labs run on, the net is
updated from it. Nothing depends on wall time: one seed gives one net, bit for bit. If a lab dies, its episode is repeated from
its beginning.

Two things are ours. Arriving traffic moves a reward far more than an action does. So a reward counts relative to the rewards of
the same queue in the same slot in the other labs. And DCQCN takes milliseconds to answer a marking, many slots. So an action at
random is kept for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import LabError, UsageError
from dc_gym.learn.session import Session
from dc_gym.methods.acc.double_dqn import DoubleDqn
from dc_gym.methods.acc.keys import BY_QUEUE, GROUPS, QUEUE
from dc_gym.methods.acc.offline import scenarios
from dc_gym.methods.acc.queues import AccQueues, Actions, Slot
from dc_gym.methods.acc.replay import Replay, Transitions
from dc_gym.methods.acc.settings import DqnSettings
from dc_gym.methods.acc.template import DEPLOYED, WORTHS, Template
from dc_gym.run.agent.frame import Frame
from dc_gym.topologies.ecmp import draw

MOST_LABS = 64
MOST_STEPS = 150
MOST_REPEATS = 3
"""An episode whose labs die so often ends the training."""
USUAL_REWARD = 0.7
"""The constant in relative rewards: it gives a net's values the size of the values that a switch learns from in a run."""
CURVE = np.dtype([("decisions", "<i8"), ("reward", "<f8"), ("error", "<f8"), ("explore", "<f8")])
"""A row for each episode: decisions by the net or at random, their mean reward, the mean error of the updates, and the share of
decisions at random at its end."""


DQN = DqnSettings(prefer=0.0)
"""The learner's settings. A relative reward is large by chance as well, so large ones are not preferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccTrainingSettings:
    """The settings of a training. All are ours but for the reward: the paper gives none."""

    template: Template = DEPLOYED
    seed: int = 1
    episodes: int = 120
    labs: int = 4
    """Labs that have the scenario of an episode."""
    steps: int = 100
    """Decision times of an episode."""
    updates_per_step: int = 4
    replay: int = 60_000
    explore: float = 1.0
    """Share of decisions at random, at first."""
    half_life: int = 10_000
    """Decision times after which it is half as much."""
    explore_least: float = 0.05
    hold: int = 20
    """Mean number of decision times for which an action at random is kept."""
    worth: str = "step"
    throughput_weight: float = 0.7
    groups: str = BY_QUEUE
    """The queues that have one setting. Those of a direction are trained on a network with ports that lead up."""
    dqn: DqnSettings = DQN

    def __post_init__(self) -> None:
        for name in ("episodes", "labs", "steps", "updates_per_step", "replay", "half_life", "hold"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')} {getattr(self, name)}: give 1 or more")
        if self.labs > MOST_LABS:
            raise UsageError(f"--labs {self.labs}: give {MOST_LABS} or fewer")
        if self.steps > MOST_STEPS:
            raise UsageError(
                f"--steps {self.steps}: a lab has no room for the flows of so long an episode; give {MOST_STEPS} or fewer"
            )
        if self.worth not in WORTHS:
            raise UsageError(f"--worth {self.worth}: give one of {', '.join(WORTHS)}")
        if self.groups not in GROUPS:
            raise UsageError(f"--groups {self.groups}: give one of {', '.join(GROUPS)}")


class Trainer:
    """A training: its learner, and the state from which it goes on."""

    def __init__(self, settings: AccTrainingSettings, learner: DoubleDqn, replay: Replay, curve: npt.NDArray[np.void]) -> None:
        self.settings, self.learner, self.replay, self.curve = settings, learner, replay, curve

    @classmethod
    def new(cls, settings: AccTrainingSettings) -> Trainer:
        """Returns a training that has not begun."""
        random = np.random.default_rng(draw(settings.seed, "acc net"))
        template = settings.template
        learner = DoubleDqn.random(template.inputs, len(template.actions), settings.dqn, random)
        return cls(settings, learner, Replay(settings.replay, template.inputs), np.zeros(0, CURVE))

    def arrays(self) -> dict[str, Any]:
        """Returns everything that it goes on from, as arrays by name."""
        return self.learner.arrays() | self.replay.arrays("replay_") | {"curve": self.curve}

    @classmethod
    def of_arrays(cls, arrays: dict[str, Any], settings: AccTrainingSettings) -> Trainer:
        """Returns a training that goes on from arrays. Raises KeyError or AgentError if they do not belong to a training."""
        replay = Replay.of_arrays(arrays, "replay_", settings.replay)
        return cls(settings, DoubleDqn.of_arrays(arrays, settings.dqn), replay, np.asarray(arrays["curve"], CURVE))

    @property
    def share_at_random(self) -> float:
        """The share of decisions at random in the next episode."""
        settings, steps = self.settings, len(self.curve) * self.settings.steps
        decayed: float = settings.explore * 0.5 ** (steps / settings.half_life)
        return max(settings.explore_least, decayed)


class _Lab:
    """One lab of an episode."""

    def __init__(self, stack: ExitStack, settings: AccTrainingSettings, number: int, episode: int, folder: Path) -> None:
        template = settings.template
        scenario = scenarios.drawn(settings.seed, episode)
        self.seed = draw(settings.seed, "acc lab", episode) % 2**32
        spec = scenario.spec(template, settings.steps * template.interval_ns, self.seed, settings.groups)
        self.session = stack.enter_context(Session(spec, folder))
        self.queues = AccQueues(
            self.session.scene,
            template,
            worth=settings.worth,
            throughput_weight=settings.throughput_weight,
            idle=QUEUE,
            groups=settings.groups,
        )
        self._random = np.random.default_rng(draw(settings.seed, "acc explore", number, episode))
        self._hold, self._kept = settings.hold, np.zeros(len(self.queues), np.int64)
        self._decided: tuple[Slot, Actions, npt.NDArray[np.intp]] | None = None

    def observe(self, frame: Frame) -> Slot:
        """Returns the slot that ends with a frame."""
        return self.queues.observe(frame)

    def learned(self, slot: Slot, rewards: npt.NDArray[np.float64]) -> Transitions | None:
        """Returns the transitions of the last decisions, with the rewards of a slot as they count; None at the first slot."""
        if self._decided is None:
            return None
        before, actions, busy_queues = self._decided
        return Transitions(before.states[busy_queues], actions[busy_queues], rewards[busy_queues], slot.states[busy_queues])

    def rewards_of(self, slot: Slot) -> list[float]:
        """Returns the rewards of the last decisions as they are."""
        assert self._decided is not None
        _, _, busy_queues = self._decided
        return list(slot.rewards[busy_queues].tolist())

    def decide(self, slot: Slot, learner: DoubleDqn, at_random: float) -> None:
        """Chooses an action for each busy queue, and lets the lab run for one interval.

        `at_random`: share of decision times whose action is drawn. A drawn action is kept for `hold` of them on average.
        """
        actions, count = self.queues.settings.copy(), len(self.queues)
        free = self._kept <= 0
        begins = at_random / (at_random + self._hold * (1.0 - at_random))
        starts = free & (self._random.random(count) < begins)
        drawn = self._random.integers(learner.net.sizes[-1], size=count)
        self._kept = np.where(starts, self._random.geometric(1.0 / self._hold, size=count), self._kept) - 1
        actions[starts] = drawn[starts]
        busy_queues = np.flatnonzero(~slot.idle)
        led = busy_queues[(free & ~starts)[busy_queues]]
        if len(led):
            actions[led] = learner.net(slot.states[led]).argmax(axis=1)
        self.queues.settings, self._decided = actions, (slot, actions, busy_queues)
        self.session.post(self.queues.values(actions))


def run(trainer: Trainer, folder: Path, on_episode: Callable[[Trainer], None]) -> int:
    """Trains to the end. Returns how many episodes were repeated because a lab had died.

    `folder`: where the labs' folders are made. `on_episode` is called after each episode.
    """
    repeats, settings = 0, trainer.settings
    while len(trainer.curve) < settings.episodes:
        before, tries = trainer.arrays(), 0
        while True:
            try:
                row = _episode(trainer, folder)
                break
            except LabError:
                tries += 1
                if tries > MOST_REPEATS:
                    raise
                again = Trainer.of_arrays(before, settings)
                trainer.learner, trainer.replay = again.learner, again.replay
        repeats += tries
        trainer.curve = np.append(trainer.curve, np.array([row], CURVE))
        on_episode(trainer)
    return repeats


def _episode(trainer: Trainer, folder: Path) -> tuple[int, float, float, float]:
    """Trains for one episode and returns its row of the curve."""
    settings, episode, at_random = trainer.settings, len(trainer.curve), trainer.share_at_random
    random = np.random.default_rng(draw(settings.seed, "acc episode", episode))
    rewards: list[float] = []
    errors: list[float] = []
    with ExitStack() as stack:
        labs = [_Lab(stack, settings, number, episode, folder) for number in range(settings.labs)]
        for lab in labs:
            lab.session.post_begin(lab.seed)
        for step in range(settings.steps + 1):
            slots = [lab.observe(lab.session.collect()) for lab in labs]
            for lab, slot, counted in zip(labs, slots, relative([slot.rewards for slot in slots]), strict=True):
                if (transitions := lab.learned(slot, counted)) is not None:
                    trainer.replay.add(transitions)
                    rewards += lab.rewards_of(slot)
                if step < settings.steps:
                    lab.decide(slot, trainer.learner, at_random)
            if step < settings.steps:
                errors += [trainer.learner.learn(trainer.replay, random) for _ in range(settings.updates_per_step)]
    known = [error for error in errors if error == error]
    return len(rewards), _mean(rewards), _mean(known), at_random


def relative(rewards: Sequence[npt.NDArray[np.float64]]) -> list[npt.NDArray[np.float64]]:
    """Returns the rewards of each lab's queues less the mean of the same queues in the other labs, plus USUAL_REWARD.

    A lone lab's rewards stay as they are.
    """
    if len(rewards) < 2:
        return list(rewards)
    total, others = np.sum(rewards, axis=0), len(rewards) - 1
    return [lab_rewards - (total - lab_rewards) / others + USUAL_REWARD for lab_rewards in rewards]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
