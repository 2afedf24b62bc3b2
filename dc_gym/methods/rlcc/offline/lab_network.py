# SPDX-License-Identifier: Apache-2.0
"""The network and flows of a training episode in a lab: one switch, separate hosts for each pattern, flows that come and go.

Times are in base round trips of the network: a network at 10 Gbit/s is one at 100 Gbit/s, scaled (docs/nic-algorithms.md). A flow
lives for an exponentially distributed time and starts at line rate, as all flows of a NIC do. After a pause another flow takes
its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dc_gym.base.errors import naming
from dc_gym.base.units import FRAME_BYTES
from dc_gym.methods.rlcc.offline.presets import TrafficPattern
from dc_gym.spec import Spec
from dc_gym.spec.load import from_dict
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.matrix import COLUMNS

MATRIX = "flows.csv"
FIRST_PORT = 5001
LINKS = 4
"""Number of links that a round trip over one switch crosses."""
MIN_LIFETIME_NS = 1000
"""The shortest lifetime of a flow, and the shortest gap after it."""
RATES_BPS = (2 * 10**9, 40 * 10**9)
BASE_PACKETS = (40, 160)
BUFFERS = (8, 32)
"""Ranges of the randomisation: line rate, packets that the line sends in a base round trip, port buffer in base round trips."""
SAMPLE_INTERVAL_NS = 10_000_000
"""Interval between samples of queues and flows. Training does not read them; only a watcher does."""


@dataclass(frozen=True, slots=True)
class LabNetwork:
    """A network, and how long flows stay."""

    rate_bps: int = 10**10
    delay_ns: int = 12_000
    """Propagation delay of a link."""
    buffer_bytes: int = 800_000
    """Buffer of a switch port."""
    flow_lifetime_rtts: int = 800
    """Mean lifetime of a flow, in base round trips."""
    flow_gap_rtts: int = 20
    """Mean pause between two flows, in base round trips."""

    @property
    def base_rtt_ns(self) -> int:
        """The approximate base round trip of a probe: the cables, and a full frame on both links of the forward path."""
        return LINKS * self.delay_ns + 2 * FRAME_BYTES * 8 * 10**9 // self.rate_bps

    def spec(self, algorithm: str, patterns: Sequence[TrafficPattern], round_trips: int, seed: int, folder: Path) -> Spec:
        """Returns the spec of an episode that lasts `round_trips` base round trips.

        `algorithm` is one that reads a table. The flows are written to a file in `folder`.
        """
        duration_ns = round_trips * self.base_rtt_ns
        lines = [",".join(COLUMNS), *self._flows(patterns, duration_ns, seed)]
        with naming(folder / MATRIX):
            (folder / MATRIX).write_text("\n".join(lines) + "\n")
        seldom = f"{min(SAMPLE_INTERVAL_NS, duration_ns)}ns"
        network = {
            "kind": "single",
            "hosts": sum(case.hosts * case.copies for case in patterns),
            "rate": f"{self.rate_bps}bit/s",
            "delay": f"{self.delay_ns}ns",
            "buffer": f"{self.buffer_bytes}B",
            "host_buffer": "400kB",
        }
        data: dict[str, Any] = {
            "spec_version": 1,
            "name": "rlcc-training",
            "seed": seed,
            "controller": {"name": algorithm},
            "nic": {"message": "72kB"},
            "workload": {"kind": "matrix", "file": MATRIX},
            "time": {"duration": f"{duration_ns}ns"},
            "monitor": {"interval": seldom, "tcp_interval": seldom},
            "topology": network,
        }
        return from_dict(data, folder)

    def _flows(self, patterns: Sequence[TrafficPattern], duration_ns: int, seed: int) -> Iterator[str]:
        """Yields the rows of the flow matrix."""
        first = slot = 0
        for case in (pattern for pattern in patterns for _ in range(pattern.copies)):
            for sender, receiver in case.pairs():
                ends = f"h{first + sender + 1},h{first + receiver + 1},{FIRST_PORT + slot}"
                for start, stop in self._flow_times(duration_ns, seed, slot):
                    yield f"{ends},{_seconds(start)},{_seconds(stop)},inf"
                slot += 1
            first += case.hosts

    def _flow_times(self, duration_ns: int, seed: int, slot: int) -> Iterator[tuple[int, int]]:
        """Yields (start, stop) of the flows that follow one another in one place."""
        stream = Stream(seed, "rlcc scene", slot)
        now = stream.below(self.flow_gap_rtts * self.base_rtt_ns + 1)
        while now < duration_ns:
            stop = now + max(MIN_LIFETIME_NS, stream.around(self.flow_lifetime_rtts * self.base_rtt_ns, "exponential"))
            yield now, stop
            now = stop + max(MIN_LIFETIME_NS, stream.around(self.flow_gap_rtts * self.base_rtt_ns, "exponential"))


def randomised(network: LabNetwork, seed: int) -> LabNetwork:
    """Returns a network with another line rate, base round trip and buffer, each drawn log-uniformly."""
    stream = Stream(seed, "rlcc domain")
    rate_bps, packets, buffers = (stream.log_uniform(*span) for span in (RATES_BPS, BASE_PACKETS, BUFFERS))
    base_ns = packets * FRAME_BYTES * 8 * 10**9 // rate_bps
    delay_ns = max(0, base_ns - 2 * FRAME_BYTES * 8 * 10**9 // rate_bps) // LINKS
    return replace(network, rate_bps=rate_bps, delay_ns=delay_ns, buffer_bytes=buffers * packets * FRAME_BYTES)


def varied(patterns: Sequence[TrafficPattern], seed: int) -> tuple[TrafficPattern, ...]:
    """Returns as many patterns as given, each with two flows up to as many as it had."""
    stream = Stream(seed, "rlcc flows")
    return tuple(replace(case, flows=2 + stream.below(case.flows - 1)) for case in patterns)


def _seconds(time_ns: int) -> str:
    return f"{time_ns // 10**9}.{time_ns % 10**9:09d}"
