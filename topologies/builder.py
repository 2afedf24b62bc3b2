# SPDX-License-Identifier: Apache-2.0
"""Builds a Graph: names nodes and numbers ports as Mininet does, in the order of the calls.

Hosts count ports from eth0, switches from eth1. A host with several ports lies in several planes: its port ethP has an address in
(10+P)/8, and a flow stays in one plane.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dc_gym.base.errors import TopologyError
from dc_gym.topologies.graph import Cable, Graph, Host, Layer, Nic, Switch
from dc_gym.topologies.links import HOST, NOTHING, LinkSpec, Node
from dc_gym.topologies.wiring import Wiring

FIRST_NETWORK = 10
MOST_HOSTS = 64_000
MOST_PLANES = 8


class Builder:
    """One network while it is being built."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._hosts: dict[str, list[int]] = {}  # port numbers by host
        self._named: dict[str, tuple[str | None, str | None]] = {}  # the addresses given by the caller
        self._switches: dict[str, Layer] = {}
        self._cables: list[Cable] = []
        self._next_port: dict[str, int] = {}

    def host(self, name: str | None = None, address: str | None = None, mac: str | None = None) -> str:
        """Adds a host, by default h1, h2, ..., and returns its name.

        Args:
            name: A name of its own.
            address: The IPv4 address of its first port.
            mac: The MAC address of its first port.
        """
        name = name or f"h{len(self._hosts) + 1}"
        if len(self._hosts) >= MOST_HOSTS:
            raise TopologyError(f"hosts: value {len(self._hosts) + 1} is above {MOST_HOSTS}; build a smaller network")
        self._refuse_twice(name)
        self._hosts[name], self._named[name], self._next_port[name] = [], (address, mac), 0
        return name

    def switch(self, layer: Layer, name: str | None = None) -> str:
        """Adds a switch, by default s1, s2, ..., and returns its name.

        Args:
            layer: "edge" (with hosts), "agg" or "core".
            name: A name of its own.
        """
        name = name or f"s{len(self._switches) + 1}"
        self._refuse_twice(name)
        self._switches[name] = layer
        self._next_port[name] = 1
        return name

    def connect(
        self,
        a: str,
        b: str,
        rate_bps: int | None = None,
        link: LinkSpec = NOTHING,
        ports: tuple[int | None, int | None] = (None, None),
    ) -> None:
        """Adds a cable between two nodes. The wiring fills in properties that the caller does not give.

        Args:
            a: The name of a node.
            b: The name of another.
            rate_bps: The rate, instead of the spec's.
            link: Other properties of this cable.
            ports: The numbers of the ports at both nodes; None: the next one.
        """
        link_spec = LinkSpec(rate_bps=rate_bps).over(link)
        self._cables.append(self._wiring.cable(self._end(a, ports[0]), self._end(b, ports[1]), link_spec))

    def graph(self) -> Graph:
        """Returns the graph that was built, validated."""
        hosts = tuple(self._host(number, name) for number, name in enumerate(self._hosts, 1))
        switches = tuple(Switch(name, layer) for name, layer in self._switches.items())
        return Graph(hosts, switches, tuple(self._cables))

    def _host(self, number: int, name: str) -> Host:
        address, mac = self._named[name]
        ports = len(self._hosts[name])
        if ports > MOST_PLANES:
            raise TopologyError(f"links of host {name}: value {ports} is above {MOST_PLANES}; give it fewer")
        first, *more = [Nic(_address(number, plane), _mac(number, plane)) for plane in range(max(1, ports))]
        return Host(name, address or first.address, mac or first.mac, tuple(more))

    def _end(self, name: str, number: int | None) -> tuple[Node, str]:
        if name not in self._next_port:
            raise TopologyError(f"link to {name!r}: no such node; add the host or switch first")
        if number is None:
            number = self._next_port[name]
        self._next_port[name] = max(self._next_port[name], number + 1)
        if name in self._hosts:
            self._hosts[name].append(number)
        return Node(name, self._switches.get(name, HOST)), f"{name}-eth{number}"

    def _refuse_twice(self, name: str) -> None:
        if name in self._next_port:
            raise TopologyError(f"node {name!r} is there already; choose another name")


def layers_by_distance(switches: Collection[str], links: Iterable[tuple[str, str]]) -> dict[str, Layer]:
    """Returns the layers of switches by their distance from the nearest host.

    Those with hosts are the edge, and the farthest ones the core. With three distances or more the second is the aggregation.

    Args:
        switches: The names of the switches.
        links: The names of the nodes at both ends of each link.
    """
    neighbours: dict[str, set[str]] = {}
    for a, b in links:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    distances, ring = dict[str, int](), {name for name in neighbours if name not in switches}
    while ring:
        ring = {other for name in ring for other in neighbours[name] if other in switches and other not in distances}
        distances |= dict.fromkeys(ring, max(distances.values(), default=0) + 1)
    has_aggregation = max(distances.values(), default=0) > 2
    middle: Layer = "agg" if has_aggregation else "core"
    return {name: {1: "edge", 2: middle}.get(distances.get(name, 0), "core") for name in switches}


def _address(number: int, plane: int) -> str:
    """Returns 10.x.y.z with z in 1..250. x.y.z is the same in every plane."""
    third, fourth = divmod(number - 1, 250)
    return f"{FIRST_NETWORK + plane}.0.{third}.{fourth + 1}"


def _mac(number: int, plane: int) -> str:
    return f"02:00:00:{plane:02x}:{number >> 8:02x}:{number & 255:02x}"
