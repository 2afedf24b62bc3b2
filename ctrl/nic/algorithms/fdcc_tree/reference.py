# SPDX-License-Identifier: Apache-2.0
"""FDCC with trees in floating point: as with its network (fdcc/reference.py). fdcc-tree.h is tested against it."""

from __future__ import annotations

from dc_gym.ctrl.nic.algorithms.fdcc.reference import BOUND, Fdcc
from dc_gym.ctrl.nic.reference import FloatReference

REFERENCE = FloatReference(Fdcc, BOUND, output_bound=0.001)
"""Each leaf is rounded to Q16."""
