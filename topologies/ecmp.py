# SPDX-License-Identifier: Apache-2.0
"""Static shortest-path routing with equal-cost multipath, computed in advance, without a controller.

A switch has the next hops to each address. Where several are equally short, it chooses among them by a seeded hash of the whole
5-tuple: IPv4 addresses, protocol, and the ports of TCP and UDP. In a lab a *group port* makes the choice in the kernel
(kernel/drivers/group.c): the switch has one rule for each destination, to a port or to a group port. `Router.out_port` makes the
same choice before a packet is sent, and so gives a flow's path (`path`). On the host ground OpenFlow rules choose
(topologies/buckets.py). A host's addresses are routed one by one, so planes do not mix as long as a flow uses addresses of one
plane.

Limits: host addresses only, no ARP (neighbours are static), no broadcast, at most 256 equal-cost next hops.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from ipaddress import IPv4Address
from math import gcd
from typing import Protocol

from dc_gym.base.errors import TopologyError
from dc_gym.base.splitmix import splitmix64
from dc_gym.topologies.balance import ECMP, Balance
from dc_gym.topologies.graph import Graph, Port

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17}
PORTED = ("tcp", "udp")
ROUTINGS = ("ecmp", "single")

EXACT_PRIORITY = 50
MOST_NEXT_HOPS = 256
"""Members of a group port (LAB_GROUP_MEMBERS of kernel/drivers/lab.h)."""
FIRST_GROUP = 0x8000
"""The number of a switch's first group port. Its ports have lower numbers."""


@dataclass(frozen=True, slots=True)
class Packet:
    """The header fields that routing reads."""

    protocol: str
    source: str
    destination: str
    source_port: int
    destination_port: int


class Spread(Protocol):
    """A way to choose among equal next hops."""

    seed: int
    most: int
    """Most next hops that it can choose among."""

    def choose(self, switch: str, numbers: Sequence[int], packet: Packet) -> int:
        """Returns the next hop of a packet at a switch. `numbers` are at least two."""


class Hashed:
    """Chooses by a hash of the packet's 5-tuple, as group ports do. Switches hash independently of each other."""

    most = MOST_NEXT_HOPS

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choose(self, switch: str, numbers: Sequence[int], packet: Packet) -> int:
        return numbers[choice(tuple_hash(group_seed(self.seed, switch), packet), len(numbers))]


@lru_cache(maxsize=4096)
def group_seed(seed: int, switch: str) -> int:
    """Returns the seed of a switch's group ports."""
    return draw(seed, "ecmp", switch)


def tuple_hash(seed: int, packet: Packet) -> int:
    """Returns the 64 bits that a group port makes of a packet's 5-tuple (lab_group_hash of kernel/drivers/lab_group.h)."""
    ports = (packet.source_port, packet.destination_port) if packet.protocol in PORTED else (0, 0)
    rest = ports[0] << 24 | ports[1] << 8 | PROTOCOLS[packet.protocol]
    return splitmix64(splitmix64(seed, number_of(packet.source) << 32 | number_of(packet.destination)), rest)


def choice(hashed: int, members: int) -> int:
    """Returns the member of a group that a hash chooses (lab_group_choose). All of its bits take part."""
    return hashed * members >> 64


@lru_cache(maxsize=1 << 16)
def number_of(address: str) -> int:
    return int(IPv4Address(address))


@dataclass(frozen=True, slots=True)
class Rule:
    """The port to which a switch sends packets for an address."""

    switch: str
    destination: str
    out_port: int
    """i of sN-ethi, or the number of a group port."""

    def flow(self) -> str:
        """Returns the rule as a line for `ovs-ofctl -O OpenFlow13 add-flow` or `add-flows`."""
        return f"priority={EXACT_PRIORITY},ip,nw_dst={self.destination},actions=output:{self.out_port}"


@dataclass(frozen=True, slots=True)
class Group:
    """A group port of a switch."""

    switch: str
    number: int
    members: tuple[int, ...]
    """The numbers of the ports that it chooses among."""
    seed: int
    balance: Balance = ECMP

    @property
    def ifname(self) -> str:
        """The name of its device. No cable's end has a name of this form."""
        return f"{self.switch}-g{self.number - FIRST_GROUP}"


@dataclass(frozen=True, slots=True)
class Router:
    """The next hops of a network, by switch in graph order and by address, and how packets spread over equal ones."""

    hops: Mapping[str, Mapping[str, tuple[int, ...]]]
    spread: Spread
    balance: Mapping[str, Balance] = field(default_factory=dict)
    """How switches choose that do not keep a flow on the path of its hash. Of other ways `out_port` is the choice."""

    def out_ports(self, switch: str, packet: Packet) -> tuple[int, ...]:
        """Returns the numbers of all ports by which packets with this header may leave, more than one where a switch balances."""
        if switch in self.balance:
            return self.hops[switch].get(packet.destination, ())
        number = self.out_port(switch, packet)
        return () if number is None else (number,)

    def out_port(self, switch: str, packet: Packet) -> int | None:
        """Returns the number of the port by which a packet leaves. None: it has none, so the packet is dropped."""
        numbers = self.hops.get(switch, {}).get(packet.destination)
        if not numbers:
            return None
        return numbers[0] if len(numbers) == 1 else self.spread.choose(switch, numbers, packet)


class Groups:
    """The group ports that one or several routers of a network need, numbered by switch as they first occur."""

    def __init__(
        self, hops: Iterable[tuple[str, tuple[int, ...]]], seed: int, balance: Mapping[str, Balance] | None = None
    ) -> None:
        """`hops` are switches with the next hops that they have for some address, `balance` those that balance."""
        balance = balance or {}
        self._of: dict[str, dict[tuple[int, ...], Group]] = {}
        for switch, numbers in hops:
            if len(numbers) > 1 and numbers not in (groups := self._of.setdefault(switch, {})):
                groups[numbers] = Group(
                    switch, FIRST_GROUP + len(groups), numbers, group_seed(seed, switch), balance.get(switch, ECMP)
                )

    def __iter__(self) -> Iterator[Group]:
        return (group for groups in self._of.values() for group in groups.values())

    def out_port(self, switch: str, numbers: tuple[int, ...]) -> int:
        """Returns the number of the port to which the switch sends packets with these next hops, at least one."""
        return numbers[0] if len(numbers) == 1 else self._of[switch][numbers].number


def hops_of(router: Router) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields each switch with its next hops, for every address."""
    return ((switch, numbers) for switch, towards in router.hops.items() for numbers in towards.values())


def rules(router: Router, groups: Groups) -> Iterator[Rule]:
    """Yields the rules of all switches, in graph order: one for each address that a switch can reach."""
    for switch, towards in router.hops.items():
        for address, numbers in towards.items():
            if numbers:
                yield Rule(switch, address, groups.out_port(switch, numbers))


def route(
    graph: Graph,
    seed: int,
    routing: str = "ecmp",
    without: Collection[str] = (),
    spread: Callable[[int], Spread] = Hashed,
    balance: Mapping[str, Balance] | None = None,
    weighted: bool = False,
) -> Router:
    """Returns the next hops of every switch of the graph for every host, and their choice from one seed.

    `routing` is one of ROUTINGS. `without` names ports whose frames go nowhere: each is one direction of a cable. A switch has no
    next hop for a host that it cannot reach without them. `balance` are switches that do not keep a flow on one path.
    With `weighted` a next hop of twice the rate is there twice.

    'single' leaves one path to a host, the same for all packets: no port is read, and the seed has no effect.
    """
    hops = _next_hops(graph, without)
    if routing == "single":
        hops = _single(graph, hops)
    if weighted:
        weigh = lru_cache(maxsize=None)(partial(_by_rate, graph))
        hops = {switch: {to: weigh(switch, numbers) for to, numbers in towards.items()} for switch, towards in hops.items()}
    router = Router(hops, spread(seed), balance or {})
    for switch, numbers in hops_of(router):
        if len(numbers) > router.spread.most:
            most = router.spread.most
            raise TopologyError(f"next hops of {switch}: value {len(numbers)} is above {most}; use fewer parallel paths")
    return router


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


def crossings(graph: Graph, router: Router, sent: Iterable[tuple[str, Packet]]) -> Iterator[tuple[str, str, str]]:
    """Yields each two egress ports that packets may cross one after the other, and the address for which they are.

    `sent` are the ports of hosts, each with a packet that it sends.
    """
    seen: set[tuple[str, Packet]] = set()
    for first in sent:
        todo = [first]
        while todo:
            before, packet = todo.pop()
            node = graph.peer(before).node
            for number in router.out_ports(node, packet):
                after = f"{node}-eth{number}"
                yield before, after, packet.destination
                if (after, packet) not in seen:
                    seen.add((after, packet))
                    todo.append((after, packet))


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


def _by_rate(graph: Graph, switch: str, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the ports, each as often as its share of their rates asks for, and spread out evenly."""
    rates = {number: graph.cable_of(f"{switch}-eth{number}").sent_by(f"{switch}-eth{number}").rate_bps for number in numbers}
    unit = gcd(*rates.values())
    places = [((turn + 0.5) * unit / rate, number) for number, rate in rates.items() for turn in range(rate // unit)]
    return tuple(number for _, number in sorted(places))


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
