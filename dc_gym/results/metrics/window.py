# SPDX-License-Identifier: Apache-2.0
"""The part of a run that metrics cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.results.tables import STATUSES, Records
from dc_gym.spec import RecordedSpec, Spec

EDGE = 0.001  # a flow may miss this share of the window at either end and still counts as active throughout
FAILED = STATUSES.index("failed")


@dataclass(frozen=True, slots=True)
class Window:
    """The time window [start_ns, stop_ns) of a run."""

    start_ns: int
    stop_ns: int

    @classmethod
    def of(cls, spec: Spec | RecordedSpec) -> Window:
        """Returns the window from the end of the warm-up to the end of the run."""
        return cls(spec.time.warmup_ns, spec.time.duration_ns)

    @property
    def length_ns(self) -> int:
        return self.stop_ns - self.start_ns

    def holds(self, t_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Returns a mask of the times that lie in the window."""
        return (t_ns >= self.start_ns) & (t_ns < self.stop_ns)

    def spans(self, t_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Returns a mask of the times in the window or at its end: those between which counters are compared."""
        return (t_ns >= self.start_ns) & (t_ns <= self.stop_ns)


def active_throughout(flows: Records, begins_ns: npt.ArrayLike, ends_ns: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Returns as [flows, intervals] which flows were active in a whole interval, except for up to a thousandth of it at either
    end."""
    begins, ends = np.atleast_1d(np.asarray(begins_ns, np.float64)), np.atleast_1d(np.asarray(ends_ns, np.float64))
    slack_ns = (ends - begins) * EDGE
    start, end = flows["start_ns"][:, None], flows["end_ns"][:, None]
    begun = (start >= 0) & (start <= begins + slack_ns)
    lasted = (end < 0) | (end >= ends - slack_ns)
    active: npt.NDArray[np.bool_] = begun & lasted & (flows["status"] != FAILED)[:, None]
    return active
