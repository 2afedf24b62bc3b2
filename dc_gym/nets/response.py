# SPDX-License-Identifier: Apache-2.0
"""How RL-CC's published policy answers, as far as it is on record, and a smooth curve through it.

Errors are in scaled targets here: -1 is the least there is (no queue at all), 0 on target. Two sources:
- PAPER: Table VI of Fuhrer et al. 2023 (rows: the previous state, columns: the current one; two digits).
- CELLS and STEADY: what the network of the paper's public artifact (git benja263/rl-cc) answers to the same nine situations, and
  to an error that stays (with actions of 1 before it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dc_gym.nets.decision import Floats, action, output

STATES = ("under-utilized", "on target", "congested")
PAPER = ((1.05, 0.92, 0.89), (1.1, 1.0, 0.9), (1.15, 1.07, 0.94))
CELLS = ((1.050, 0.925, 0.885), (1.101, 1.004, 0.911), (1.144, 1.052, 0.941))
STEADY = ((-1.0, 1.049), (-0.5, 1.027), (0.0, 1.0044), (0.1, 0.9998), (1.0, 0.942), (2.0, 0.898), (5.0, 0.839))
OFFSET = 0.095
"""Where the artifact's network rests: at this error, so that eq. 2 holds for a target larger by this part."""
AT_REST = 10.0
"""Weight of the records within 0.1 of the target; the others have 1. They set the offset."""
RIDGE = 1e-4
ROUND = 0.5
"""Errors over which the curve's bends are spread."""


@dataclass(frozen=True, slots=True)
class Record:
    """One answer on record."""

    before: float
    """Error of the decision before, in scaled targets."""
    now: float
    action: float
    weight: float

    @property
    def sum(self) -> float:
        """What goes into tanh for it; rounded, so that no library's last digit matters."""
        return round(math.atanh(float(output(self.action))), 6)


def records() -> tuple[Record, ...]:
    """All of them."""
    nine = [(o, n, CELLS[o + 1][n + 1]) for o in (-1, 0, 1) for n in (-1, 0, 1)]
    steady = [(error, error, factor) for error, factor in STEADY]
    return tuple(Record(o, n, a, AT_REST if abs(o) <= 0.1 and abs(n) <= 0.1 else 1.0) for o, n, a in [*nine, *steady])


def bend(z: Floats) -> Floats:
    """max(z, 0), rounded off; 0 at 0."""
    return np.asarray((z + np.sqrt(z * z + ROUND * ROUND) - ROUND) / 2)


def terms(before: Floats, now: Floats) -> list[Floats]:
    """What the curve is a sum of: planes, and bends where a ReLU network may have some."""
    one = np.ones_like(now)
    return [one, now, before, bend(now), bend(before), bend(now - before), bend(now + before), bend(now + before - 1)]


@dataclass(frozen=True, slots=True)
class Response:
    """The curve: sums before tanh, by the errors of two decisions."""

    factors: tuple[float, ...]

    def sums(self, before: Floats, now: Floats) -> Floats:
        """For errors in scaled targets."""
        total = np.zeros_like(now)
        for factor, term in zip(self.factors, terms(before, now), strict=True):
            total = total + factor * term
        return total

    def actions(self, before: Floats, now: Floats) -> Floats:
        """Likewise, as factors of the rate."""
        return action(np.tanh(self.sums(before, now)))


def fitted() -> Response:
    """Least squares in actions (linearized at each record), ridge against what so few records leave open."""
    points = records()
    rows = np.stack(terms(np.array([p.before for p in points]), np.array([p.now for p in points])), axis=1)
    slope = np.array([(1.0 - round(float(output(p.action)), 9) ** 2) * min(1.0, p.action) ** 2 for p in points])
    scale = slope * np.sqrt(np.array([p.weight for p in points]))
    goal = scale * np.array([p.sum for p in points])
    a = [[float(value) for value in row] for row in rows * scale[:, None]]
    size = len(a[0])
    matrix = [[sum(row[i] * row[j] for row in a) + (RIDGE if i == j else 0.0) for j in range(size)] for i in range(size)]
    right = [sum(row[i] * float(g) for row, g in zip(a, goal, strict=True)) for i in range(size)]
    return Response(tuple(solve(matrix, right)))


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss-Jordan with row pivots: a few numbers, and the same bits on every machine, which LAPACK does not promise."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(len(rows)):
        pivot = max(range(k, len(rows)), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i, row in enumerate(rows):
            if i != k:
                part = row[k] / rows[k][k]
                rows[i] = [value - part * other for value, other in zip(row, rows[k], strict=True)]
    return [row[-1] / row[i] for i, row in enumerate(rows)]
