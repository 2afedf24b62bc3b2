# SPDX-License-Identifier: Apache-2.0
"""Checks the speed of whole `dcgym run` processes, with queues sampled every 10 ms; and of packets, of TCP and of NICs.

Wall time depends on the machine, so each check is a ratio: to the virtual time of the same run, or of DCQCN in NICs to DCTCP.

A data packet's cost includes everything that it causes: ACKs, CNPs, decisions and their trace. Both controllers send long flows
into one port of the same switch, once for a shorter and once for a longer time. The shorter run is the beginning of the longer
one, packet for packet, so their difference is the cost of the packets in between, without set-up and start. Runs of both take
turns, and the fastest of each counts, since other load makes all of them slower. CPU time is measured over the whole `dcgym run`,
including the result's tables; wall time over the traffic alone. Both must pass: on a busy machine the wall time alone proves
little. A packet-hop is a frame sent over a cable.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.benchmarks.perf import meter
from dc_gym.results.results import Result
from dc_gym.run.sweep import runs

REPEATS = 3
SPEC = runs.plain_spec("speed", "dumbbell-10m", "60s") + 'monitor.interval = "10ms"\n'
ONE_GIGABIT = ("topology.preset=dumbbell-1g", "time.duration=5s")
NIC, TCP = "dcqcn", "dctcp"
MOST = 1.0
"""The most that a packet of the NIC may cost, as a multiple of the cost of a packet of TCP."""
LENGTHS_MS: Mapping[int, tuple[int, int]] = {2: (100, 250), 512: (300, 450)}
"""By the number of flows: a time when they have settled, and one when there are enough packets."""
SENDERS = 4
PACKETS = """
spec_version = 1
name = "packets"
topology = { preset = "dctcp-10g", buffer = "16MB" }
controller.name = "dctcp"
workload.kind = "many_to_one"
monitor.interval = "10ms"
"""


class Spent(NamedTuple):
    """The packets that a run had sent at its end, and the time that it had spent."""

    packets: int
    """Packets that the senders' ports sent: data, and data sent again."""
    hops: int
    wall_s: float
    cpu_s: float


def checks() -> Iterable[Check]:
    with runs.scratch("speed") as folder:
        spec = runs.write_spec(folder, "speed", SPEC)
        (virtual_s, wall_s, traffic_s), words = _median(folder, spec, "dumbbell-10m", ())
        whole, traffic = virtual_s / wall_s, virtual_s / traffic_s
        yield Check("dumbbell-10m, 60 s: the whole run", ">= 10x real time", f"{whole:.1f}x ({words})", whole >= 10)
        yield Check("dumbbell-10m: traffic phase", ">= 50x", f"{traffic:.1f}x", traffic >= 50)
        (virtual_s, _, traffic_s), words = _median(folder, spec, "dumbbell-1g", ONE_GIGABIT)
        ratio = virtual_s / traffic_s
        yield Check("dumbbell-1g, 5 s: traffic phase", ">= 0.7x", f"{ratio:.2f}x ({words})", ratio >= 0.7)
        spec = runs.write_spec(folder, "packets", PACKETS)
        for flows, lengths_ms in LENGTHS_MS.items():
            spent = packets(folder, spec, flows, lengths_ms, REPEATS)
            yield packet_check(flows, added(*spent[NIC]), added(*spent[TCP]))


def _median(folder: Path, spec: Path, name: str, settings: tuple[str, ...]) -> tuple[tuple[float, float, float], str]:
    """Returns the virtual time, the wall time and the traffic's wall time of the run with the median, and its phases."""
    trials = [meter.run_spec(spec, folder / f"{name}-{number}", settings) for number in range(REPEATS)]
    result, cost = sorted(trials, key=lambda run: run[1].wall_s)[statistics.median_low(range(REPEATS))]
    phases_s = result.manifest["wall_s"]
    words = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in phases_s.items())
    words += f"; {result.manifest['lab_loop_events'] / result.manifest['lab_events']:.1%} of the links' events in the loop"
    return (result.manifest["virtual_s"], cost.wall_s, phases_s["traffic"]), f"{cost.wall_s:.2f} s: {words}"


def packets(
    folder: Path, spec: Path, flows: int, lengths_ms: Sequence[int], repeats: int
) -> dict[str, tuple[list[Spent], list[Spent]]]:
    """Returns, by controller, its shorter and its longer runs."""
    spent: dict[str, tuple[list[Spent], list[Spent]]] = {name: ([], []) for name in (NIC, TCP)}
    for repeat in range(repeats):
        for index, length_ms in enumerate(lengths_ms):
            for name, its in spent.items():
                settings = (f"controller.name={name}", f"workload.flows={flows}", f"time.duration={length_ms}ms")
                result, cost = meter.run_spec(spec, folder / f"{name}-{flows}-{length_ms}-{repeat}", settings)
                its[index].append(Spent(*sent(result), result.manifest["wall_s"]["traffic"], cost.cpu_s))
    return spent


def sent(result: Result) -> tuple[int, int]:
    """Returns the packets sent by all senders' ports until the last sample, and by all ports."""
    queues = result.records("queues")
    last = np.asarray(queues["tx_packets"][queues["t_ns"] == queues["t_ns"].max()], np.int64)
    senders = {f"h{number + 1}-eth0" for number in range(SENDERS)}
    return int(last[[name in senders for name in result.names.port]].sum()), int(last.sum())


def added(short: Sequence[Spent], long: Sequence[Spent]) -> Spent:
    """Returns the packets and times that the longer runs have more than the shorter ones: minima of each are subtracted."""
    return Spent(*(np.min(long, axis=0) - np.min(short, axis=0)).tolist())


def packet_check(flows: int, nic: Spent, tcp: Spent) -> Check:
    wall, cpu, hop = (
        [1e6 * getattr(side, spent) / getattr(side, of) for side in (nic, tcp)]
        for spent, of in (("wall_s", "packets"), ("cpu_s", "packets"), ("cpu_s", "hops"))
    )
    words = f"wall {wall[0] / wall[1]:.2f}x: {wall[0]:.1f} us against {wall[1]:.1f}"
    words += f"; CPU {cpu[0] / cpu[1]:.2f}x: {cpu[0]:.1f} us against {cpu[1]:.1f}, a packet-hop {hop[0]:.3f} and {hop[1]:.3f} us"
    within = max(wall[0] / wall[1], cpu[0] / cpu[1]) <= MOST
    name = f"a data packet, {flows} flows: DCQCN in NICs / DCTCP"
    return Check(name, f"<= {MOST:g}x", f"{words}; {nic.packets:,.0f} and {tcp.packets:,.0f} packets", within)
