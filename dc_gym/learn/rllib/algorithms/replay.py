# SPDX-License-Identifier: Apache-2.0
"""A replay buffer of single transitions in arrays, with n-step returns.

It samples uniformly (Lin 1992) or by priority (Schaul et al. 2016, section 3.3). RLlib's buffers keep episodes. A batch of 128
transitions is then 128 small episodes, which connectors turn into columns again: this takes 15 ms, where the update itself takes
1 ms. Here a batch is one indexing operation for each column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

WEIGHTS, N_STEP = "weights", "n_step"
"""Columns that RLlib's learners expect under these names."""

Array = npt.NDArray[Any]


@dataclass(slots=True)
class Transitions:
    """A ring buffer of transitions. The oldest are overwritten first."""

    capacity: int
    columns: dict[str, Array] = field(default_factory=dict)
    priorities: Array = field(default_factory=lambda: np.empty(0))
    """The priorities to the power of alpha."""
    size: int = 0
    _next: int = 0
    _most: float = 1.0
    """The highest priority so far; new transitions get it."""

    def __post_init__(self) -> None:
        self.priorities = np.zeros(self.capacity)

    def add(self, rows: Mapping[str, Array]) -> None:
        count = len(rows[Columns.REWARDS])
        places = (self._next + np.arange(count)) % self.capacity
        for name, values in rows.items():
            if name not in self.columns:
                self.columns[name] = np.zeros((self.capacity, *values.shape[1:]), values.dtype)
            self.columns[name][places] = values
        self.priorities[places] = self._most
        self._next, self.size = int(places[-1] + 1) % self.capacity, min(self.size + count, self.capacity)

    def uniform(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Draws places uniformly. Returns places and weights."""
        return rng.integers(self.size, size=count), np.ones(count, np.float32)

    def prioritized(self, rng: np.random.Generator, count: int, beta: float) -> tuple[Array, Array]:
        """Draws places by priority. Returns places and weights; the weights, at most 1, correct for transitions that are drawn
        more often."""
        known = self.priorities[: self.size]
        sums = np.cumsum(known)
        places = np.searchsorted(sums, rng.random(count) * sums[-1], side="right").clip(max=self.size - 1)
        return places, ((known[places] / known.min()) ** -beta).astype(np.float32)

    def prioritize(self, places: Array, priorities: Array) -> None:
        self.priorities[places] = priorities
        self._most = max(self._most, float(priorities.max()))


class Replay:
    """The replay buffers of all modules that learn. A policy that several agents share has one buffer."""

    def __init__(self, capacity: int, n_step: int, gamma: float, alpha: float = 0.0, beta: float = 0.0) -> None:
        self.rng = np.random.default_rng()
        self._capacity, self._n_step, self._gamma, self._alpha, self._beta = capacity, n_step, gamma, alpha, beta
        self._rings: dict[str, Transitions] = {}
        self._open: dict[tuple[Any, Any], Mapping[str, Array]] = {}
        """The last steps of each episode, whose n-step returns are not complete yet."""

    def add(self, episodes: Sequence[Any]) -> int:
        """Adds sampled pieces of episodes. Returns their number of environment steps."""
        for episode in episodes:
            for module, piece in pieces(episode):
                self._add(module, piece)
        return sum(len(episode) for episode in episodes)

    def _add(self, module: str, piece: Any) -> None:
        key = (piece.id_, piece.agent_id)
        steps = steps_of(piece)
        if before := self._open.pop(key, None):
            steps = {name: np.concatenate([before[name], values]) for name, values in steps.items()}
        count = len(steps[Columns.REWARDS])
        whole = count if piece.is_done else count - self._n_step + 1
        if whole > 0:
            ring = self._rings.setdefault(module, Transitions(self._capacity))
            ring.add(bundled(steps, whole, self._n_step, self._gamma))
        if not piece.is_done and self._n_step > 1:
            self._open[key] = {name: values[max(whole, 0) :] for name, values in steps.items()}

    def sample(self, count: int) -> dict[str, tuple[Array, dict[str, Array]]]:
        """Returns, for each module, places and columns."""
        return {module: self._sample(ring, count) for module, ring in self._rings.items() if ring.size}

    def _sample(self, ring: Transitions, count: int) -> tuple[Array, dict[str, Array]]:
        drawn = ring.prioritized(self.rng, count, self._beta) if self._alpha else ring.uniform(self.rng, count)
        places, weights = drawn
        return places, {name: values[places] for name, values in ring.columns.items()} | {WEIGHTS: weights}

    def prioritize(self, module: str, places: Array, errors: Array) -> None:
        """Sets the priorities at these places from the positive errors of a module's learner."""
        if self._alpha:
            self._rings[module].prioritize(places, np.asarray(errors, float) ** self._alpha)


def pieces(episode: Any) -> Iterator[tuple[str, Any]]:
    """Yields module and steps of each agent."""
    for piece in getattr(episode, "agent_episodes", {"": episode}).values():
        if len(piece):
            yield piece.module_id or DEFAULT_MODULE_ID, piece


def steps_of(piece: Any) -> dict[str, Array]:
    """Returns the transitions of a piece, over one step each."""
    observations = np.asarray(piece.get_observations())
    ended = np.zeros(len(piece), bool)
    ended[-1] = piece.is_terminated
    return {
        Columns.OBS: observations[:-1],
        Columns.ACTIONS: np.asarray(piece.get_actions()),
        Columns.REWARDS: np.asarray(piece.get_rewards(), np.float32),
        Columns.NEXT_OBS: observations[1:],
        Columns.TERMINATEDS: ended,
    }


def bundled(steps: Mapping[str, Array], whole: int, n_step: int, gamma: float) -> dict[str, Array]:
    """Returns the first `whole` transitions over n steps each, or fewer steps where the episode ends earlier."""
    total = len(steps[Columns.REWARDS])
    last = np.minimum(np.arange(whole) + n_step, total) - 1
    rewards = np.zeros(whole, np.float32)
    for ahead in range(min(n_step, total)):
        counts = min(whole, total - ahead)
        rewards[:counts] += np.float32(gamma**ahead) * steps[Columns.REWARDS][ahead : ahead + counts]
    return {
        Columns.OBS: steps[Columns.OBS][:whole],
        Columns.ACTIONS: steps[Columns.ACTIONS][:whole],
        Columns.REWARDS: rewards,
        Columns.NEXT_OBS: steps[Columns.NEXT_OBS][last],
        Columns.TERMINATEDS: steps[Columns.TERMINATEDS][last],
        N_STEP: (last - np.arange(whole) + 1).astype(np.float32),
    }
