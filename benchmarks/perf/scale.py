# SPDX-License-Identifier: Apache-2.0
"""Checks on scale: throughput, wall time and memory over the number of hosts, a large start, and a large fat-tree.

The first follows figure 5.1 of F. Ruffy Varga's thesis: a dumbbell whose middle link has 10 Mbit/s. Every host on the left sends
UDP to its partner on the right at a constant rate. The number of hosts starts at 4 and doubles. As in the thesis there are two
variants:

    limited      every interface has 10 Mbit/s, senders offer 10 Mbit/s of payload: the interface limits the rate
    unlimited    every interface has 10 Gbit/s, senders offer 10 Mbit/s of frames: the sender limits the rate

The thesis does not say where it measures. Its throughput grows with the hosts although they share one link, so it must be the
sent rate. The received rate is printed beside it. Rates are frame bits (Ethernet header and payload, no FCS, preamble or gap)
that left a port's queue in the window; `received` is payload. Wall time and CPU time (user and system, with all children) cover
whole `dcgym run` processes. Memory is the largest resident set of the lab's kernel, which maps everything that the lab has
touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.base.errors import TestbedError
from dc_gym.base.readable import quantity
from dc_gym.base.units import format_rate
from dc_gym.benchmarks.perf import meter
from dc_gym.benchmarks.perf.meter import ProcessCost
from dc_gym.results.results import Result
from dc_gym.run.sweep import runs

HOSTS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
TRIED = 2048  # the size at which the thesis' smaller machine died
RATE_BPS = 10**7
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1472
VARIANTS = {
    "limited": ("topology.rate=10Mbit/s", "workload.rate=10Mbit/s"),
    "unlimited": ("topology.rate=10Gbit/s", f"workload.rate={format_rate(RATE_BPS * PAYLOAD_BYTES // FRAME_BYTES)}"),
}
EGRESS_TOLERANCE = 0.001
SLOPE = 1.15
MEMORY_BYTES = 8 << 30
WARMUP_NS = 100_000_000  # as in the spec below

# The window holds 1651 frames per sender, so one frame more or less at its edges is 0.06 %.
SPEC = """
spec_version = 1
name = "scale"
controller.name = "cubic"
[topology]
kind = "dumbbell"
pairs = 2
bottleneck_rate = "10Mbit/s"
delay = "10us"
buffer = "400kB"
[workload]
kind = "pairs"
transport = "udp"
[time]
duration = "2100ms"
warmup = "100ms"
[monitor]
interval = "100ms"
"""

START_SPEC = """
spec_version = 1
name = "start"
topology.preset = "{preset}"
controller.name = "dctcp"
monitor.interval = "5ms"
metrics.slowdown = "off"
"""
STARTS = {
    "fattree-k4": (8, ("workload.kind=pairs", "workload.size=64kB", "time.duration=20ms")),
    "acc288": (60, ("workload.kind=pairs", "workload.size=64kB", "time.duration=20ms")),
    "fattree-k8": (60, ("workload.kind=all_to_all", "workload.size=10kB", "workload.jitter=20ms", "time.duration=100ms")),
}
"""Networks, the longest time of their start in s, and their traffic. Among the last one's 128 hosts are 16,256 flows."""


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """One run. Rates in frame bits per second: of each sender, and of the middle link; and the goodput of all hosts together."""

    hosts: int
    sent_bps: tuple[float, ...]
    middle_bps: float
    received_bps: float
    start_s: float
    cost: ProcessCost
    memory_bytes: int

    @property
    def worst(self) -> float:
        """The largest relative deviation of a sender from the rate."""
        return max(abs(rate / RATE_BPS - 1) for rate in self.sent_bps)

    def words(self) -> str:
        return (
            f"sent {quantity(sum(self.sent_bps), 'bps', 5)}, worst sender {self.worst:.3%} off;"
            f" middle {quantity(self.middle_bps, 'bps', 5)}, received {quantity(self.received_bps, 'bps', 5)};"
            f" {self.cost.wall_s:.1f} s wall, {self.cost.cpu_s:.1f} s CPU,"
            f" {self.memory_bytes >> 20} MiB, start {self.start_s:.1f} s"
        )


def checks() -> Iterable[Check]:
    with runs.scratch("scale") as folder:
        spec = runs.write_spec(folder, "scale", SPEC)
        for variant in VARIANTS:
            yield from _variant_checks(folder, spec, variant)
        yield from (_start_check(folder, preset, *start) for preset, start in STARTS.items())


def _variant_checks(folder: Path, spec: Path, variant: str) -> Iterator[Check]:
    points = [measure(folder, spec, variant, hosts) for hosts in HOSTS]
    yield from (_point_check(variant, point) for point in points)
    for name, values in (
        ("wall time", [point.cost.wall_s for point in points]),
        ("CPU time", [point.cost.cpu_s for point in points]),
        ("memory", [point.memory_bytes for point in points]),
    ):  # over all numbers of hosts, and over the larger ones alone, where fixed costs hide nothing
        whole, upper = slope(HOSTS, values), slope(HOSTS[-4:], values[-4:])
        words = f"{whole:.2f} (from {HOSTS[-4]} hosts on {upper:.2f})"
        yield Check(f"{variant}: log-log slope of {name}", f"<= {SLOPE}", words, max(whole, upper) <= SLOPE)
    try:
        words = measure(folder, spec, variant, TRIED).words()
    except TestbedError as error:
        words = str(error)
    yield Check(f"{variant}: {TRIED} hosts", "tried and reported", words, ok=True)


def _point_check(variant: str, point: ScalePoint) -> Check:
    fair = point.worst <= EGRESS_TOLERANCE
    full = abs(point.middle_bps / RATE_BPS - 1) <= EGRESS_TOLERANCE
    small = point.memory_bytes <= MEMORY_BYTES
    required = "senders and middle at 10 Mbit/s +- 0.1 %, <= 8 GiB"
    return Check(f"{variant}: {point.hosts} hosts", required, point.words(), fair and full and small)


def _start_check(folder: Path, preset: str, most_s: int, settings: Sequence[str]) -> Check:
    spec = runs.write_spec(folder, preset, START_SPEC.format(preset=preset))
    result, cost = meter.run_spec(spec, folder / f"{preset}-run", settings)
    wall_s, memory_bytes, start_s = result.manifest["wall_s"], result.manifest["lab_peak_bytes"], _start_s(result)
    hops = int(result.records("queues")["tx_packets"][-len(result.ports) :].sum())
    finished, flows = result.summary["flows_done"], result.summary["flows"]
    words = (
        f"start {start_s:.1f} s ({', '.join(f'{name} {wall_s[name]:.2f}' for name in runs.START_PHASES)});"
        f" {finished:,} of {flows:,} flows done;"
        f" traffic {wall_s['traffic']:.1f} s, {1e6 * wall_s['traffic'] / hops:.2f} us a packet-hop;"
        f" {cost.wall_s:.1f} s wall, {cost.cpu_s:.1f} s CPU, {memory_bytes >> 20} MiB"
    )
    within = start_s <= most_s and memory_bytes <= MEMORY_BYTES and finished == flows
    return Check(f"{preset}: start", f"<= {most_s} s, all flows done, <= 8 GiB", words, within)


def measure(folder: Path, spec: Path, variant: str, hosts: int) -> ScalePoint:
    """Runs a variant with a number of hosts."""
    settings = (*VARIANTS[variant], f"topology.pairs={hosts // 2}")
    result, cost = meter.run_spec(spec, folder / f"{variant}-{hosts}", settings)
    rates = egress_bps(result)
    senders = tuple(rates[f"h{number}-eth0"] for number in range(1, hosts // 2 + 1))
    middle, goodput, peak = rates[f"s1-eth{hosts // 2 + 1}"], result.summary["goodput_bps"], result.manifest["lab_peak_bytes"]
    return ScalePoint(hosts, senders, middle, goodput, _start_s(result), cost, peak)


def egress_bps(result: Result) -> dict[str, float]:
    """Returns, by port, the frame bits per second that left its queue between the first and the last sample after the warm-up."""
    records = result.records("queues")
    settled = records[records["t_ns"] >= WARMUP_NS]
    times, ports = np.unique(settled["t_ns"]), result.names.port
    sent = settled["tx_bytes"].reshape(len(times), len(ports)).astype(np.float64)
    rates = (sent[-1] - sent[0]) * 8 / ((times[-1] - times[0]) * 1e-9)
    return dict(zip(ports, rates.tolist(), strict=True))


def slope(hosts: Sequence[int], values: Sequence[float]) -> float:
    """Returns the slope of a least-squares line through the logarithms; 1 is linear."""
    return float(np.polyfit(np.log(hosts), np.log(values), 1)[0])


def _start_s(result: Result) -> float:
    return float(sum(result.manifest["wall_s"][name] for name in runs.START_PHASES))
