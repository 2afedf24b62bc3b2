# SPDX-License-Identifier: Apache-2.0
"""FDCC's policy as oblivious trees of depth 4 (fdcc-tree.h), over the eight inputs of its network. They remember nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dc_gym.methods.fdcc.net import OBSERVATIONS
from dc_gym.nets.fixed_point import Q16, Floats
from dc_gym.nets.trees import Integers, ObliviousTrees, integer_sums


@dataclass(frozen=True, slots=True)
class FdccTrees(ObliviousTrees):
    """FDCC's trees. Inputs are [..., 8], as fdcc.to_inputs returns them. The output is o, in -1..1."""

    KIND: ClassVar[str] = "fdcc-tree"
    AT_ZERO: ClassVar[tuple[float, ...]] = (0.0,) * len(OBSERVATIONS)
    RANGE: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    @property
    def memory(self) -> int:
        """The count of numbers that the trees store for each flow: none."""
        return 0

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns outputs o [flows] for inputs [flows, 8], and the memory as it was, as FdccNet.step does."""
        return self(inputs), memory


def integer_outputs(body: npt.ArrayLike, bias: int, inputs_q16: npt.ArrayLike) -> Integers:
    """Returns outputs o in Q16 from a table's body for inputs [rows, 8] in Q16, bit for bit as fdcc-tree.h computes them."""
    return np.asarray(np.clip(integer_sums(body, bias, inputs_q16), -Q16, Q16))
