# SPDX-License-Identifier: Apache-2.0
"""RL-CC's policy gradient (Fuhrer et al. 2023, eq. 3) on the real data path: labs in which NICs decide, and a learner outside.

All labs run from barrier to barrier at the same time. At a barrier they stand still, their decisions become one batch in the
order of the labs, the network moves by one step of Adam, and all NICs go on with it. After an episode of so many updates each lab
begins another, with a seed of its own. Nothing depends on wall time or on which lab is first: one seed, one network, bit for bit.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.errors import UsageError
from dc_gym.methods.rlcc import gradient
from dc_gym.methods.rlcc.checkpoint import CURVE, Checkpoint
from dc_gym.methods.rlcc.data_path import DataPath
from dc_gym.methods.rlcc.gradient import MOST_LATER, STARTS
from dc_gym.methods.rlcc.histories import Histories, Lessons
from dc_gym.methods.rlcc.presets import Case, preset
from dc_gym.methods.rlcc.scenes import Scene, randomised, varied
from dc_gym.nets.adam import Adam
from dc_gym.nets.decision import Scaling
from dc_gym.nets.lstm import Lstm
from dc_gym.nets.mlp import Mlp
from dc_gym.nets.policy_file import NETWORKS, PolicyFile, Words
from dc_gym.topologies.ecmp import draw

MOST_LABS = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """How a network is trained on labs."""

    preset: str = "rl-cc"
    net: str = "mlp"
    """One of gradient.STARTS."""
    seed: int = 1
    labs: int = 2
    updates: int = 1600
    episode: int = 100
    """Updates of an episode; a checkpoint follows each."""
    trips: int = 32
    """Base round trips between two barriers: a batch is what all labs decide in them."""
    rate: float = 0.01
    """Of learning (Adam) at first; it falls to 0 on a straight line."""
    later: int = 3
    """The delta of a decision is that of so many decisions later."""
    most_error: float = 2.0
    """Errors count up to so many targets: a full queue would drown all else."""
    randomise: bool = False
    """Each lab's episode has its own line, base round trip, buffer, and numbers of flows."""
    curriculum: bool = False
    """Two flows in the first third, up to four in the second."""
    scene: Scene = field(default_factory=Scene)

    def __post_init__(self) -> None:
        preset(self.preset)
        gradient.check_net(self.net)
        if min(self.updates, self.episode, self.trips) < 1 or not 1 <= self.labs <= MOST_LABS or self.seed < 0:
            given = f"updates {self.updates}, episode {self.episode}, trips {self.trips}, labs {self.labs}, seed {self.seed}"
            raise UsageError(f"{given}: is no training; updates, episode and trips from 1, labs 1 to {MOST_LABS}, seed from 0")
        if not 1 <= self.later <= MOST_LATER or not 0 < self.rate < 1 or not self.most_error > 0:
            given = f"later {self.later}, rate {self.rate:g}, most_error {self.most_error:g}"
            raise UsageError(f"{given}: is no training; later 1 to {MOST_LATER}, a rate within 0 and 1, most_error above 0")

    def cases(self, episode: int, seed: int) -> tuple[Case, ...]:
        """What an episode has."""
        cases = preset(self.preset).cases
        if self.curriculum:
            most = 2 ** (1 + 3 * episode * self.episode // self.updates)
            cases = tuple(each for each in cases if each.flows <= most)
        return varied(cases, seed) if self.randomise else cases


USUAL = {"mlp": Settings(), "lstm": Settings(net="lstm", rate=0.003)}
"""How a network of each kind is trained."""


@dataclass(frozen=True, slots=True)
class Taught:
    """A lab in an episode, and what teaches of its decisions."""

    number: int
    episode: int
    path: DataPath
    histories: Histories

    def fileno(self) -> int:
        """For select()."""
        return self.path.fileno()

    def decide_by(self, table: Words) -> None:
        """From the barrier on at which the lab stands."""
        self.path.table(table)
        self.histories.table = table


class Labs:
    """The labs of a training."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._stack = ExitStack()
        self._labs: list[Taught] = []
        self.replays = 0
        """Labs that had died and were begun anew."""

    def __enter__(self) -> Labs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, episode: int, table: Words) -> None:
        """Each in its own episode."""
        self.close()
        self._labs = [self._begun(number, episode, table) for number in range(self._settings.labs)]

    def _begun(self, number: int, episode: int, table: Words) -> Taught:
        asked = self._settings
        seed = draw(asked.seed, "rlcc lab", number, episode) % 2**32
        scene = randomised(asked.scene, seed) if asked.randomise else asked.scene
        folder = self._folder / f"lab{number}"
        folder.mkdir(exist_ok=True)
        spec = scene.spec(f"rlcc-{asked.net}", asked.cases(episode, seed), asked.trips * asked.episode + 1, seed, folder)
        path = self._stack.enter_context(DataPath(spec, folder, asked.trips * scene.base_rtt_ns))
        path.begin(seed, table)
        return Taught(number, episode, path, Histories(asked.later, table))

    def advance(self, table: Words | None) -> Iterator[Lessons]:
        """All to the next barrier; what each has to teach. `table`: what they decide by, None: as before."""
        for lab in self._labs:
            if table is not None:
                lab.decide_by(table)
            lab.path.post()
        for lab in self._labs:
            yield self._collect(lab)

    def _collect(self, lab: Taught) -> Lessons:
        before = lab.path.replays
        rows = lab.path.collect()
        self.replays += lab.path.replays - before
        return lab.histories.add(rows)

    def running(self, episode: int, table: Callable[[], Words]) -> Iterator[Lessons]:
        """For ever: what one lab has to teach. Whoever is at a barrier first goes on first, with the table of that moment,
        before anybody has learned from what it hands out; where its episode is over, with another."""
        self.begin(episode, table())
        for lab in self._labs:
            lab.path.post()
        while True:
            ready, _, _ = select.select(self._labs, [], [])
            for lab in ready:
                found, words = self._collect(lab), table()
                if lab.path.step == lab.path.steps:
                    lab.path.close()
                    lab = self._labs[lab.number] = self._begun(lab.number, lab.episode + 1, words)
                else:
                    lab.decide_by(words)
                lab.path.post()
                yield found

    @property
    def pids(self) -> list[int | None]:
        return [lab.path.pid for lab in self._labs]

    def close(self) -> None:
        self._stack.close()
        self._labs = []


@dataclass(slots=True)
class Learner:
    """The network and what moves it."""

    settings: Settings
    scaling: Scaling
    net: Mlp | Lstm
    adam: Adam
    curve: Any

    @classmethod
    def new(cls, settings: Settings) -> Learner:
        net = STARTS[settings.net](np.random.default_rng(settings.seed))
        return cls(settings, preset(settings.preset).scaling, net, Adam(net.weights), np.zeros(0, CURVE))

    @classmethod
    def restored(cls, settings: Settings, held: Checkpoint) -> Learner:
        return cls(settings, preset(settings.preset).scaling, NETWORKS[settings.net](held.weights), held.adam, held.curve)

    def state(self) -> Checkpoint:
        """For a file, between two episodes."""
        return Checkpoint(self.net.weights, self.adam, self.curve)

    def table(self) -> Words:
        """What the NICs decide by."""
        return PolicyFile(self.net, self.scaling).table()

    def update(self, found: Lessons) -> None:
        """One step, if there is anything to learn from."""
        asked, counted = self.settings, found.counted
        pulls = np.where(counted, gradient.pulls(found.errors, self.scaling, asked.most_error), 0.0)
        count = int(counted.sum())
        mean = float(np.abs(pulls[counted]).mean()) if count else 0.0
        if count:
            slopes = self.net.ascent(found.inputs, found.memory, pulls * (pulls.size / count))
            falling = 1.0 - len(self.curve) / asked.updates
            self.net = type(self.net)(self.adam.step(self.net.weights, slopes, asked.rate * falling))
        self.curve = np.append(self.curve, np.array([(count, mean)], CURVE))


def run(learner: Learner, folder: Path, on_update: Callable[[Learner, Labs], None], *, free: bool = False) -> int:
    """Trains to the end, from the beginning of an episode on. `folder`: for the labs. Answers how many labs died on the way.

    `free`: no lab waits for another, nor for the learner; an update for each barrier of each lab. Then the policy is not the same
    twice.
    """
    settings = learner.settings
    with Labs(settings, folder) as labs:
        if free:
            return _run_free(learner, labs, on_update)
        while (done := len(learner.curve)) < settings.updates:
            labs.begin(done // settings.episode, learner.table())
            for number in range(min(settings.episode, settings.updates - done)):
                learner.update(Lessons.joined(list(labs.advance(learner.table() if number else None))))
                on_update(learner, labs)
        return labs.replays


def _run_free(learner: Learner, labs: Labs, on_update: Callable[[Learner, Labs], None]) -> int:
    settings = learner.settings
    for found in labs.running(len(learner.curve) // settings.episode, learner.table):
        learner.update(found)
        on_update(learner, labs)
        if len(learner.curve) >= settings.updates:
            break
    return labs.replays
