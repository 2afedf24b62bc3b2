# SPDX-License-Identifier: Apache-2.0
"""A constant rate in floating point. fixed.h is tested against it."""

from __future__ import annotations

from dc_gym.ctrl.nic.events import Decision, NicEvent, NicFlow
from dc_gym.ctrl.nic.reference import Bound, FloatReference, Parameters, clamped


class FixedRate:
    """A constant rate."""

    def __init__(self, parameters: Parameters) -> None:
        self._rate = parameters["rate"] / 2**20

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision:
        return Decision(clamped(self._rate), 0.0, False)


REFERENCE = FloatReference(FixedRate, Bound(1, 0))
