# SPDX-License-Identifier: Apache-2.0
"""RL-CC's decision problem (Fuhrer et al. 2023): what a flow sees, what it may do, what it is rewarded for. In floats, on arrays.

rlcc.h is the same in integers. Inflation is RTT / base RTT, rates are fractions of the line's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
INPUTS = ("a_old", "e_old", "a_new", "e_new")
"""What a policy sees, oldest first: the last decision's action and error, then this one's. a_new is the latest action taken."""
MOST = 1.2
"""Largest factor of a decision; the smallest is its inverse."""
LEAST_RATE = 2.0**-14
Q16, Q10 = 1 << 16, 1 << 10


@dataclass(frozen=True, slots=True)
class Scaling:
    """How what a flow measures becomes what its policy sees. The defaults are RL-CC's, and the published artifact's gain."""

    target: float = 0.064
    """Of (inflation - beta) sqrt(rate)."""
    beta: float = 1.5
    """Inflation that is free."""
    gain: float = 12.0
    """Of the error: the artifact's network sees a target of 0.768 = 12 x 0.064."""
    reach: float = 100.0
    """The error is cut off at plus and minus so many scaled targets; the artifact was distilled up to 100."""

    @property
    def unit(self) -> float:
        """The target as the policy sees it."""
        return self.gain * self.target

    @property
    def limit(self) -> float:
        """Of the error."""
        return self.reach * self.unit

    def delta(self, inflation: npt.ArrayLike, rate: npt.ArrayLike) -> Floats:
        """target - max(inflation - beta, 0) sqrt(rate), RL-CC's eq. 4; the reward is -delta^2 (eq. 1)."""
        excess = np.maximum(np.asarray(inflation, np.float64) - self.beta, 0.0)
        return np.asarray(self.target - excess * np.sqrt(np.asarray(rate, np.float64)))

    def error(self, inflation: npt.ArrayLike, rate: npt.ArrayLike) -> Floats:
        """What the policy sees of it: below 0 the path is under-utilized."""
        return np.asarray(np.clip(-self.gain * self.delta(inflation, rate), -self.limit, self.limit))

    def inflation(self, flows: npt.ArrayLike, offset: float = 0.0) -> Floats:
        """What flows with equal shares settle at, eq. 2: target sqrt(N) + beta. `offset`: of the policy, see response.OFFSET."""
        return np.asarray(self.target * (1.0 + offset) * np.sqrt(np.asarray(flows, np.float64)) + self.beta)


def action(output: npt.ArrayLike) -> Floats:
    """The factor for a network's output in -1..1: 1 + 0.2 o, or 1 / (1 - 0.2 o) below 0."""
    o, span = np.asarray(output, np.float64), MOST - 1.0
    return np.asarray(np.where(o >= 0, 1.0 + span * o, 1.0 / (1.0 - span * np.minimum(o, 0.0))))


def action_slope(output: Floats) -> Floats:
    """Of the factor, by the sum whose tanh the output is."""
    acted = action(output)
    return np.asarray((MOST - 1.0) * (1.0 - output * output) * np.where(output >= 0, 1.0, acted * acted))


def output(factor: npt.ArrayLike) -> Floats:
    """The other way round."""
    a, span = np.asarray(factor, np.float64), MOST - 1.0
    return np.asarray(np.where(a >= 1, (a - 1.0) / span, (1.0 - 1.0 / a) / span))


def cells(unit: float) -> Floats:
    """The nine situations of Table VI as inputs: [previous, current, 4], each under-utilized, on target, congested.

    As the artifact states them: the action beside an error of -T or T is 1.1 in both cases.
    """
    states = ((1.1, -unit), (1.0, 0.0), (1.1, unit))
    return np.array([[[*before, *now] for now in states] for before in states])
