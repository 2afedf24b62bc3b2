# SPDX-License-Identifier: Apache-2.0
"""The references of algorithms that read telemetry: the parts that HPCC, PowerTCP and FDCC share.

Windows are shares of the line rate times the base round trip. Records are whole numbers by definition, and so is the table of
their rates, which all golden traces share.
"""

from __future__ import annotations

from dataclasses import dataclass

from dc_gym.ctrl.nic.events import ACK, Decision, NicEvent, NicFlow, Telemetry, since
from dc_gym.ctrl.nic.reference import LINE, Parameters, clamped
from dc_gym.topologies.telemetry import RateUnits, table_of

GBPS = 10**9
RATES = table_of(rate * GBPS for rate in (1, 10, 25, 40, 100, 400))
"""The table of rates of golden traces."""
MOST = 2.0**10
"""The largest load and the largest power."""
MOST_LINE_MBPS = 10**7
HALF_TURN = 2**23
MOST_WINDOW_BYTES = 2.0**32 - 1


@dataclass(frozen=True, slots=True)
class PortSpan:
    """The difference between two records of one port."""

    time_ns: int
    sent_bytes: int
    queue_bytes: int
    before_bytes: int
    """The queue at the older record."""
    mbps: int

    def share(self, count: int, time_ns: int) -> float:
        """Returns bytes divided by the bytes that the port's line sends in a time."""
        return share(count, self.mbps, time_ns)


def share(count: int, mbps: int, time_ns: int) -> float:
    """Returns bytes divided by the bytes that a line sends in a time."""
    return min(MOST, count * 8000 / (mbps * time_ns)) if time_ns else MOST if count else 0.0


def span(newer: int, older: int, apart_ns: int) -> PortSpan | None:
    """Returns the difference of two records, or None if they cannot be compared."""
    rate_index = newer >> 61
    if rate_index >= len(RATES) or rate_index != older >> 61:
        return None
    rate: RateUnits = RATES[rate_index]
    if apart_ns >= HALF_TURN * rate.time_ns:
        return None
    return PortSpan(
        ((newer >> 37) - (older >> 37)) % 2**24 * rate.time_ns,
        ((newer >> 17) - (older >> 17)) % 2**20 * rate.sent_bytes,
        newer % 2**17 * rate.queue_bytes,
        older % 2**17 * rate.queue_bytes,
        rate.mbps,
    )


def spans_between(before: Telemetry | None, telemetry: Telemetry, apart_ns: int) -> list[PortSpan]:
    """Returns the differences between the records of two ACKs, port by port; none if they cannot be compared."""
    if before is None or before.hops != telemetry.hops:
        return []
    pairs = list(zip(telemetry.records, before.records, strict=True))[: telemetry.hops]
    spans = [span(newer, older, apart_ns) for newer, older in pairs]
    return [] if None in spans else [port_span for port_span in spans if port_span is not None]


class TelemetryWindow:
    """The part that HPCC and PowerTCP share: records of the ACK before, the moving mean, and the step of once a round trip."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._window = LINE
        """In force."""
        self._mean = 1.0
        self._updated_psn = 0
        self._heard_ns = 0
        self._before: Telemetry | None = None

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision:
        if event.type == ACK and event.telemetry is not None and event.telemetry.hops:
            self._acknowledged(event, event.telemetry, flow)
        return self._decision(flow)

    def _acknowledged(self, event: NicEvent, telemetry: Telemetry, flow: NicFlow) -> None:
        behind = since(self._updated_psn, telemetry.acked_psn), since(telemetry.sent_psn, self._updated_psn)
        once = any(0 < distance < 2**31 for distance in behind)
        if spans := spans_between(self._before, telemetry, since(self._heard_ns, event.now_ns)):
            loads = [self._load(port_span, flow) for port_span in spans]
            load = max(loads)
            share = min(spans[loads.index(load)].time_ns, flow.base_rtt_ns) / max(1, flow.base_rtt_ns)
            self._mean = (1 - share) * self._mean + share * min(MOST, load) if flow.base_rtt_ns else 0.0
            least = self._p["rate_min"] / 2**20
            self._window = max(least, min(LINE, self._next(once)))
            if once:
                self._step()
        if once or self._before is None:
            self._updated_psn = telemetry.sent_psn
        self._heard_ns, self._before = event.now_ns, telemetry

    def _load(self, port: PortSpan, flow: NicFlow) -> float:
        raise NotImplementedError

    def _next(self, once: bool) -> float:
        raise NotImplementedError

    def _step(self) -> None:
        raise NotImplementedError

    def _decision(self, flow: NicFlow) -> Decision:
        """A packet may leave while less than the window is under way."""
        bdp = min(MOST_WINDOW_BYTES, min(MOST_LINE_MBPS, flow.line_mbps) * flow.base_rtt_ns / 8000)
        window = min(MOST_WINDOW_BYTES, max(1.0, bdp * self._window + flow.packet_bytes - 1))
        return Decision(clamped(self._window), window, False)
