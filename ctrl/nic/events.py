# SPDX-License-Identifier: Apache-2.0
"""The events and decisions of a NIC algorithm, as in cc.h, for the Python code that accompanies the headers."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_NS = 2**30
CNP, TX, ACK, NACK, RTT = 2, 3, 4, 5, 6
TIMEOUT, PROBING, MARKED, TRIMMED = 2, 4, 8, 16
"""Flags: TIMEOUT of a NACK, PROBING of a TX; over transport uec MARKED of an ACK, TRIMMED of a NACK."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The part of an event that CC_TELEMETRY adds to an ACK. Packet numbers have 32 bits."""

    acked_psn: int
    """The first packet that is not acknowledged."""
    sent_psn: int
    """The first packet that was never sent."""
    hops: int
    records: tuple[int, ...]
    """Five records; those beyond `hops` are not used."""


@dataclass(frozen=True, slots=True)
class NicEvent:
    """An event as an algorithm gets it: struct cc_event."""

    type: int
    flags: int
    now_ns: int
    first_ns: int
    coalesced: int
    bytes: int
    packets: int
    sent_ns: int
    received_ns: int
    answered_ns: int
    telemetry: Telemetry | None = None

    @property
    def rtt_ns(self) -> int:
        """Returns the round trip as every algorithm here takes it: at least 1 ns, at most 2^30 ns."""
        whole, inside = since(self.sent_ns, self.first_ns), since(self.received_ns, self.answered_ns)
        return max(1, min(LONGEST_NS, whole - inside))


@dataclass(frozen=True, slots=True)
class NicFlow:
    """The facts about a flow that an algorithm gets: struct cc_flow."""

    base_rtt_ns: int
    line_mbps: int
    packet_bytes: int
    hops: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a reference in floats."""

    rate: float
    """Share of the line rate."""
    window_bytes: float
    probe: bool


def since(then_ns: int, now_ns: int) -> int:
    """Returns the time that has passed on a 32-bit clock."""
    return (now_ns - then_ns) % 2**32
