# SPDX-License-Identifier: Apache-2.0
"""Which episodes a training has, and which an evaluation: RLlib seeds its runners alike, and labs would be one another's twins.

RLlib gives runner i the seed s + i, its vectors and Gymnasium's give lab j of it s + i + j; before each round of whole episodes
RLlib gives the same seed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

FIRST_DRAWN = 2**40
"""Episodes of a training have seeds from here on, far above those of evaluations."""


def seed_of(numbers: Sequence[int]) -> int:
    """One for these numbers, and another for any others."""
    return FIRST_DRAWN + int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) // 4


class Series:
    """What the seeds that RLlib gives come to, for some labs that it resets together."""

    def __init__(self, stream: Sequence[int]) -> None:
        """`stream`: numbers that tell these labs from all others of this training, and of other trainings."""
        self._stream = tuple(stream)
        self._begun: int | None = None

    def take(self, seed: int | None, labs: int) -> list[int] | None:
        """A seed for each lab; None: each goes on with its next episode, as it does when a seed is given again."""
        if seed is None or seed == self._begun:
            return None
        self._begun = seed
        return [seed_of((*self._stream, seed, lab)) for lab in range(labs)]


class Streams(gymnasium.vector.VectorWrapper):
    """Labs of a training: no two of them, nor of its runners or of other trainings, have the same episodes."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], stream: Sequence[int]) -> None:
        super().__init__(env)
        self._series = Series(stream)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        seeds: Any = self._series.take(seed, self.num_envs)
        return self.env.reset(seed=seeds, options=options)


class HeldOut(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Episodes with these seeds, in turn; a reset with a seed, which RLlib does before each round, begins with the first."""

    def __init__(self, env: gymnasium.Env[Any, Any], seeds: Sequence[int]) -> None:
        super().__init__(env)
        self._seeds, self._next = tuple(seeds), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._next = 0
        own = self._seeds[self._next % len(self._seeds)]
        self._next += 1
        return self.env.reset(seed=own, options=options)
