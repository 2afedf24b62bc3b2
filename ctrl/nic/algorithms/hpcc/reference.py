# SPDX-License-Identifier: Apache-2.0
"""HPCC in floating point. hpcc.h is tested against it."""

from __future__ import annotations

from dc_gym.ctrl.nic.events import NicFlow
from dc_gym.ctrl.nic.reference import LINE, Bound, FloatReference, Parameters
from dc_gym.ctrl.nic.reference_telemetry import PortSpan, TelemetryWindow


class Hpcc(TelemetryWindow):
    """Li et al., SIGCOMM 2019, algorithm 1."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._reference = LINE
        """W_c"""
        self._stage = 0
        self._cut = False

    def _load(self, port: PortSpan, flow: NicFlow) -> float:
        queue = min(port.queue_bytes, port.before_bytes)
        return port.share(port.sent_bytes, port.time_ns) + port.share(queue, flow.base_rtt_ns)

    def _next(self, once: bool) -> float:
        eta = self._p["eta"] / 2**20
        self._cut = self._mean >= eta or self._stage >= self._p["max_stage"]
        base = self._reference * eta / max(2.0**-20, self._mean) if self._cut else self._reference
        return base + (self._p["w_ai"] / 2**26 or (1 - eta) / self._p["flows"])

    def _step(self) -> None:
        self._reference = self._window
        self._stage = 0 if self._cut else self._stage + 1


REFERENCE = FloatReference(Hpcc, Bound(16, 0.003))
