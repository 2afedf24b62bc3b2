# SPDX-License-Identifier: Apache-2.0
"""Static shortest-path routing with equal-cost multipath: OpenFlow rules, computed in advance, without a controller.

A destination with one next hop gets an exact rule. Where several next hops are equally short, the hash of a flow is made
explicit: TCP and UDP packets fall into 256 buckets by the low four bits of both ports, others into 16 by the low two bits of
both addresses, and a table seeded by switch assigns a next hop to each bucket. A table is balanced in every row and column, so
that flows to one well-known port spread too. The same rules give a flow's path before a packet is sent (`path`).

Limits: host addresses only, no ARP (neighbours are static), no broadcast; at most 16 equal-cost next hops.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from dc_gym.errors import TopologyError
from dc_gym.topologies.graph import Graph, Port

PORT_MASK = 0xF  # TCP and UDP: low bits of either port
ADDRESS_MASK = 0x3  # other protocols: low bits of either address
MOST_NEXT_HOPS = PORT_MASK + 1
PORTED = ("tcp", "udp")

EXACT_PRIORITY = 50
OWN_PORTED_PRIORITY, OWN_OTHER_PRIORITY = 40, 30  # buckets of one destination
SHARED_PORTED_PRIORITY, SHARED_OTHER_PRIORITY = 20, 10  # buckets of every destination that is left


@dataclass(frozen=True, slots=True)
class Match:
    """What a packet must be. Bits are of the ports (tcp, udp) or of the addresses (ip); None: any."""

    protocol: str  # 'ip': any
    destination: str | None = None  # IPv4
    source_bits: int | None = None
    destination_bits: int | None = None

    def fields(self) -> list[str]:
        """The match in the words of ovs-ofctl(8)."""
        found = [self.protocol] + ([f"nw_dst={self.destination}"] if self.destination else [])
        for name, bits in (("src", self.source_bits), ("dst", self.destination_bits)):
            if bits is not None and self.protocol in PORTED:
                found.append(f"tp_{name}={bits:#x}/{PORT_MASK:#x}")
            elif bits is not None:
                found.append(f"nw_{name}=0.0.0.{bits}/0.0.0.{ADDRESS_MASK}")
        return found


@dataclass(frozen=True, slots=True)
class Rule:
    """One OpenFlow rule: the match of highest priority decides the port."""

    switch: str
    priority: int
    match: Match
    out_port: int  # OpenFlow number: i of sN-ethi

    def flow(self) -> str:
        """The rule as a line for `ovs-ofctl -O OpenFlow13 add-flow` or `add-flows`."""
        return ",".join([f"priority={self.priority}", *self.match.fields(), f"actions=output:{self.out_port}"])


@dataclass(frozen=True, slots=True)
class Router:
    """All rules of a network, by switch in graph order, and a look-up that finds what Open vSwitch would."""

    rules: tuple[Rule, ...]
    _index: dict[tuple[str, int, Match], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {(rule.switch, rule.priority, rule.match): rule.out_port for rule in self.rules}
        if len(index) != len(self.rules):
            raise TopologyError(f"rules: {len(self.rules)} have only {len(index)} different matches; make them distinct")
        object.__setattr__(self, "_index", index)

    def out_port(self, switch: str, packet: Packet) -> int | None:
        """The number of the port that a packet leaves by; None: no rule matches, it is dropped."""
        for priority, match in packet.matches():
            if (switch, priority, match) in self._index:
                return self._index[switch, priority, match]
        return None


@dataclass(frozen=True, slots=True)
class Packet:
    """The header fields that routing reads."""

    protocol: str
    source: str
    destination: str
    source_port: int
    destination_port: int

    def matches(self) -> Iterator[tuple[int, Match]]:
        """Every match that a rule for this packet can have, highest priority first."""
        low, high = self.source_port & PORT_MASK, self.destination_port & PORT_MASK
        near, far = _low_bits(self.source), _low_bits(self.destination)
        yield EXACT_PRIORITY, Match("ip", self.destination)
        yield OWN_PORTED_PRIORITY, Match(self.protocol, self.destination, low, high)
        yield OWN_OTHER_PRIORITY, Match("ip", self.destination, near)
        yield SHARED_PORTED_PRIORITY, Match(self.protocol, None, low, high)
        yield SHARED_OTHER_PRIORITY, Match("ip", None, near, far)


def route(graph: Graph, seed: int) -> Router:
    """The rules of every switch of the graph for every host, from one seed."""
    hops = _next_hops(graph)
    return Router(tuple(rule for switch in graph.switches for rule in _rules_of(graph, switch.name, hops[switch.name], seed)))


def path(graph: Graph, router: Router, src: str, dst: str, src_port: int, dst_port: int, proto: str = "tcp") -> list[str]:
    """The egress ports that the packets of a flow cross, from the sender's to that of the last switch."""
    if src == dst:
        raise TopologyError(f"path: source and destination are both {src!r}; name two hosts")
    packet = Packet(proto, graph.host(src).address, graph.host(dst).address, src_port, dst_port)
    port = graph.ports_of(src)[0]
    crossed = [port.ifname]
    while (node := graph.peer(port).node) != dst:
        if len(crossed) > len(graph.switches):
            raise TopologyError(f"path: {src} to {dst} loops through {', '.join(crossed[-4:])}; compute the rules for this graph")
        port = _egress(graph, router, node, packet)
        crossed.append(port.ifname)
    return crossed


def draw(seed: int, *labels: object) -> int:
    """64 bits that depend on nothing but the seed and the labels: SHA-256, so equal in every version of Python."""
    text = "/".join(["dcgym", str(seed), *[str(label) for label in labels]])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _egress(graph: Graph, router: Router, switch: str, packet: Packet) -> Port:
    number = router.out_port(switch, packet)
    if number is None:
        raise TopologyError(f"path: switch {switch} has no rule for {packet.destination}; compute the rules for this graph")
    return graph.port(f"{switch}-eth{number}")


def _next_hops(graph: Graph) -> dict[str, dict[str, tuple[int, ...]]]:
    """By switch and host: the numbers of the ports that are on a shortest path to it."""
    hops: dict[str, dict[str, tuple[int, ...]]] = {switch.name: {} for switch in graph.switches}
    toward: dict[str, dict[str, tuple[int, ...]]] = {}
    for host in graph.hosts:
        access = graph.peer(graph.ports_of(host.name)[0])
        if access.node not in toward:
            toward[access.node] = _ports_toward(graph, access.node)
        for switch, numbers in toward[access.node].items():
            hops[switch][host.name] = numbers or (access.number,)
    return hops


def _ports_toward(graph: Graph, target: str) -> dict[str, tuple[int, ...]]:
    """By switch: the ports that lead one hop nearer to the target switch; none at the target itself."""
    distance = _distances(graph, target)
    return {
        switch: tuple(port.number for port in graph.ports_of(switch) if distance.get(graph.peer(port).node, far) < far)
        for switch, far in distance.items()
    }


def _distances(graph: Graph, target: str) -> dict[str, int]:
    """Hops from every switch to the target switch, by breadth-first search. Hosts forward nothing."""
    distance, todo = {target: 0}, deque([target])
    switches = {switch.name for switch in graph.switches}
    while todo:
        node = todo.popleft()
        for neighbour in graph.neighbours(node):
            if neighbour in switches and neighbour not in distance:
                distance[neighbour] = distance[node] + 1
                todo.append(neighbour)
    return distance


def _rules_of(graph: Graph, switch: str, hops: dict[str, tuple[int, ...]], seed: int) -> list[Rule]:
    """Exact rules; then buckets: shared by the largest group of destinations with equal next hops, their own for the others."""
    groups: dict[tuple[int, ...], list[str]] = {}
    rules = []
    for host in graph.hosts:
        numbers = hops.get(host.name, ())
        if len(numbers) == 1:
            rules.append(Rule(switch, EXACT_PRIORITY, Match("ip", host.address), numbers[0]))
        elif numbers:
            groups.setdefault(numbers, []).append(host.address)
    shared = max(groups, key=lambda numbers: len(groups[numbers]), default=())
    for numbers, addresses in groups.items():
        for address in [None] if numbers == shared else addresses:
            rules += _bucket_rules(switch, numbers, address, seed)
    return rules


def _bucket_rules(switch: str, numbers: Sequence[int], address: str | None, seed: int) -> list[Rule]:
    """The buckets of one set of next hops, for one destination or (None) for every one that has no rule of its own."""
    if len(numbers) > MOST_NEXT_HOPS:
        raise TopologyError(f"next hops of {switch}: value {len(numbers)} is above {MOST_NEXT_HOPS}; use fewer parallel paths")
    ported = OWN_PORTED_PRIORITY if address else SHARED_PORTED_PRIORITY
    other = OWN_OTHER_PRIORITY if address else SHARED_OTHER_PRIORITY
    rows = _permutation(seed, "ecmp", switch, numbers, "source")
    columns = _permutation(seed, "ecmp", switch, numbers, "destination")
    rules = [
        Rule(switch, ported, Match(protocol, address, low, high), numbers[(row + column) % len(numbers)])
        for protocol in PORTED
        for low, row in enumerate(rows)
        for high, column in enumerate(columns)
    ]
    width = ADDRESS_MASK + 1
    for near in range(width):
        for far in [_low_bits(address)] if address else range(width):
            match = Match("ip", address, near, None if address else far)
            rules.append(Rule(switch, other, match, numbers[rows[near * width + far] % len(numbers)]))
    return rules


def _permutation(seed: int, *labels: object) -> list[int]:
    """A seeded order of 0..15."""
    return sorted(range(MOST_NEXT_HOPS), key=lambda number: draw(seed, *labels, number))


def _low_bits(address: str) -> int:
    return int(IPv4Address(address)) & ADDRESS_MASK
