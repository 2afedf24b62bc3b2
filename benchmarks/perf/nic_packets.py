# SPDX-License-Identifier: Apache-2.0
"""Compares the cost of a data packet in the lab for a NIC with that for DCTCP, with all that a packet causes.

That includes ACKs, CNPs, decisions and their trace. Both send long flows into one port of the same switch, once for a shorter and
once for a longer time. The shorter run is the beginning of the longer one, packet for packet. So their difference is the cost of
the packets in between, without set-up and start.

Runs of both take turns, and the fastest of each counts, since other load makes all of them slower. CPU time is that of the whole
`dcgym run`, including the result's tables; wall time is that of the traffic alone. Both must pass: on a busy machine the wall
time alone says little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.benchmarks.perf import meter
from dc_gym.records.results import Result
from dc_gym.sweep import runs

NIC, TCP = "dcqcn", "dctcp"
MOST = 1.0
REPEATS = 3
LENGTHS_MS: Mapping[int, tuple[int, int]] = {2: (100, 250), 512: (300, 450)}
"""By the number of flows: a time when they have settled, and one when there are enough packets."""
SENDERS = 4
SPEC = """
spec_version = 1
name = "nic-cost"
topology = { preset = "dctcp-10g", buffer = "16MB" }
controller.name = "dctcp"
workload.kind = "many_to_one"
monitor.interval = "10ms"
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of a run until its end."""

    packets: int
    """Packets that the senders' ports sent: data, and data sent again."""
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class PacketCost:
    packets: int
    wall_us: float
    cpu_us: float


def checks() -> Iterator[Check]:
    with runs.scratch("nic-cost") as folder:
        spec = runs.write_spec(folder, "nic-cost", SPEC)
        for flows, lengths_ms in LENGTHS_MS.items():
            spent = measured(folder, spec, flows, lengths_ms, REPEATS)
            yield check(flows, cost(*spent[NIC]), cost(*spent[TCP]))


def measured(
    folder: Path, spec: Path, flows: int, lengths_ms: Sequence[int], repeats: int
) -> dict[str, tuple[list[Spent], list[Spent]]]:
    """Returns, by controller, its shorter and its longer runs."""
    found: dict[str, tuple[list[Spent], list[Spent]]] = {name: ([], []) for name in (NIC, TCP)}
    for repeat in range(repeats):
        for which, length_ms in enumerate(lengths_ms):
            for name, its in found.items():
                settings = (f"controller.name={name}", f"workload.flows={flows}", f"time.duration={length_ms}ms")
                result, spent = meter.run_spec(spec, folder / f"{name}-{flows}-{length_ms}-{repeat}", settings)
                its[which].append(Spent(sent_packets(result), result.manifest["wall_s"]["traffic"], spent.cpu_s))
    return found


def sent_packets(result: Result) -> int:
    """Returns the packets sent by all senders' ports until the last sample."""
    queues = result.records("queues")
    last = queues[queues["t_ns"] == queues["t_ns"].max()]
    senders = {f"h{number + 1}-eth0" for number in range(SENDERS)}
    ours = [name in senders for name in result.names.port]
    return int(np.asarray(last["tx_packets"], np.int64)[ours].sum())


def cost(short: Sequence[Spent], long: Sequence[Spent]) -> PacketCost:
    packets = long[0].packets - short[0].packets
    wall_s = min(each.wall_s for each in long) - min(each.wall_s for each in short)
    cpu_s = min(each.cpu_s for each in long) - min(each.cpu_s for each in short)
    return PacketCost(packets, wall_s / packets * 1e6, cpu_s / packets * 1e6)


def check(flows: int, nic: PacketCost, tcp: PacketCost) -> Check:
    wall, cpu = nic.wall_us / tcp.wall_us, nic.cpu_us / tcp.cpu_us
    words = f"wall {wall:.2f}x: {nic.wall_us:.1f} us against {tcp.wall_us:.1f}"
    words += f"; CPU {cpu:.2f}x: {nic.cpu_us:.1f} us against {tcp.cpu_us:.1f}"
    name = f"a data packet in the lab, {flows} flows"
    return Check(name, f"<= {MOST:g}x DCTCP's", f"{words}; {nic.packets:,} and {tcp.packets:,} packets", max(wall, cpu) <= MOST)
