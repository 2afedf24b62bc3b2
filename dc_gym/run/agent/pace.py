# SPDX-License-Identifier: Apache-2.0
"""The timing of an agent on a real clock: the intervals between the frames that it was given, and the steps that it missed."""

from __future__ import annotations

import numpy as np


class AgentTiming:
    """The agent's timing in one episode."""

    def __init__(self) -> None:
        self.interval_ns = 0
        """Wall time between the last two frames; 0 after a single frame."""
        self.missed = 0
        """Steps between the last two frames for which the agent was too late."""
        self._intervals_ns: list[int] = []
        self._all_missed = 0
        self._last: tuple[int, int] | None = None

    def add(self, step: int, now_ns: int) -> None:
        """Records that the frame of `step` was given to the agent at `now_ns`."""
        if self._last is not None:
            before, then_ns = self._last
            self.interval_ns, self.missed = now_ns - then_ns, step - before - 1
            self._intervals_ns.append(self.interval_ns)
            self._all_missed += self.missed
        self._last = step, now_ns

    def step(self) -> dict[str, float]:
        """Returns the entries for the info of a step."""
        return {"interval_s": self.interval_ns / 1e9, "missed": float(self.missed)}

    def totals(self) -> dict[str, float]:
        """Returns the totals of the episode so far."""
        intervals_s = np.array(self._intervals_ns or [0]) / 1e9
        return {
            "interval_mean_s": float(intervals_s.mean()),
            "interval_p99_s": float(np.percentile(intervals_s, 99)),
            "interval_max_s": float(intervals_s.max()),
            "missed": float(self._all_missed),
        }
