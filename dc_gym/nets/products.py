# SPDX-License-Identifier: Apache-2.0
"""Products of matrices whose terms are added in order, without BLAS, so that every machine gives the same bits."""

from __future__ import annotations

import numpy as np

from dc_gym.nets.fixed_point import Floats


def product(weight: Floats, inputs: Floats) -> Floats:
    """Returns weight @ inputs, with the terms added in order."""
    total = weight[:, 0, None] * inputs[0]
    for column in range(1, weight.shape[1]):
        total += weight[:, column, None] * inputs[column]
    return np.asarray(total)


def outer(left: Floats, right: Floats) -> Floats:
    """Returns left @ right.T, summed over rows."""
    return np.stack([(left * row).sum(axis=1) for row in right], axis=1)
