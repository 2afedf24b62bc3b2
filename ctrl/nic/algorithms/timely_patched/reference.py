# SPDX-License-Identifier: Apache-2.0
"""Patched TIMELY in floating point. timely-patched.h is tested against it."""

from __future__ import annotations

from dc_gym.ctrl.nic.algorithms.timely.reference import Timely
from dc_gym.ctrl.nic.events import NicFlow
from dc_gym.ctrl.nic.reference import Bound, FloatReference


class TimelyPatched(Timely):
    """Zhu et al., CoNEXT 2016."""

    def _below(self) -> None:
        self._rate += self._delta

    def _between(self, gradient: float, rtt_ns: int, flow: NicFlow) -> None:
        """R = d (1 - w) + R (1 - b w err)"""
        reference = self._time("rtt_ref", flow)
        weight = max(0.0, min(1.0, 2 * gradient + 0.5))
        error = (rtt_ns - reference) / max(1.0, reference)
        self._rate = self._delta * (1 - weight) + self._rate * max(0.0, 1 - self._beta * weight * error)


REFERENCE = FloatReference(TimelyPatched, Bound(4, 0))
