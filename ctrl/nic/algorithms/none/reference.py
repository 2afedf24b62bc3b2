# SPDX-License-Identifier: Apache-2.0
"""The line rate in floating point. none.h is tested against it."""

from __future__ import annotations

from dc_gym.ctrl.nic.algorithms.fixed.reference import FixedRate
from dc_gym.ctrl.nic.reference import Bound, FloatReference

REFERENCE = FloatReference(lambda _: FixedRate({"rate": 2**20}), Bound(0, 0))
