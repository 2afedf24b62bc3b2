# SPDX-License-Identifier: Apache-2.0
"""Shared buffers and pauses of a network as plain data: the classes of ports, the pool of each switch, and when ports pause their
peers.

A switch's buffer of `topology.shared_buffer` bytes is divided: each class of each port has a reserve, each port keeps headroom
for the bytes that its peer sends until a pause acts, and the rest is the pool. kernel/drivers/port_buffer.c takes room in that
order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dc_gym.base.amount import Size
from dc_gym.base.errors import SpecError, TopologyError
from dc_gym.base.key import COUNT, FLAG, TEXT, THRESHOLD, KeyFault, Kind, entries, key, own_keys, tables_of
from dc_gym.base.units import NoQuantity, format_size, parse_size_bytes
from dc_gym.topologies import marking
from dc_gym.topologies.graph import CLASSES, DSCPS, Cable, Graph, Pause, Pool, Port, Queue

MARKINGS = marking.KINDS
PERCENT = 100
PAUSE_FRAME_BYTES = 60
LARGEST_QUANTA = 65535
PFC = ("off", "classes", "port")
XOFF_RULES = {"fdcc": Fraction(1, 16), "acc": Fraction(1, 9)}
"""Shares of the pool's free room: FDCC, (buffer - headroom - reserve - shared) / 16; ACC, a / (1 + a) of it with a = 1/8."""
XON_BELOW_BYTES = 3000
"""HPCC's simulator: `resume_offset` of switch-mmu.cc."""
Xoff = int | Fraction
NS_BITS = 8 * 10**9


def _dscps(value: list[Any]) -> tuple[int, ...]:
    if not all(type(dscp) is int and 0 <= dscp < DSCPS for dscp in value):
        raise SpecError("dscp: not a list of numbers below 64")
    return tuple(value)


def _xoff(value: str) -> Xoff:
    """Parses a rule's name, a share such as '1/16', or bytes."""
    if value in XOFF_RULES:
        return XOFF_RULES[value]
    top, slash, bottom = value.partition("/")
    if slash and top.isdecimal() and bottom.isdecimal() and 0 < int(top) <= int(bottom) < 2**16:
        return Fraction(int(top), int(bottom))
    try:
        return parse_size_bytes(value, "xoff")
    except NoQuantity:
        raise SpecError("xoff: neither a share, nor a rule, nor a size") from None


def _write_xoff(value: Xoff) -> str:
    return format_size(value) if isinstance(value, int) else f"{value.numerator}/{value.denominator}"


DSCP_LIST = Kind((list,), "a list such as [26, 34]", _dscps, list)
XOFF = Kind((str,), 'a share of the free room such as "1/16", "fdcc", "acc", or a size such as "100kB"', _xoff, _write_xoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """An entry of `[[topology.classes]]`: a class of all ports. A class inherits from its link every key that it does not set."""

    name: str = key(TEXT, needed=True, help="its name in results")
    dscp: tuple[int, ...] = key(
        DSCP_LIST, needed=True, help="the DSCPs of its packets; those that no class names belong to the first class"
    )
    weight: int | None = key(
        COUNT,
        low=1,
        high=PERCENT,
        otherwise="strict priority",
        help="percent of what strict classes leave, by deficit round robin; weights sum to 100. A class without weight goes"
        " before all with one, and a later class before an earlier one",
    )
    lossless: bool | None = key(
        FLAG,
        otherwise="false",
        help="its packets wait instead of being dropped: needs `pfc`",
    )
    buffer_bytes: Size | None = key(THRESHOLD, low=1, otherwise="the link's", help="queue limit of a lossy class, as `buffer`")
    marking: str | None = key(TEXT, names=marking.names, otherwise="the link's", help="ECN marking, by the queue of the class")
    thresholds: tuple[tuple[str, Any], ...] = own_keys(MARKINGS)
    """The keys that markings declare, as the file gives them."""


def _class_rules(tables: list[Any]) -> tuple[ClassRule, ...]:
    """Returns the entries of [[topology.classes]]."""
    needed = {"name": 'write a name such as "rdma"', "dscp": f"write {DSCP_LIST.example}"}
    rules = tuple(rule for _, rule in entries(tables, "topology.classes", ClassRule, needed))
    _check_rules(rules)
    return rules


def _check_rules(rules: tuple[ClassRule, ...]) -> None:
    class_of: dict[int, str] = {}
    for number, rule in enumerate(rules):
        for dscp in rule.dscp:
            if dscp in class_of:
                reason = f"is of class {class_of[dscp]!r}, too; give each DSCP to one class"
                raise KeyFault(f"topology.classes[{number}].dscp", dscp, reason)
            class_of[dscp] = rule.name
    names = [rule.name for rule in rules]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise KeyFault("topology.classes", None, f"two classes have the name {twice!r}; rename one")
    weights = [rule.weight for rule in rules if rule.weight is not None]
    if weights and sum(weights) != PERCENT:
        raise KeyFault("topology.classes", None, f"their weights sum to {sum(weights)}; make it {PERCENT}")
    if len(rules) > CLASSES:
        raise KeyFault("topology.classes", None, f"{len(rules)} classes are above {CLASSES}, which a port has; give fewer")


CLASS_RULES = tables_of("topology.classes", ClassRule, _class_rules, ("name", "dscp"))


def quanta_of_weights(rules: tuple[ClassRule, ...], frame_bytes: int) -> dict[str, int]:
    """Returns the bytes in a round of deficit round robin by class: a full frame for the smallest weight. 0: strict."""
    smallest = min((rule.weight for rule in rules if rule.weight is not None), default=PERCENT)
    return {rule.name: -(-frame_bytes * (rule.weight or 0) // smallest) for rule in rules}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBuffers:
    """The rule by which switches share their buffers and pause their peers."""

    bytes: int
    reserve_bytes: int
    pfc: str
    xoff: Xoff
    xon_below_bytes: int
    headroom_bytes: int | None
    quanta: int

    def equipped(self, graph: Graph) -> Graph:
        """Returns the network with a pool for each switch, and pauses at the ports of switches.

        Raises TopologyError if a buffer is smaller than its reserves and headrooms.
        """
        pools = {switch.name: self._pool(graph, switch.name, number) for number, switch in enumerate(graph.switches, 1)}

        def port(end: Port, cable: Cable) -> Port:
            if end.node not in pools:
                return end
            pause = self._pause(end.queue, cable, graph.frame_bytes) if self.pfc != "off" else None
            return replace(end, queue=replace(end.queue, pool=pools[end.node], pause=pause))

        return replace(graph, cables=tuple(cable.with_ports(port) for cable in graph.cables))

    def _pool(self, graph: Graph, switch: str, number: int) -> Pool:
        ports = graph.ports_of(switch)
        reserves = sum(self.reserve_bytes * len(port.queue.classes) for port in ports)
        headrooms = sum(
            lossless(port.queue) * self._headroom_bytes(port.queue, graph.cable_of(port), graph.frame_bytes) for port in ports
        )
        left = self.bytes - reserves - headrooms
        if left <= 0:
            reason = f"{switch} reserves {reserves} bytes for classes and {headrooms} for headroom"
            raise TopologyError(f"topology.shared_buffer: {self.bytes} bytes are too few, for {reason}; enlarge it")
        return Pool(number, left)

    def _headroom_bytes(self, queue: Queue, cable: Cable, frame_bytes: int) -> int:
        return headroom_bytes(cable, lossless(queue), frame_bytes) if self.headroom_bytes is None else self.headroom_bytes

    def _pause(self, queue: Queue, cable: Cable, frame_bytes: int) -> Pause:
        share = Fraction(0) if isinstance(self.xoff, int) else self.xoff
        return Pause(
            xoff_bytes=self.xoff if isinstance(self.xoff, int) else 0,
            share=share.numerator,
            share_of=0 if isinstance(self.xoff, int) else share.denominator,
            xon_below_bytes=self.xon_below_bytes,
            reserve_bytes=self.reserve_bytes,
            headroom_bytes=self._headroom_bytes(queue, cable, frame_bytes),
            quanta=self.quanta,
            whole_port=self.pfc == "port",
        )


def lossless(queue: Queue) -> int:
    """Returns the number of a port's lossless classes."""
    return sum(queue_class.lossless for queue_class in queue.classes)


def headroom_bytes(cable: Cable, classes: int, frame_bytes: int) -> int:
    """Returns the bytes that may still come in after a port decides to pause one of `classes` lossless classes.

    `cable` is the port's, as the port sends into it.

    The decision falls with a frame that may have to go to headroom itself. The PAUSE frame waits for a frame under way and for
    frames of the other classes, takes its own time and the delay. Then the peer ends the frame that it has begun, and the frames
    on their way arrive. Impairments that delay frames count twice, as the delay does.
    """
    arriving = cable.back or cable
    delays_ns = [way.delay_ns + way.impairment.jitter_ns + way.impairment.reorder_delay_ns for way in (cable, arriving)]
    on_the_way = -(-sum(delays_ns) * arriving.rate_bps // NS_BITS)
    return on_the_way + classes * PAUSE_FRAME_BYTES + 3 * frame_bytes


def pausing_ports(graph: Graph) -> Iterator[Port]:
    """Yields the ports that pause their peers."""
    return (port for port in graph.switch_ports() if port.queue.pause is not None)


def short_of_headroom(graph: Graph) -> Iterator[tuple[Port, int]]:
    """Yields the ports that have less headroom than they need, and the bytes that they need."""
    for port in pausing_ports(graph):
        needed = headroom_bytes(graph.cable_of(port), lossless(port.queue), graph.frame_bytes)
        if port.queue.pause is not None and port.queue.pause.headroom_bytes < needed:
            yield port, needed
