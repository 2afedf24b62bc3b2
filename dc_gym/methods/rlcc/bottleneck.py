# SPDX-License-Identifier: Apache-2.0
"""One bottleneck for NICs' closed loops: senders on a switch and one receiver, at 10 Gbit/s and 25 us a link.

That is 100 Gbit/s scaled down by ten, so that the bandwidth-delay product is 83 packets, as it is at 100 Gbit/s and 10 us. Every
flow begins at line rate, one after the other; what comes before the stated time to settle is not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dc_gym.grounds import nics
from dc_gym.grounds.plan import Experiment
from dc_gym.records.results import Result
from dc_gym.spec import load
from dc_gym.sweep import Cell, runs

LINE_BPS, FRAME_BYTES = 10**10, 1514
PAYLOAD_SHARE = 1440 / FRAME_BYTES
BUFFER_BYTES = 5_000_000
BASE_NS = 102_604
"""The base round trip of a probe: `base_ns` of any run here."""
BUFFER_RTTS = BUFFER_BYTES * 8e9 / LINE_BPS / BASE_NS
"""In what the line sends in a base round trip."""
SHORT_BUFFER_BYTES = 1_250_000
"""A quarter of it: what flows settle at has room, and the flood of their start is over sooner."""
APART_S = 0.0005
"""From one flow's start to the next: each begins at line rate."""
SPEC = """
spec_version = 1
name = "{title}"
controller.name = "{algorithm}"
nic = {{ trace = "{trace}", message = "72kB", latency = "{latency}ns"{policy} }}
workload = {{ kind = "matrix", file = "{flows}" }}
time = {{ duration = "{end}ms", warmup = "{settled}ms" }}
monitor = {{ interval = "100us", tcp_interval = "1ms" }}
[topology]
kind = "single"
hosts = {hosts}
rate = "10Gbit/s"
delay = "25us"
buffer = "{buffer}B"
host_buffer = "400kB"
{marking}
"""
MARKING = 'marking = "red-instant"\nkmin = "40kB"\nkmax = "160kB"\npmax = "20%"'
"""The HPCC artifact's 100 and 400 kB at 25 Gbit/s, scaled to the line."""


@dataclass(frozen=True, slots=True)
class Case:
    """Flows of one algorithm on the bottleneck."""

    algorithm: str
    flows: int
    settled_ms: int
    measured_ms: int
    policy: Path | None = None
    """None: the algorithm's own. A relative one is looked for where the spec is."""
    latency_ns: int = 0
    senders: int = 8
    trace: str = "changes"
    marks: bool = False
    buffer_bytes: int = BUFFER_BYTES
    lives_s: tuple[tuple[float, float], ...] = ()
    """(start, stop) of each flow, where they do not all begin APART_S apart and stay; 0: it never stops."""

    def cell(self, folder: Path, title: str) -> Cell:
        """The run, its files in a folder."""
        text = SPEC.format(
            title=title,
            algorithm=self.algorithm,
            trace=self.trace,
            latency=self.latency_ns,
            policy=f', policy = "{self.policy}"' if self.policy else "",
            flows=self._matrix(folder, title).name,
            settled=self.settled_ms,
            end=self.settled_ms + self.measured_ms,
            hosts=self.senders + 1,
            buffer=self.buffer_bytes,
            marking=MARKING if self.marks else "",
        )
        return Cell(title, runs.write_spec(folder, title, text), folder / title)

    def _matrix(self, folder: Path, title: str) -> Path:
        """The list of flows: senders take turns."""
        path, sink = folder / f"{title}.csv", self.senders + 1
        lives = self.lives_s or [(number * APART_S, 0.0) for number in range(self.flows)]
        lines = [
            f"h{n % self.senders + 1},h{sink},{5001 + n},{start:.6f},{stop:.6f},inf" for n, (start, stop) in enumerate(lives)
        ]
        path.write_text("\n".join(["source,destination,port,start,stop,size", *lines]) + "\n")
        return path


def base_ns(cell: Cell) -> int:
    """The base round trip of its probes."""
    experiment = Experiment.of(load(cell.spec, cell.settings))
    return nics.base_rtts_ns(experiment.schedule, experiment.graph, experiment.router, experiment.spec)[0]


def inflation(cell: Cell, result: Result) -> float:
    """Mean over time of the bottleneck's round trip over its base: a mean over probes would count short ones more often."""
    return 1 + float(result.summary["queueing_delay_s"]) * 1e9 / base_ns(cell)
