# SPDX-License-Identifier: Apache-2.0
"""The published responses of RL-CC's policy, and a smooth curve through them.

Errors are in scaled targets: -1 is the least possible (no queue at all), 0 is on target. There are two sources:

- PAPER: Table VI of Fuhrer et al. 2023 (rows: the previous state, columns: the current one; two digits).
- CELLS and STEADY: the answers of the network in the paper's public artifact (git benja263/rl-cc) to the same nine situations,
  and to errors that persist (with actions of 1 before them).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dc_gym.methods.rlcc.decision import action, output
from dc_gym.nets.fixed_point import Floats

STATES = ("under-utilized", "on target", "congested")
PAPER = ((1.05, 0.92, 0.89), (1.1, 1.0, 0.9), (1.15, 1.07, 0.94))
CELLS = ((1.050, 0.925, 0.885), (1.101, 1.004, 0.911), (1.144, 1.052, 0.941))
STEADY = ((-1.0, 1.049), (-0.5, 1.027), (0.0, 1.0044), (0.1, 0.9998), (1.0, 0.942), (2.0, 0.898), (5.0, 0.839))
OFFSET = 0.095
"""The error at which the artifact's network rests. Eq. 2 then holds for a target that is larger by this fraction."""
REST_WEIGHT = 10.0
"""Weight of the records within 0.1 of the target, which set the offset; the others have 1."""
RIDGE = 1e-4
ROUND = 0.5
"""The width, in errors, over which the curve's bends are rounded."""


@dataclass(frozen=True, slots=True)
class Record:
    """One published response."""

    before: float
    """Error of the previous decision, in scaled targets."""
    now: float
    action: float
    weight: float

    @property
    def sum(self) -> float:
        """The sum before tanh that gives this action. It is rounded, since the last digit differs between libraries."""
        return round(math.atanh(float(output(self.action))), 6)


def records() -> tuple[Record, ...]:
    """Returns all published responses."""
    nine = [(o, n, CELLS[o + 1][n + 1]) for o in (-1, 0, 1) for n in (-1, 0, 1)]
    steady = [(error, error, factor) for error, factor in STEADY]
    return tuple(Record(o, n, a, REST_WEIGHT if abs(o) <= 0.1 and abs(n) <= 0.1 else 1.0) for o, n, a in [*nine, *steady])


def soft_relu(z: Floats) -> Floats:
    """Returns a smoothed max(z, 0) that is 0 at 0."""
    return np.asarray((z + np.sqrt(z * z + ROUND * ROUND) - ROUND) / 2)


def terms(before: Floats, now: Floats) -> list[Floats]:
    """Returns the terms whose weighted sum is the curve: planes, and bends where a ReLU network may have some."""
    one = np.ones_like(now)
    return [
        one,
        now,
        before,
        soft_relu(now),
        soft_relu(before),
        soft_relu(now - before),
        soft_relu(now + before),
        soft_relu(now + before - 1),
    ]


@dataclass(frozen=True, slots=True)
class Response:
    """The curve: sums before tanh, as a function of the errors of two decisions."""

    factors: tuple[float, ...]

    def sums(self, before: Floats, now: Floats) -> Floats:
        """Returns the sums for errors in scaled targets."""
        total = np.zeros_like(now)
        for factor, term in zip(self.factors, terms(before, now), strict=True):
            total = total + factor * term
        return total

    def actions(self, before: Floats, now: Floats) -> Floats:
        """Returns the actions, as factors of the rate."""
        return action(np.tanh(self.sums(before, now)))


def fit_response() -> Response:
    """Fits the curve by least squares in actions (linearized at each record), with a ridge because the records are few."""
    points = records()
    rows = np.stack(terms(np.array([p.before for p in points]), np.array([p.now for p in points])), axis=1)
    slope = np.array([(1.0 - round(float(output(p.action)), 9) ** 2) * min(1.0, p.action) ** 2 for p in points])
    scale = slope * np.sqrt(np.array([p.weight for p in points]))
    goal = scale * np.array([p.sum for p in points])
    a = [[float(value) for value in row] for row in rows * scale[:, None]]
    size = len(a[0])
    matrix = [[ordered_sum(row[i] * row[j] for row in a) + (RIDGE if i == j else 0.0) for j in range(size)] for i in range(size)]
    right = [ordered_sum(row[i] * float(g) for row, g in zip(a, goal, strict=True)) for i in range(size)]
    return Response(tuple(solve(matrix, right)))


def ordered_sum(values: Iterable[float]) -> float:
    """Returns the sum, added from left to right. The built-in sum compensates for rounding from Python 3.12 on, not before."""
    return functools.reduce(operator.add, values, 0.0)


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solves a small linear system by Gauss-Jordan with row pivots.

    It gives the same bits on every machine; LAPACK does not promise that.
    """
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(len(rows)):
        pivot = max(range(k, len(rows)), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i, row in enumerate(rows):
            if i != k:
                part = row[k] / rows[k][k]
                rows[i] = [value - part * other for value, other in zip(row, rows[k], strict=True)]
    return [row[-1] / row[i] for i, row in enumerate(rows)]
