# SPDX-License-Identifier: Apache-2.0
"""Variants on networks of 100 Gbit/s, slowed down.

`scale` divides rates and multiplies times (docs/topologies.md), so BDP, buffers and thresholds keep their size in packets. The
constants and arguments here are at 100 Gbit/s, before scaling; the returned keys are after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dc_gym.base.units import format_time
from dc_gym.study.model import Variant

US, MS = 10**3, 10**6
SCALE = 100
LINE_BPS = 100 * 10**9
RATE_INTERVAL_NS = 100 * US
"""Interval between samples of the flows."""
SWEEPS = 10
"""Number of queue samples in that interval."""
LINKS: Mapping[str, Any] = {"rate": "100Gbit/s", "delay": "1250ns", "buffer": "5MB"}
"""RL-CC, section VI: a fabric's round trip of 10 us is eight of these delays. 5 MB is from PCC-RL's figure 1."""
JITTER_NS = 100 * US
"""Range over which a seed spreads the starts: ten base round trips. Without it all seeds of a pattern would give the same run."""
TIMES = frozenset(
    {"jitter", "start", "stop", "short_start", "last_start", "interval", "on", "off", "compute"}
    | {"latency", "event_cost", "timeout", "timeout_max", "probe_timeout", "nack_interval", "tcp_interval"}
)
"""Keys of a workload, a NIC and a monitor whose numbers are times in ns."""


@dataclass(frozen=True, slots=True)
class ScaledNetwork:
    name: str
    title: str
    topology: Mapping[str, Any]
    """Keys of [topology]."""
    senders: int
    """Number of senders to one receiver: on the dumbbell all hosts across its middle link, else all hosts but the receiver."""


@dataclass(frozen=True, slots=True)
class RunLength:
    """The length of a run."""

    duration_ns: int
    warmup_ns: int


def scaled(values: Mapping[str, Any], scale: int) -> dict[str, Any]:
    """Scales the keys of a workload or a NIC. Integers that are times are in ns at 100 Gbit/s."""
    return {
        key: format_time(value * scale) if key.rpartition(".")[2] in TIMES and isinstance(value, int) else value
        for key, value in values.items()
    }


def variant(
    name: str,
    controller: str | None,
    network: ScaledNetwork,
    workload: Mapping[str, Any],
    length: RunLength,
    full: RunLength,
    spec_keys: Mapping[str, Any],
    full_network: ScaledNetwork | None = None,
    **fields: Any,
) -> Variant:
    """Returns a variant that is slowed down by SCALE, and not at all with `--length full`.

    Args:
        controller: its controller; None: its policy's.
        length: the length of a run at 100 Gbit/s; `full`: the length with `--length full`, when `full_network` is its network.
        spec_keys: more dotted keys of the spec.
        fields: other fields of the variant.
    """

    def at(network: ScaledNetwork, length: RunLength, scale: int) -> dict[str, Any]:
        return {
            **{f"topology.{key}": value for key, value in network.topology.items()},
            "topology.scale": scale,
            **{f"workload.{key}": value for key, value in scaled(workload, scale).items()},
            "time.duration": format_time(length.duration_ns * scale),
            "time.warmup": format_time(length.warmup_ns * scale),
            "monitor.interval": format_time(RATE_INTERVAL_NS * scale // SWEEPS),
            "monitor.tcp_interval": format_time(RATE_INTERVAL_NS * scale),
            "controller.name": controller,
            **scaled(spec_keys, scale),
        }

    values, whole = at(network, length, SCALE), at(full_network or network, full, 1)
    changed = {key: whole.get(key) for key in {**values, **whole} if values.get(key) != whole.get(key)}
    return Variant(name, values, full=changed, **fields)
