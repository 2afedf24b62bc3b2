# SPDX-License-Identifier: Apache-2.0
"""Types of arrays of floats, and the units of numbers in fixed point."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Q16, Q10 = 1 << 16, 1 << 10
