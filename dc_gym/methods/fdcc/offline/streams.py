# SPDX-License-Identifier: Apache-2.0
"""The replay of FDCC's training: the last decisions of many flows, from which sequences of one flow each are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.methods.fdcc.net import OBSERVATIONS
from dc_gym.methods.fdcc.offline.episodes import CENTRAL, Streams
from dc_gym.nets.lstm_cell import MEMORY

Rows = npt.NDArray[np.intp]
DRAWS = 1000
"""Draws without enough sequences after which there are none."""


class StreamReplay:
    """A ring of decisions. When it is full, new ones take the place of the oldest."""

    def __init__(self, capacity: int) -> None:
        widths = {"observed": (len(OBSERVATIONS),), "central": (CENTRAL,), "memory": (MEMORY,)}
        self._held = Streams(
            *(
                np.zeros((capacity, *widths.get(column.name, ())), np.int32 if column.name == "place" else np.float32)
                for column in fields(Streams)
            )
        )
        self.capacity, self.added = capacity, 0

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, new: Streams) -> None:
        """Adds decisions, in order."""
        count = min(len(new), self.capacity)
        places = (self.added + np.arange(len(new) - count, len(new))) % self.capacity
        for column in fields(Streams):
            getattr(self._held, column.name)[places] = getattr(new, column.name)[len(new) - count :]
        self.added += len(new)

    def draw(self, random: np.random.Generator, count: int, length: int) -> Rows:
        """Returns `count` sequences of `length` decisions of one flow each, as rows counted from the oldest one, [length,
        count]."""
        starts = np.zeros(0, np.intp)
        span = len(self) - length + 1
        for _ in range(DRAWS):
            if len(starts) >= count or span < 1:
                break
            first = random.integers(span, size=2 * count)
            whole = self._at("place", first + length - 1) - self._at("place", first) == length - 1
            starts = np.concatenate([starts, first[whole]])
        if len(starts) < count:
            raise AgentError(f"no flow decides {length} times in an episode; give more --steps")
        return np.asarray(starts[:count] + np.arange(length)[:, None])

    def _at(self, name: str, rows: Rows) -> Any:
        oldest = self.added - len(self)
        return getattr(self._held, name)[(oldest + rows) % self.capacity]

    def rows(self, rows: Rows) -> Streams:
        """Returns the decisions of these rows, in arrays of their shape."""
        return Streams(*(self._at(column.name, rows) for column in fields(Streams)))

    def histories(self, rows: Rows, history: int) -> npt.NDArray[np.float32]:
        """Returns the last `history` observations at these decisions, the newest first; zeros before a flow's first one.

        [..., history * 8]
        """
        before = np.arange(history)
        past = np.maximum(rows[..., None] - before, 0)
        there = (self._at("place", rows)[..., None] >= before) & (rows[..., None] >= before)
        observations = np.where(there[..., None], self._at("observed", past), np.float32(0.0))
        return np.asarray(observations.reshape(*rows.shape, -1))

    def arrays(self, prefix: str) -> dict[str, Any]:
        """Returns everything in it as arrays by name."""
        held = np.arange(len(self))
        return {f"{prefix}{column.name}": self._at(column.name, held) for column in fields(Streams)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any], prefix: str, capacity: int) -> Self:
        """Returns a replay that goes on from `arrays`. Raises KeyError or AgentError if they do not belong to a replay."""
        replay, streams = cls(capacity), Streams(*(np.asarray(arrays[f"{prefix}{column.name}"]) for column in fields(Streams)))
        for column in fields(Streams):
            array, held_array = getattr(streams, column.name), getattr(replay._held, column.name)
            if array.shape != (len(streams), *held_array.shape[1:]) or array.dtype != held_array.dtype:
                raise AgentError(f"its replay's {column.name} has the shape {array.shape} of {array.dtype}")
        replay.add(streams)
        return replay
