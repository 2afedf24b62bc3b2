# SPDX-License-Identifier: Apache-2.0
"""PowerTCP in floating point. powertcp.h is tested against it."""

from __future__ import annotations

from dc_gym.ctrl.nic.events import NicFlow
from dc_gym.ctrl.nic.reference import LINE, Bound, FloatReference, Parameters
from dc_gym.ctrl.nic.reference_telemetry import MOST, PortSpan, TelemetryWindow


class PowerTcp(TelemetryWindow):
    """Addanki et al., NSDI 2022, algorithm 1."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._old = LINE

    def _load(self, port: PortSpan, flow: NicFlow) -> float:
        arrived = max(0, port.sent_bytes + port.queue_bytes - port.before_bytes)
        current = max(self._p["current_min"] / 2**20, port.share(arrived, port.time_ns))
        return min(MOST, current * (1 + port.share(port.queue_bytes, flow.base_rtt_ns)))

    def _next(self, once: bool) -> float:
        gamma, last = self._p["gamma"] / 2**16, self._old if self._p["last_old"] else self._window
        aimed = self._old * self._p["target"] / 2**20 / max(2.0**-20, self._mean)
        beta = self._p["beta"] / 2**26 or 1 / self._p["flows"]
        return gamma * (min(2.0, aimed) + beta) + (1 - gamma) * last

    def _step(self) -> None:
        self._old = self._window


REFERENCE = FloatReference(PowerTcp, Bound(16, 0.003))
