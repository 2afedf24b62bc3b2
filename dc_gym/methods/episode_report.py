# SPDX-License-Identifier: Apache-2.0
"""Reports a training's progress after each episode, on the terminal and to TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import tensorboard
from dc_gym.base.progress import Progress, short_time

EVENTS = "tensorboard"
"""The folder of TensorBoard's events in a training's folder."""


class EpisodeReport:
    """The report of one training. Its curve has `decisions`, `reward` and `error`, a row for each episode."""

    def __init__(
        self, curve: Callable[[], npt.NDArray[np.void]], episodes: int, out: Path, progress: Progress, window: int
    ) -> None:
        """`curve` returns the rows so far; the training ends with `episodes` of them. Means are over the last `window` rows."""
        self._curve, self._episodes, self._progress, self._shown = curve, episodes, progress, window
        self._begun, self._first = time.monotonic(), len(curve())
        self._events = tensorboard.Events(out / EVENTS)
        for number in range(self._first):
            self._add(number)
        progress.phase("train")

    def _add(self, number: int) -> None:
        row = self._curve()[number]
        self._events.add(number + 1, {f"train/{name}": float(row[name]) for name in row.dtype.names or ()})

    def facts(self) -> dict[str, Any]:
        """Returns the length of the training, for its manifest."""
        wall_s = round(time.monotonic() - self._begun, 1)
        return {"decisions": int(self._curve()["decisions"].sum()), "wall_s": wall_s, "resumed_at_episode": self._first}

    def __call__(self) -> None:
        """Reports the last episode."""
        curve, episodes = self._curve(), self._episodes
        self._add(len(curve) - 1)
        left = (episodes - len(curve)) * (time.monotonic() - self._begun) / (len(curve) - self._first)
        recent = curve[-self._shown :]
        state = f"reward {recent['reward'].mean():.3f}, error {recent['error'].mean():.3f}, {short_time(left)} to go"
        self._progress.advance(len(curve), episodes, f"episode {len(curve)} of {episodes}: {state}")
