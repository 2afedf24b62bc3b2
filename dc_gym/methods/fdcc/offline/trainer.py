# SPDX-License-Identifier: Apache-2.0
"""FDCC's training in the fluid model: a curriculum of stages with more and more flows, at most 32 (thesis, section 5.2).

The networks of an episode have the same number of flows, drawn from 2, 4, ... up to the stage's. An episode follows from the seed
and its number, so a training that was killed and goes on ends with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.methods.fdcc.offline import incasts
from dc_gym.methods.fdcc.offline.actor import Actor
from dc_gym.methods.fdcc.offline.episodes import play
from dc_gym.methods.fdcc.offline.model_incasts import ModelIncast
from dc_gym.methods.fdcc.offline.model_incasts import run as run_incast
from dc_gym.methods.fdcc.offline.presets import FdccTrainingSettings, preset
from dc_gym.methods.fdcc.offline.streams import StreamReplay
from dc_gym.methods.fdcc.offline.td3 import Td3
from dc_gym.topologies.ecmp import draw

CURVE = np.dtype(
    [("flows", "<i8"), ("decisions", "<i8"), ("reward", "<f8"), ("action", "<f8"), ("error", "<f8"), ("value", "<f8")]
)
"""A row for each episode: flows on a bottleneck, decisions, their mean reward and action, the critics' mean error and value."""
TESTS = np.dtype([("episode", "<i8"), ("flows", "<i8"), *((column.name, "<f8") for column in fields(ModelIncast))])
"""A row for each incast of the model (model_incasts.py) that the policy is tested in after a stage."""


class Trainer:
    """A training: its learner, and the state from which it goes on."""

    def __init__(
        self,
        settings: FdccTrainingSettings,
        learner: Td3,
        replay: StreamReplay,
        curve: npt.NDArray[np.void],
        tests: npt.NDArray[np.void],
    ) -> None:
        self.settings, self.learner, self.replay, self.curve, self.tests = settings, learner, replay, curve, tests

    @classmethod
    def new(cls, settings: FdccTrainingSettings) -> Trainer:
        """Returns a training that has not begun."""
        return cls(settings, Td3.new(settings), StreamReplay(settings.replay), np.zeros(0, CURVE), np.zeros(0, TESTS))

    @property
    def stage(self) -> int:
        """The number of the next episode's stage, from 0."""
        return min(len(self.curve) // self.settings.episodes, len(self.settings.stages) - 1)

    def episode(self) -> None:
        """Trains for one episode."""
        settings, number = self.settings, len(self.curve)
        random = np.random.default_rng(draw(settings.seed, "fdcc episode", number))
        most, how = settings.stages[self.stage], preset(settings.preset)
        known = [stage for stage in settings.stages if stage <= most]
        flows = known[-1] if len(known) == 1 or random.random() < 0.5 else known[random.integers(len(known) - 1)]
        networks = incasts.drawn(random, max(1, settings.flows // flows), flows, how)
        streams = play(networks, self.learner.actor, how, settings.steps, random, settings.explore)
        self.replay.add(streams)
        if how.lone:
            alone = incasts.drawn(random, settings.lone, 1, how)
            self.replay.add(play(alone, self.learner.actor, how, settings.steps, random, settings.explore))
        outcomes = [self.learner.update(self.replay, random) for _ in range(settings.updates)]
        error, value = (sum(numbers) / len(outcomes) for numbers in zip(*outcomes, strict=True))
        row = (flows, len(streams), float(streams.reward.mean()), float(streams.action.mean()), error, value)
        self.curve = np.append(self.curve, np.array([row], CURVE))
        if len(self.curve) % settings.episodes == 0:
            self._test()

    def _test(self) -> None:
        """Tests the policy after a stage."""
        actor = Actor(self.learner.actor)
        rows = [(len(self.curve), flows, *astuple(run_incast(actor, flows))) for flows in self.settings.tested]
        self.tests = np.append(self.tests, np.array(rows, TESTS))

    def arrays(self) -> dict[str, Any]:
        """Returns everything that it goes on from, as arrays by name."""
        return self.learner.arrays() | self.replay.arrays("replay_") | {"curve": self.curve, "tests": self.tests}

    @classmethod
    def of_arrays(cls, arrays: dict[str, Any], settings: FdccTrainingSettings) -> Trainer:
        """Returns a training that goes on from arrays. Raises KeyError or AgentError if they do not belong to a training."""
        replay = StreamReplay.of_arrays(arrays, "replay_", settings.replay)
        curve, tests = np.asarray(arrays["curve"], CURVE), np.asarray(arrays["tests"], TESTS)
        return cls(settings, Td3.of_arrays(arrays, settings), replay, curve, tests)


def run(trainer: Trainer, on_episode: Callable[[Trainer], None]) -> None:
    """Trains to the end. `on_episode` is called after each episode."""
    while len(trainer.curve) < trainer.settings.total:
        trainer.episode()
        on_episode(trainer)
