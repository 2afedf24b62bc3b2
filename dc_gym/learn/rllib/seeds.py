# SPDX-License-Identifier: Apache-2.0
"""The seeds of episodes in trainings and evaluations.

RLlib gives its runners overlapping seeds, so with these seeds labs would run the same episodes. RLlib gives runner i the seed s +
i; its vectors, and Gymnasium's, give the runner's lab j the seed s + i + j. Before each round of whole episodes RLlib gives the
same seed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from dc_gym.spec import FIRST_HELD_OUT

FIRST_DRAWN = 2**40
"""The lowest seed of a training's episodes, far above the seeds of evaluations."""


def seed_of(numbers: Sequence[int]) -> int:
    """Returns a seed that depends on all of these numbers."""
    drawn = FIRST_DRAWN + int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) // 4
    return drawn % FIRST_HELD_OUT  # a few would lie beyond


class EpisodeSeeds:
    """Turns the seeds that RLlib gives into seeds of episodes, for labs that RLlib resets together."""

    def __init__(self, stream: Sequence[int]) -> None:
        """`stream`: numbers that distinguish these labs from all others of this training and of other trainings."""
        self._stream = tuple(stream)
        self._begun: int | None = None

    def take(self, seed: int | None, labs: int) -> list[int] | None:
        """Returns a seed for each lab. None: each lab goes on with its next episode, also if the same seed is given again."""
        if seed is None or seed == self._begun:
            return None
        self._begun = seed
        return [seed_of((*self._stream, seed, lab)) for lab in range(labs)]


class TrainingSeeds(gymnasium.vector.VectorWrapper):
    """The labs of a training. No two labs of this training, of its other runners or of other trainings have the same episodes."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], stream: Sequence[int]) -> None:
        super().__init__(env)
        self._series = EpisodeSeeds(stream)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        seeds: Any = self._series.take(seed, self.num_envs)
        return self.env.reset(seed=seeds, options=options)


class EvaluationSeeds(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Runs episodes with these seeds, in turn. A reset with a seed, which RLlib does before each round, starts again with the
    first."""

    def __init__(self, env: gymnasium.Env[Any, Any], seeds: Sequence[int]) -> None:
        super().__init__(env)
        self._seeds, self._next = tuple(seeds), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._next = 0
        episode_seed = self._seeds[self._next % len(self._seeds)]
        self._next += 1
        return self.env.reset(seed=episode_seed, options=options)
