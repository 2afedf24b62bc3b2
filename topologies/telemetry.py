# SPDX-License-Identifier: Apache-2.0
"""In-band telemetry of a network as plain data: the table of its line rates, the units in which records count, and which networks
have it.

The form of records is kernel/drivers/lab_int.h, HPCC's (Li et al., SIGCOMM 2019): a record names its port's line rate by the
place in this table, and its fields count in units of that rate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from dc_gym.base.errors import TopologyError
from dc_gym.base.units import format_rate
from dc_gym.topologies.graph import TELEMETRY_RATES, Cable, Graph, Port, Telemetry

MOST_HOPS, MOST_RATES, TELEMETRY_BYTES = 5, TELEMETRY_RATES, 42
"""LAB_INT_HOPS, LAB_INT_RATES and LAB_INT_BYTES of lab_int.h."""
WRITES = "port"
"""The kind of queue whose ports write records."""
REFERENCE_BPS = 25 * 10**9
QUEUE_UNIT_BYTES, SENT_UNIT_BYTES = 80, 128
MBPS = 10**6


@dataclass(frozen=True, slots=True)
class RateUnits:
    """One line rate, and the units of records of its ports: struct cc_rate of ctrl/nic/cc.h."""

    rate_bps: int
    time_ns: int
    """1 ns at 25 Gbit/s and above, in proportion below. Proportions are rounded up, so that no field wraps earlier than there."""
    sent_bytes: int
    """128 bytes at 25 Gbit/s and below, in proportion above."""
    queue_bytes: int
    """80 bytes at 25 Gbit/s and below, in proportion above."""

    @property
    def mbps(self) -> int:
        """The rate in the unit of algorithms, in whole Mbit/s, at least 1."""
        return max(1, self.rate_bps // MBPS)

    def words(self) -> tuple[int, int, int, int]:
        """Returns the words of struct cc_rate."""
        return self.time_ns, self.sent_bytes, self.queue_bytes, self.mbps

    def record(self, rate_index: int, time_ns: int, sent_bytes: int, queue_bytes: int) -> int:
        """Returns a record, as lab_int_record() does. `rate_index` is the rate's index in its table."""
        queue = min(queue_bytes // self.queue_bytes, 2**17 - 1)
        return rate_index << 61 | time_ns // self.time_ns % 2**24 << 37 | sent_bytes // self.sent_bytes % 2**20 << 17 | queue


def units(rate_bps: int) -> RateUnits:
    """Returns the units of a line rate."""
    slow, fast = max(REFERENCE_BPS, rate_bps), min(REFERENCE_BPS, rate_bps)
    return RateUnits(
        rate_bps=rate_bps,
        time_ns=-(-REFERENCE_BPS // fast),
        sent_bytes=-(-SENT_UNIT_BYTES * slow // REFERENCE_BPS),
        queue_bytes=-(-QUEUE_UNIT_BYTES * slow // REFERENCE_BPS),
    )


def table_of(rates_bps: Iterable[int]) -> tuple[RateUnits, ...]:
    """Returns the table of these rates, the slowest first. Raises TopologyError if there are more than records can name."""
    known = sorted(set(rates_bps))
    if len(known) > MOST_RATES:
        rates_text = ", ".join(map(format_rate, known))
        raise TopologyError(
            f"telemetry names a port's rate by one of {MOST_RATES} places, and ports of the switches have "
            f"{len(known)} rates: {rates_text}; give fewer"
        )
    return tuple(map(units, known))


def rate_table(graph: Graph, further_bps: Collection[int] = ()) -> tuple[RateUnits, ...]:
    """Returns the table of a network: the rates of its switches' ports, and the rates that they get later."""
    return table_of([*further_bps, *(graph.cable_of(port).rate_bps for port in graph.switch_ports())])


def words(table: Sequence[RateUnits]) -> list[tuple[int, int, int, int]]:
    """Returns all places of a table as words, unused places as zeros."""
    return [*(rate.words() for rate in table), *[(0, 0, 0, 0)] * (MOST_RATES - len(table))]


def told_of(table: Sequence[RateUnits]) -> dict[int, Telemetry]:
    """Returns the place and units of a port's records, by its rate."""
    return {rate.rate_bps: Telemetry(index, rate.time_ns, rate.sent_bytes, rate.queue_bytes) for index, rate in enumerate(table)}


def equipped(graph: Graph, further_bps: Collection[int] = ()) -> Graph:
    """Returns the network with telemetry at all ports that can write it: each queue has its rate's place and units."""
    by_rate = told_of(rate_table(graph, further_bps))

    def telling(port: Port, cable: Cable) -> Port:
        return port if port.queue.kind != WRITES else replace(port, queue=replace(port.queue, telemetry=by_rate[cable.rate_bps]))

    return replace(graph, cables=tuple(cable.with_ports(telling) for cable in graph.cables))


def check(graph: Graph, algorithm: str, further_bps: Collection[int] = ()) -> None:
    """Raises TopologyError unless all ports of switches write telemetry and the table has room for their rates."""
    for port in graph.switch_ports():
        if port.queue.kind != WRITES:
            raise TopologyError(
                f"controller {algorithm!r} reads telemetry, and port {port.ifname} ({port.queue.kind}) writes none; give "
                f'topology.qdisc = "{WRITES}" (on ground "host" it comes with the cable), or another controller'
            )
    rate_table(graph, further_bps)


def check_paths(graph: Graph, paths: Iterable[Sequence[str]], algorithm: str) -> None:
    """Raises TopologyError if a flow's path, given as the ports that it crosses, has more switch ports than records."""
    switches = {switch.name for switch in graph.switches}
    for path in paths:
        hops = sum(graph.port(ifname).node in switches for ifname in path)
        if hops > MOST_HOPS:
            raise TopologyError(
                f"controller {algorithm!r} reads telemetry of at most {MOST_HOPS} switch ports, and the path {' '.join(path)} "
                f"has {hops}; give a network with shorter paths, or another controller"
            )
