# SPDX-License-Identifier: Apache-2.0
"""One bottleneck for closed-loop runs with NICs: senders on a switch and one receiver, at 10 Gbit/s and 25 us per link.

This is 100 Gbit/s scaled down by ten: the bandwidth-delay product is 83 packets, as it is at 100 Gbit/s and 10 us. Flows begin at
line rate, one after the other. The measurement starts after the stated settling time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import naming
from dc_gym.results.results import Result
from dc_gym.run.plan import nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.sweep import Cell, runs
from dc_gym.spec import load

LINE_BPS, FRAME_BYTES = 10**10, 1514
PAYLOAD_SHARE = 1440 / FRAME_BYTES
BUFFER_BYTES = 5_000_000
BASE_NS = 102_604
"""The base round trip of a probe: `base_ns` of any run here."""
BUFFER_RTTS = BUFFER_BYTES * 8e9 / LINE_BPS / BASE_NS
"""The buffer, in units of the bytes that the line sends in a base round trip."""
SHORT_BUFFER_BYTES = 1_250_000
"""A quarter of BUFFER_BYTES. Settled flows still fit, and the flood at their start is over sooner."""
START_GAP_S = 0.0005
"""Seconds from one flow's start to the next; each begins at line rate."""
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
"""The HPCC artifact's 100 and 400 kB at 25 Gbit/s, scaled to this line."""


@dataclass(frozen=True, slots=True)
class BottleneckRun:
    """Flows of one algorithm on the bottleneck."""

    algorithm: str
    flows: int
    settled_ms: int
    measured_ms: int
    policy: Path | None = None
    """The policy file; None: the algorithm's own. A relative path is resolved from the spec's folder."""
    latency_ns: int = 0
    senders: int = 8
    trace: str = "changes"
    marks: bool = False
    buffer_bytes: int = BUFFER_BYTES
    flow_times_s: tuple[tuple[float, float], ...] = ()
    """(start, stop) of each flow in seconds; a stop of 0 means never. Empty: flows begin START_GAP_S apart and stay."""

    def cell(self, folder: Path, title: str) -> Cell:
        """Returns the run, with its files in a folder."""
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
        """Writes the list of flows; flows are assigned to senders in turn."""
        path, sink = folder / f"{title}.csv", self.senders + 1
        flow_times = self.flow_times_s or [(number * START_GAP_S, 0.0) for number in range(self.flows)]
        lines = [
            f"h{n % self.senders + 1},h{sink},{5001 + n},{start:.6f},{stop:.6f},inf" for n, (start, stop) in enumerate(flow_times)
        ]
        with naming(path):
            path.write_text("\n".join(["source,destination,port,start,stop,size", *lines]) + "\n")
        return path


def base_ns(cell: Cell) -> int:
    """Returns the base round trip of the run's probes."""
    experiment = Experiment.of(load(cell.spec, cell.settings))
    return nics.base_rtts_ns(experiment.schedule, experiment.graph, experiment.router, experiment.spec)[0]


def inflation(cell: Cell, result: Result) -> float:
    """Returns the bottleneck's mean round trip over its base.

    The mean is over time: a mean over probes would count short round trips more often.
    """
    return 1 + float(result.summary["queueing_delay_s"]) * 1e9 / base_ns(cell)
