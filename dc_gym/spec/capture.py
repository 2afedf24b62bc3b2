# SPDX-License-Identifier: Apache-2.0
"""`[capture]`: the ports whose frames a run writes to files."""

from __future__ import annotations

from dataclasses import dataclass

from dc_gym.base import spelling
from dc_gym.base.key import SIZE, TEXT, WORDS, KeyFault, check, key
from dc_gym.topologies.graph import Graph

DIRECTIONS = ("both", "out", "in")
SNAP_BYTES = 128
"""Bytes that cover all headers of any frame here: the longest are a NIC's with telemetry, 116."""
LEAST_SNAP_BYTES, MOST_SNAP_BYTES = 64, 65535
MOST_PORTS = 256
"""The limit of capd (monitors/capd.c)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSpec:
    """`[capture]`: the ports whose frames a run writes to files."""

    ports: tuple[str, ...] = key(
        WORDS,
        (),
        otherwise="none",
        help='ports, such as `["s1-eth3"]`, whose frames the run writes to `capture/PORT.pcapng` of its result; '
        "`dcgym run SPEC --pcap s1-eth3` is short for one",
    )
    direction: str = key(
        TEXT,
        "both",
        names=lambda: DIRECTIONS,
        help="`out`: frames that the port sends, each when its transmission starts; `in`: frames that arrive; or `both`",
    )
    snap_bytes: int = key(
        SIZE,
        SNAP_BYTES,
        name="snap_length",
        low=LEAST_SNAP_BYTES,
        high=MOST_SNAP_BYTES,
        help="bytes of each frame that are written, from its start; the default has all headers",
    )

    def __post_init__(self) -> None:
        check(self, "capture.")
        for port in self.ports:
            if self.ports.count(port) > 1:
                raise KeyFault("capture.ports", list(self.ports), f"names {port!r} twice; remove one")
        if len(self.ports) > MOST_PORTS:
            raise KeyFault("capture.ports", None, f"names {len(self.ports)} ports; name at most {MOST_PORTS}")

    def check_ports(self, graph: Graph) -> None:
        """Raises KeyFault for a port that the network does not have."""
        known = [port.ifname for port in graph.ports()]
        for port in self.ports:
            if port not in known:
                hint = spelling.hint(port, known) if spelling.near(port, known) else f"the ports are {known[0]} .. {known[-1]}"
                raise KeyFault("capture.ports", list(self.ports), f"the network has no port {port!r}; {hint}")
