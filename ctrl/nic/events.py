# SPDX-License-Identifier: Apache-2.0
"""What an algorithm of the NIC is told and what it says, as cc.h has it, for code in Python that stands beside the headers."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_NS = 2**30
CNP, TX, ACK, NACK, RTT = 2, 3, 4, 5, 6
TIMEOUT, PROBING = 2, 4
"""Flags: of a NACK, of TX."""


@dataclass(frozen=True, slots=True)
class Event:
    """struct cc_event."""

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

    @property
    def rtt_ns(self) -> int:
        """As every algorithm here takes it: at least 1 ns, at most 2^30."""
        whole, inside = since(self.sent_ns, self.first_ns), since(self.received_ns, self.answered_ns)
        return max(1, min(LONGEST_NS, whole - inside))


@dataclass(frozen=True, slots=True)
class Flow:
    """struct cc_flow."""

    base_rtt_ns: int
    line_mbps: int
    packet_bytes: int
    hops: int


@dataclass(frozen=True, slots=True)
class Decision:
    rate: float
    """Share of the line."""
    window_bytes: float
    probe: bool


def since(then_ns: int, now_ns: int) -> int:
    """Time that a clock of 32 bits has seen pass."""
    return (now_ns - then_ns) % 2**32
