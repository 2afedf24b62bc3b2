# SPDX-License-Identifier: Apache-2.0
"""From the decisions that a lab hands out to what eq. 3 needs: what a policy saw, and what came of it `later` decisions on.

A flow's decisions are its own: what it saw is in the first words of the context that comes with each (ctrl/nic/rlcc.h).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dc_gym.ctrl.nic.observation import Q16, Floats
from dc_gym.repeat.digest import NIC_EVENTS
from dc_gym.rlcc.data_path import Rows
from dc_gym.run.nics import LINE_RATE, STEP_DTYPE

LEAST_RATE = 1 << 6
"""CC_MIN_RATE of ctrl/nic/cc.h."""
RTT = NIC_EVENTS.index("rtt")
KEPT = np.array([Q16, 0, Q16, 0])
"""Actions are kept less 1."""


def inputs(rows: Rows) -> Floats:
    """[rows, 4] in the order of observation.INPUTS."""
    return np.asarray((rows["state"][:, :4].view("<i4") + KEPT) / Q16)


def decisions(rows: Rows) -> Rows:
    """Those of a policy when a probe came back; cuts while one is overdue (rlcc_overdue of rlcc.h) are left out."""
    found: Rows = rows[rows["event"] == RTT]
    return found


@dataclass(slots=True)
class Histories:
    """Of the flows of one lab's episode."""

    later: int
    _waiting: Rows = field(default_factory=lambda: np.zeros(0, STEP_DTYPE))
    """Each flow's latest decisions, whose consequences are not known yet."""

    def add(self, rows: Rows) -> tuple[Floats, Floats]:
        """More decisions in the order of their times: what policies saw [n, 4], and the errors [n] of `later` decisions on.

        The answer is ordered by flow, then by time. What would have a flow at the line's rate raise, or one at the least rate
        cut, has no part: it would change nothing, so its gradient is zero. Flows that their own NIC holds back, as in all to all,
        would else teach a policy for ever to raise. What would have a flow at the line's rate cut does have a part, or random
        weights that raise whatever they see would never learn.
        """
        both = np.concatenate([self._waiting, decisions(rows)])
        both = both[np.argsort(both["flow"], kind="stable")]
        flow = both["flow"]
        place = np.flatnonzero(flow[: -self.later] == flow[self.later :])
        errors = inputs(both[place + self.later])[:, 3]
        rate = both["rate"][place]
        free = ~((rate >= LINE_RATE) & (errors < 0) | (rate <= LEAST_RATE) & (errors > 0))
        self._waiting = np.delete(both, place)
        return inputs(both[place[free]]), errors[free]
