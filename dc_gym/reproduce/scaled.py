# SPDX-License-Identifier: Apache-2.0
"""Networks of 100 Gbit/s, slowed down: what papers' figures and `dcgym bench compare` have in common.

`scale` divides rates and multiplies times (docs/topologies.md): BDP, buffers and thresholds keep their packets. Everything here
is at 100 Gbit/s, before that; the keys that come out are after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

US, MS = 10**3, 10**6
SCALE = 100
LINE_BPS = 100 * 10**9
RATE_INTERVAL_NS = 100 * US
"""Between samples of the flows."""
SWEEPS = 10
"""Of the queues, in that time."""
LINKS: Mapping[str, Any] = {"rate": "100Gbit/s", "delay": "1250ns", "buffer": "5MB"}
"""RL-CC, section VI: a fabric's round trip of 10 us is eight of these; 5 MB is PCC-RL's figure 1."""
JITTER_NS = 100 * US
"""Starts are spread by seed over ten base round trips, or all seeds of a pattern would be one run."""
TIMES = frozenset({"jitter", "start", "stop", "short_start", "last_start", "interval", "on", "off", "compute", "latency"})
"""Of a workload and a NIC: keys whose numbers are ns."""


@dataclass(frozen=True, slots=True)
class Network:
    name: str
    title: str
    topology: Mapping[str, Any]
    """Keys of [topology]."""
    senders: int
    """To one receiver: on the dumbbell all those across its middle link, else everybody but the receiver."""


@dataclass(frozen=True, slots=True)
class Length:
    """Of a run."""

    duration_ns: int
    warmup_ns: int


def scaled(values: Mapping[str, Any], scale: int) -> dict[str, Any]:
    """Keys of a workload or a NIC, in which numbers that are times are ns at 100 Gbit/s."""
    return {
        key: f"{value * scale}ns" if key.rpartition(".")[2] in TIMES and isinstance(value, int) else value
        for key, value in values.items()
    }


def keys(
    network: Network, workload: Mapping[str, Any], length: Length, scale: int, interval_ns: int = RATE_INTERVAL_NS
) -> dict[str, Any]:
    """Of the spec, dotted: all but who controls, the seed and the ground. `interval_ns`: between samples of the flows."""
    return {
        **{f"topology.{key}": value for key, value in network.topology.items()},
        "topology.scale": scale,
        **{f"workload.{key}": value for key, value in scaled(workload, scale).items()},
        "time.duration": f"{length.duration_ns * scale}ns",
        "time.warmup": f"{length.warmup_ns * scale}ns",
        "monitor.interval": f"{RATE_INTERVAL_NS * scale // SWEEPS}ns",
        "monitor.tcp_interval": f"{interval_ns * scale}ns",
    }
