# SPDX-License-Identifier: Apache-2.0
"""RL-CC's oblivious trees over four inputs, as nic/rlcc_tree/rlcc-tree.h runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dc_gym.methods.rlcc.decision import MAX_ACTION
from dc_gym.nets.fixed_point import Q16
from dc_gym.nets.trees import Integers, ObliviousTrees, integer_sums


@dataclass(frozen=True, slots=True)
class Trees(ObliviousTrees):
    """RL-CC's trees. Inputs are [..., 4] in the order of decision.INPUTS; actions are stored less 1. The output is the action."""

    KIND: ClassVar[str] = "tree"
    AT_ZERO: ClassVar[tuple[float, ...]] = (1.0, 0.0, 1.0, 0.0)
    RANGE: ClassVar[tuple[float, float]] = (1.0 / MAX_ACTION, MAX_ACTION)


def integer_actions(body: npt.ArrayLike, bias: int, inputs_q16: npt.ArrayLike) -> Integers:
    """Returns actions Q16 from a table's body for inputs [rows, 4] in Q16, bit for bit as rlcc-tree.h computes them."""
    return np.asarray(np.clip(integer_sums(body, bias, np.asarray(inputs_q16, np.int64) - [Q16, 0, Q16, 0]), 54613, 78643))
