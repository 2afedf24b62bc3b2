# SPDX-License-Identifier: Apache-2.0
"""Static shortest-path routing with equal-cost multipath: OpenFlow rules, computed in advance, without a controller.

A destination with one next hop gets an exact rule. Where several next hops are equally short, the rules make the hash of a flow
explicit. TCP and UDP packets fall into 256 buckets by the low four bits of both ports. Other packets fall into 16 buckets by the
low two bits of both addresses. A table, seeded by switch, assigns a next hop to each bucket. It is balanced in every row and
column, so that flows to one well-known port spread too. The same rules tell a flow's path before a packet is sent (`path`).
The largest group of destinations with equal next hops has its buckets in table 0, below the exact rules. For each other group (a
spine with parallel links to every leaf) an exact rule sets the group's number and continues with the buckets of table 1.
A host's addresses are routed one by one, so planes do not mix as long as a flow uses addresses of one plane.

Limits: host addresses only, no ARP (neighbours are static), no broadcast, at most 16 equal-cost next hops.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from dc_gym.base.errors import TopologyError
from dc_gym.topologies.graph import PORT_MASK, Graph, Port

ADDRESS_MASK = 0x3  # other protocols: low bits of either address
MOST_NEXT_HOPS = PORT_MASK + 1
PORTED = ("tcp", "udp")
ROUTINGS = ("ecmp", "single")

EXACT_PRIORITY = 50
PORTED_PRIORITY, OTHER_PRIORITY = 20, 10  # the buckets of all other destinations in table 0, and those of a group in table 1


@dataclass(frozen=True, slots=True)
class Match:
    """The conditions on a packet. The bits are those of the ports (tcp, udp) or of the addresses (ip). None matches anything."""

    protocol: str  # 'ip' matches any protocol
    destination: str | None = None  # IPv4
    source_bits: int | None = None
    destination_bits: int | None = None
    group: int = 0  # group that an earlier rule assigned to the packet; matched in table 1

    def fields(self) -> list[str]:
        """Returns the match in the syntax of ovs-ofctl(8)."""
        found = [self.protocol] + ([f"nw_dst={self.destination}"] if self.destination else [])
        found += [f"metadata={self.group:#x}"] if self.group else []
        for name, bits in (("src", self.source_bits), ("dst", self.destination_bits)):
            if bits is not None and self.protocol in PORTED:
                found.append(f"tp_{name}={bits:#x}/{PORT_MASK:#x}")
            elif bits is not None:
                found.append(f"nw_{name}=0.0.0.{bits}/0.0.0.{ADDRESS_MASK}")
        return found


@dataclass(frozen=True, slots=True)
class Rule:
    """One OpenFlow rule. Of the rules that match a packet, the one with the highest priority decides the port."""

    switch: str
    priority: int
    match: Match
    out_port: int  # OpenFlow number: i of sN-ethi; 0: none, the group decides
    group: int = 0  # continue with the buckets of this group in table 1

    def flow(self) -> str:
        """Returns the rule as a line for `ovs-ofctl -O OpenFlow13 add-flow` or `add-flows`."""
        table = ["table=1"] if self.match.group else []
        action = f"write_metadata:{self.group:#x},goto_table:1" if self.group else f"output:{self.out_port}"
        return ",".join([*table, f"priority={self.priority}", *self.match.fields(), f"actions={action}"])


@dataclass(frozen=True, slots=True)
class Router:
    """All rules of a network, by switch in graph order, with a look-up that finds the same rule as Open vSwitch."""

    rules: tuple[Rule, ...]
    _index: dict[tuple[str, int, Match], Rule] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {(rule.switch, rule.priority, rule.match): rule for rule in self.rules}
        if len(index) != len(self.rules):
            raise TopologyError(f"rules: {len(self.rules)} have only {len(index)} different matches; make them distinct")
        object.__setattr__(self, "_index", index)

    def out_port(self, switch: str, packet: Packet) -> int | None:
        """Returns the number of the port by which a packet leaves. None: no rule matches, so the packet is dropped."""
        rule = self._look_up(switch, packet.matches())
        if rule is not None and rule.group:
            rule = self._look_up(switch, packet.buckets(rule.group))
        return rule.out_port if rule is not None else None

    def _look_up(self, switch: str, matches: Iterator[tuple[int, Match]]) -> Rule | None:
        return next((rule for priority, match in matches if (rule := self._index.get((switch, priority, match)))), None)


@dataclass(frozen=True, slots=True)
class Packet:
    """The header fields that routing reads."""

    protocol: str
    source: str
    destination: str
    source_port: int
    destination_port: int

    def matches(self) -> Iterator[tuple[int, Match]]:
        """Yields every match that a rule of table 0 for this packet can have, highest priority first."""
        yield EXACT_PRIORITY, Match("ip", self.destination)
        yield from self.buckets(0)

    def buckets(self, group: int) -> Iterator[tuple[int, Match]]:
        """Yields the matches of a group's buckets that this packet can have."""
        ported = self.source_port & PORT_MASK, self.destination_port & PORT_MASK
        other = _low_bits(self.source), _low_bits(self.destination)
        yield PORTED_PRIORITY, Match(self.protocol, None, *ported, group)
        yield OTHER_PRIORITY, Match("ip", None, *other, group)


def route(graph: Graph, seed: int, routing: str = "ecmp", without: Collection[str] = ()) -> Router:
    """Returns the rules of every switch of the graph for every host, from one seed. `routing` is one of ROUTINGS.

    `without` names ports whose frames go nowhere: each is one direction of a cable. A switch has no rule for a host that it
    cannot reach without them.

    'single' leaves one path to a host, the same for all packets: no rule reads a port, and the seed has no effect.
    """
    hops = _next_hops(graph, without)
    if routing == "single":
        hops = _single(graph, hops)
    return Router(tuple(rule for switch in graph.switches for rule in _rules_of(graph, switch.name, hops[switch.name], seed)))


def path(
    graph: Graph, router: Router, src: str, dst: str, src_port: int, dst_port: int, proto: str = "tcp", plane: int = 0
) -> list[str]:
    """Returns the egress ports that the packets of a flow cross in a plane, from the sender's port to the last switch's."""
    if src == dst:
        raise TopologyError(f"path: source and destination are both {src!r}; name two hosts")
    near, far = graph.host(src).nics, graph.host(dst).nics
    if plane >= min(len(near), len(far)):
        raise TopologyError(f"path: {src} and {dst} are not both in plane {plane}; name one that both have a port in")
    packet = Packet(proto, near[plane].address, far[plane].address, src_port, dst_port)
    port = graph.ports_of(src)[plane]
    crossed = [port.ifname]
    while (node := graph.peer(port).node) != dst:
        if len(crossed) > len(graph.switches):
            raise TopologyError(f"path: {src} to {dst} loops through {', '.join(crossed[-4:])}; compute the rules for this graph")
        port = _egress(graph, router, node, packet)
        crossed.append(port.ifname)
    return crossed


def draw(seed: int, *labels: object) -> int:
    """Returns 64 bits that depend only on the seed and the labels.

    They come from SHA-256, so they are equal in every version of Python.
    """
    text = "/".join(["dcgym", str(seed), *[str(label) for label in labels]])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _egress(graph: Graph, router: Router, switch: str, packet: Packet) -> Port:
    number = router.out_port(switch, packet)
    if number is None:
        raise TopologyError(f"path: switch {switch} has no rule for {packet.destination}; compute the rules for this graph")
    return graph.port(f"{switch}-eth{number}")


def _next_hops(graph: Graph, without: Collection[str]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Returns by switch and host address the numbers of the ports that are on a shortest path to that address."""
    hops: dict[str, dict[str, tuple[int, ...]]] = {switch.name: {} for switch in graph.switches}
    toward: dict[str, dict[str, tuple[int, ...]]] = {}
    for host in graph.hosts:
        for port, nic in zip(graph.ports_of(host.name), host.nics, strict=True):
            access = graph.peer(port)
            if access.node not in toward:
                toward[access.node] = _ports_toward(graph, access.node, without)
            for switch, numbers in toward[access.node].items():
                hops[switch][nic.address] = numbers or (access.number,)
    return hops


def _single(graph: Graph, hops: dict[str, dict[str, tuple[int, ...]]]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Keeps one next hop for each host.

    At the edge, hosts take the next hops in turn. At the layer above, the hosts that share an edge next hop take theirs in turn.
    """
    order = {nic.address: number for number, nic in enumerate(nic for host in graph.hosts for nic in host.nics)}

    def choose(edge: bool, address: str, numbers: tuple[int, ...]) -> tuple[int, ...]:
        turn = order[address] if edge else order[address] // max(1, len(numbers))
        return numbers[turn % len(numbers) :][:1] if numbers else ()

    edges = {switch.name for switch in graph.switches if switch.layer == "edge"}
    return {
        switch: {address: choose(switch in edges, address, numbers) for address, numbers in towards.items()}
        for switch, towards in hops.items()
    }


def _ports_toward(graph: Graph, target: str, without: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Returns by switch the ports that lead one hop nearer to the target switch, none for the target itself."""
    distance = _distances(graph, target, without)
    return {
        switch: tuple(
            port.number
            for port in graph.ports_of(switch)
            if port.ifname not in without and distance.get(graph.peer(port).node, far) < far
        )
        for switch, far in distance.items()
    }


def _distances(graph: Graph, target: str, without: Collection[str]) -> dict[str, int]:
    """Returns the hops from every switch to the target switch, by breadth-first search. Hosts do not forward."""
    distance, todo = {target: 0}, deque([target])
    switches = {switch.name for switch in graph.switches}
    while todo:
        node = todo.popleft()
        for port in graph.ports_of(node):
            neighbour = graph.peer(port).node
            if graph.peer(port).ifname not in without and neighbour in switches and neighbour not in distance:
                distance[neighbour] = distance[node] + 1
                todo.append(neighbour)
    return distance


def _rules_of(graph: Graph, switch: str, hops: dict[str, tuple[int, ...]], seed: int) -> list[Rule]:
    """Returns the exact rules, then the bucket rules.

    The bucket rules of the largest group of destinations with equal next hops come first, then those of the other groups.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    rules = []
    for address in (nic.address for host in graph.hosts for nic in host.nics):
        numbers = hops.get(address, ())
        if len(numbers) == 1:
            rules.append(Rule(switch, EXACT_PRIORITY, Match("ip", address), numbers[0]))
        elif numbers:
            groups.setdefault(numbers, []).append(address)
    largest = max(groups, key=lambda numbers: len(groups[numbers]), default=())
    for group, numbers in enumerate(sorted(groups, key=lambda numbers: numbers != largest)):
        if group:
            rules += [Rule(switch, EXACT_PRIORITY, Match("ip", address), 0, group) for address in groups[numbers]]
        rules += _bucket_rules(switch, numbers, group, seed)
    return rules


def _bucket_rules(switch: str, numbers: Sequence[int], group: int, seed: int) -> list[Rule]:
    """Returns the bucket rules for one set of next hops: of a group, or (0) of every destination that has no rule of its own."""
    if len(numbers) > MOST_NEXT_HOPS:
        raise TopologyError(f"next hops of {switch}: value {len(numbers)} is above {MOST_NEXT_HOPS}; use fewer parallel paths")
    rows = _permutation(seed, "ecmp", switch, numbers, "source")
    columns = _permutation(seed, "ecmp", switch, numbers, "destination")
    rules = [
        Rule(switch, PORTED_PRIORITY, Match(protocol, None, low, high, group), numbers[(row + column) % len(numbers)])
        for protocol in PORTED
        for low, row in enumerate(rows)
        for high, column in enumerate(columns)
    ]
    width = ADDRESS_MASK + 1
    for near in range(width):
        for far in range(width):
            match = Match("ip", None, near, far, group)
            rules.append(Rule(switch, OTHER_PRIORITY, match, numbers[rows[near * width + far] % len(numbers)]))
    return rules


def _permutation(seed: int, *labels: object) -> list[int]:
    """Returns a seeded order of 0..15."""
    return sorted(range(MOST_NEXT_HOPS), key=lambda number: draw(seed, *labels, number))


def _low_bits(address: str) -> int:
    return int(IPv4Address(address)) & ADDRESS_MASK
