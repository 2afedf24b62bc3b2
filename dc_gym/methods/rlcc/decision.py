# SPDX-License-Identifier: Apache-2.0
"""RL-CC's decision problem (Fuhrer et al. 2023) in floats, on arrays: a flow's observation, action and reward.

nic/rlcc.h has the same in integers. Inflation is RTT / base RTT. Rates are fractions of the line rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.nets.fixed_point import Q16, Floats

INPUTS = ("a_old", "e_old", "a_new", "e_new")
"""A policy's inputs, oldest first: the previous decision's action and error, then this one's. a_new is the latest action."""
MAX_ACTION = 1.2
"""Largest factor of a decision; the smallest is its inverse."""
MIN_RATE = 2.0**-14


@dataclass(frozen=True, slots=True)
class Scaling:
    """The scaling from a flow's measurements to its policy's inputs.

    The defaults are RL-CC's, with the published artifact's gain.
    """

    target: float = 0.064
    """Target of (inflation - beta) sqrt(rate)."""
    beta: float = 1.5
    """Inflation up to this value does not count."""
    gain: float = 12.0
    """Gain of the error. The artifact's network sees a target of 0.768 = 12 x 0.064."""
    max_error: float = 100.0
    """The error is clipped at plus and minus this many scaled targets. The artifact was distilled up to 100."""

    @property
    def unit(self) -> float:
        """The target as the policy sees it."""
        return self.gain * self.target

    @property
    def limit(self) -> float:
        """The value at which the error is clipped."""
        return self.max_error * self.unit

    def table_words(self) -> list[int]:
        """Returns the words of a table's head."""
        return [round(value * Q16) for value in (self.target, self.beta, self.gain, self.limit)]

    def describe(self) -> str:
        return f"target {self.target:g}, beta {self.beta:g}, gain {self.gain:g}"

    def delta(self, inflation: npt.ArrayLike, rate: npt.ArrayLike) -> Floats:
        """Returns target - max(inflation - beta, 0) sqrt(rate), RL-CC's eq. 4. The reward is -delta^2 (eq. 1)."""
        excess = np.maximum(np.asarray(inflation, np.float64) - self.beta, 0.0)
        return np.asarray(self.target - excess * np.sqrt(np.asarray(rate, np.float64)))

    def error(self, inflation: npt.ArrayLike, rate: npt.ArrayLike) -> Floats:
        """Returns the error that the policy sees. Below 0 the path is under-utilized."""
        return np.asarray(np.clip(-self.gain * self.delta(inflation, rate), -self.limit, self.limit))

    def reward(self, error: npt.ArrayLike, max_error: float = 10.0) -> Floats:
        """Returns -(delta / target)^2 (RL-CC's eq. 1, in targets) for errors as a policy sees them.

        Delta counts up to `max_error` targets: a full queue gives hundreds of targets, whose square would outweigh all others.
        """
        return np.asarray(-(np.minimum(np.abs(np.asarray(error, np.float64) / self.unit), max_error) ** 2))

    def inflation(self, flows: npt.ArrayLike, offset: float = 0.0) -> Floats:
        """Returns the inflation at which flows with equal shares settle, eq. 2: target sqrt(N) + beta.

        `offset`: the policy's own, see response.OFFSET.
        """
        return np.asarray(self.target * (1.0 + offset) * np.sqrt(np.asarray(flows, np.float64)) + self.beta)


def action(output: npt.ArrayLike) -> Floats:
    """Returns the factor for a network's output o in -1..1: 1 + 0.2 o, or 1 / (1 - 0.2 o) below 0."""
    o, span = np.asarray(output, np.float64), MAX_ACTION - 1.0
    return np.asarray(np.where(o >= 0, 1.0 + span * o, 1.0 / (1.0 - span * np.minimum(o, 0.0))))


def action_slope(output: Floats) -> Floats:
    """Returns the factor's derivative with respect to the sum whose tanh is the output."""
    acted = action(output)
    return np.asarray((MAX_ACTION - 1.0) * (1.0 - output * output) * np.where(output >= 0, 1.0, acted * acted))


def output(factor: npt.ArrayLike) -> Floats:
    """Returns the output for a factor; the inverse of `action`."""
    a, span = np.asarray(factor, np.float64), MAX_ACTION - 1.0
    return np.asarray(np.where(a >= 1, (a - 1.0) / span, (1.0 - 1.0 / a) / span))


def cells(unit: float) -> Floats:
    """Returns the nine situations of Table VI as inputs [previous, current, 4]; the states are under-utilized, on target,
    congested.

    As in the artifact, the action beside an error of -T or T is 1.1 in both cases.
    """
    states = ((1.1, -unit), (1.0, 0.0), (1.1, unit))
    return np.array([[[*before, *now] for now in states] for before in states])
