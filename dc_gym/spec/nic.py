# SPDX-License-Identifier: Apache-2.0
"""`[nic]`: the hosts' NICs, for runs in which controller.name is an algorithm of the NIC (docs/nic.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.key import ARGS, COUNT, KB, NIC_POLICY, SHARE_PPM, SIZE, TEXT, TIME, US, KeyFault, S, check, key
from dc_gym.base.units import FRAME_BYTES, PPM
from dc_gym.ctrl import controllers

FRAME_HEADERS_BYTES = 74
"""Bytes of headers in a frame: Ethernet 14, IPv4 20, UDP 8, the NIC's header 32 (ctrl/nic/shim.h)."""
RETRANSMITS = ("go-back-n", "selective")
QUEUE_PAIRS = ("flow", "hosts")
TRACES = ("off", "changes", "all")
DECISIONS = ("side-by-side", "in-turn")
"""Names of the numbers in ctrl/nic/shim.h."""
LONGEST_NS = 1 * S
LEAST_LINE_BPS = 100_000
MOST_COALESCED = 1 << 16
"""The limit in ctrl/nic/nics.c."""


def tcps() -> tuple[str, ...]:
    """Returns the TCPs that a NIC may cap: those that do not read marks themselves."""
    known = [each for name in controllers.names() if (each := controllers.find(name))]
    return tuple(each.name for each in known if not each.nic and not each.ecn)


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSpec:
    """`[nic]`. None means that the value follows from the network, or is the algorithm's default."""

    tcp: str | None = key(TEXT, names=tcps)  # None: flows go over RDMA
    latency_ns: int = key(TIME, 0, name="latency", low=0, high=LONGEST_NS)
    decisions: str = key(TEXT, "side-by-side", names=lambda: DECISIONS)
    cnp_interval_ns: int | None = key(TIME, name="cnp_interval", low=0, high=LONGEST_NS)
    nack_interval_ns: int | None = key(TIME, name="nack_interval", low=0, high=LONGEST_NS)
    timeout_ns: int | None = key(TIME, name="timeout", low=1 * US, high=10 * S)
    timeout_max_ns: int | None = key(TIME, name="timeout_max", low=1 * US, high=100 * S)
    probe_timeout_ns: int | None = key(TIME, name="probe_timeout", low=1 * US, high=10 * S)
    probe_timeout_max_ns: int | None = key(TIME, name="probe_timeout_max", low=1 * US, high=100 * S)
    ack_packets: int = key(COUNT, 1, low=1, high=1024)
    burst_packets: int = key(COUNT, 1, name="burst", low=1, high=64)
    retransmit: str = key(TEXT, "go-back-n", names=lambda: RETRANSMITS)
    payload_bytes: int = key(
        SIZE, FRAME_BYTES - FRAME_HEADERS_BYTES, name="payload", low=1, high=FRAME_BYTES - FRAME_HEADERS_BYTES
    )
    message_bytes: int = key(SIZE, 64 * KB, name="message", low=1, high=2**31)
    queue_pairs: str = key(TEXT, "flow", names=lambda: QUEUE_PAIRS)
    preset: str | None = key(TEXT)
    parameters: tuple[tuple[str, Any], ...] = key(ARGS, ())
    policy: str | Path | None = key(NIC_POLICY)
    trace: str = key(TEXT, "changes", names=lambda: TRACES)
    event_loss_ppm: int = key(SHARE_PPM, 0, name="event_loss", low=0, high=PPM)
    event_coalesce: int = key(COUNT, 1, low=1, high=MOST_COALESCED)

    @property
    def keeps_pairs(self) -> bool:
        """True if flows between two hosts follow one another in one queue pair."""
        return self.queue_pairs == "hosts"

    def __post_init__(self) -> None:
        check(self, "nic.")
        for name in ("timeout", "probe_timeout"):
            first_ns, most_ns = getattr(self, f"{name}_ns"), getattr(self, f"{name}_max_ns")
            if first_ns is not None and most_ns is not None and most_ns < first_ns:
                raise KeyFault(f"nic.{name}_max", most_ns, f"is below nic.{name}; give that or more")
