# SPDX-License-Identifier: Apache-2.0
"""A replay: the last transitions of an agent, from which its learner draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Transitions:
    """Some transitions, one a row."""

    states: Floats
    """[rows, inputs]"""
    actions: npt.NDArray[np.int64]
    """[rows]"""
    rewards: Floats
    """[rows]"""
    nexts: Floats
    """[rows, inputs]: the states that followed."""

    def __len__(self) -> int:
        return len(self.rewards)

    def rows(self, chosen: Any) -> Transitions:
        """Returns some of them."""
        return Transitions(self.states[chosen], self.actions[chosen], self.rewards[chosen], self.nexts[chosen])


class Replay:
    """A ring of transitions. When it is full, new ones take the place of the oldest."""

    def __init__(self, capacity: int, inputs: int) -> None:
        self._held = Transitions(
            np.zeros((capacity, inputs)), np.zeros(capacity, np.int64), np.zeros(capacity), np.zeros((capacity, inputs))
        )
        self.capacity, self.added = capacity, 0

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, new: Transitions) -> None:
        """Adds transitions, in order."""
        count = min(len(new), self.capacity)
        places = (self.added + np.arange(len(new) - count, len(new))) % self.capacity
        for column in fields(Transitions):
            getattr(self._held, column.name)[places] = getattr(new, column.name)[len(new) - count :]
        self.added += len(new)

    def since(self, added: int) -> Transitions:
        """Returns the transitions that came after the first `added` ones and are still there, the oldest first."""
        first = max(added, self.added - self.capacity)
        return self._held.rows(np.arange(first, self.added) % self.capacity)

    def draw(self, random: np.random.Generator, count: int, prefer: float = 0.0) -> Transitions:
        """Returns `count` transitions, drawn with replacement.

        A share `prefer` of them is the one with the larger reward of two that were drawn; the others are drawn uniformly.
        """
        oldest = self.added - len(self)  # a draw counts from it, so that it is the same after of_arrays
        first, second = (oldest + random.integers(len(self), size=(2, count))) % self.capacity
        better = self._held.rewards[second] > self._held.rewards[first]
        return self._held.rows(np.where(better & (random.random(count) < prefer), second, first))

    def arrays(self, prefix: str) -> dict[str, Any]:
        """Returns everything in it as arrays by name."""
        held = self.since(0)
        return {f"{prefix}{column.name}": getattr(held, column.name) for column in fields(Transitions)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any], prefix: str, capacity: int) -> Self:
        """Returns a replay with the transitions that `arrays` gave."""
        batch = Transitions(*(np.asarray(arrays[f"{prefix}{column.name}"]) for column in fields(Transitions)))
        if batch.states.ndim != 2 or batch.states.shape != batch.nexts.shape or len(batch.states) != len(batch):
            raise AgentError(f"its replay has the shapes {batch.states.shape} and {batch.nexts.shape}")
        replay = cls(capacity, batch.states.shape[1])
        replay.add(batch)
        return replay
