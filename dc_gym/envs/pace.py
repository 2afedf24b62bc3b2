# SPDX-License-Identifier: Apache-2.0
"""How an agent keeps up with a real clock: the intervals between the frames that it was given, and the steps that it missed."""

from __future__ import annotations

import numpy as np


class Pace:
    """Of one episode."""

    def __init__(self) -> None:
        self.interval_ns = 0
        """Between the last two frames; 0: there was one."""
        self.missed = 0
        """Steps between the last two frames that the agent was too late for."""
        self._intervals_ns: list[int] = []
        self._all_missed = 0
        self._last: tuple[int, int] | None = None

    def add(self, step: int, now_ns: int) -> None:
        """A frame, of this step and given at this moment."""
        if self._last is not None:
            before, then_ns = self._last
            self.interval_ns, self.missed = now_ns - then_ns, step - before - 1
            self._intervals_ns.append(self.interval_ns)
            self._all_missed += self.missed
        self._last = step, now_ns

    def step(self) -> dict[str, float]:
        """For the info of a step."""
        return {"interval_s": self.interval_ns / 1e9, "missed": float(self.missed)}

    def totals(self) -> dict[str, float]:
        """Of the episode so far."""
        intervals_s = np.array(self._intervals_ns or [0]) / 1e9
        return {
            "interval_mean_s": float(intervals_s.mean()),
            "interval_p99_s": float(np.percentile(intervals_s, 99)),
            "interval_max_s": float(intervals_s.max()),
            "missed": float(self._all_missed),
        }
