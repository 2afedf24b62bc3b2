# SPDX-License-Identifier: Apache-2.0
"""The networks of fabric_lab.py as plain data: hosts, switches, wires between them, routes, and the queue of each port.

Nodes are h0, h1, ... and s0, s1, ... Wire w has the ports 2w and 2w + 1, one at each end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from dc_gym.topologies.graph import Queue


@dataclass(frozen=True)
class FabricNet:
    """Hosts, switches, and wires as pairs of nodes. Frames take the shortest way, except in a ring of clockwise routes."""

    hosts: int
    switches: int
    wires: tuple[tuple[str, str], ...]
    clockwise: bool = False

    @property
    def ports(self) -> int:
        return 2 * len(self.wires)

    def node(self, port: int) -> str:
        return self.wires[port // 2][port % 2]

    def name(self, port: int) -> str:
        """Returns a name for people: the node, and the one at the other end."""
        return f"{self.node(port)} to {self.node(peer(port))}"

    def ports_of(self, node: str) -> list[int]:
        return [port for port in range(self.ports) if self.node(port) == node]

    def is_switch(self, port: int) -> bool:
        return self.node(port).startswith("s")

    def host_port(self, host: int) -> int:
        return self.ports_of(f"h{host}")[0]

    @cached_property
    def routes(self) -> dict[tuple[str, int], int]:
        """The port that a switch sends to a host by, for each of both."""
        switches = [f"s{number}" for number in range(self.switches)]
        return {(switch, host): self._route(switch, host) for switch in switches for host in range(self.hosts)}

    def _route(self, switch: str, host: int) -> int:
        if self.clockwise and switch != f"s{host}":
            following = f"s{(int(switch[1:]) + 1) % self.switches}"
            return next(port for port in self.ports_of(switch) if self.node(port ^ 1) == following)
        firsts = deque((port, port) for port in self.ports_of(switch))
        seen = {switch}
        while firsts:
            first, port = firsts.popleft()
            reached = self.node(port ^ 1)
            if reached == f"h{host}":
                return first
            if reached not in seen:
                seen.add(reached)
                firsts.extend((first, exit_port) for exit_port in self.ports_of(reached))
        raise ValueError(f"no way from {switch} to h{host}")


def peer(port: int) -> int:
    """Returns the port at the other end of the wire."""
    return port ^ 1


def chain(switches: int) -> FabricNet:
    """Returns two hosts with switches in a row between them."""
    nodes = ["h0", *(f"s{number}" for number in range(switches)), "h1"]
    return FabricNet(2, switches, tuple(pairwise(nodes)))


def star(senders: int) -> FabricNet:
    """Returns a switch with so many senders, and one host more."""
    return FabricNet(senders + 1, 1, tuple((f"h{number}", "s0") for number in range(senders + 1)))


def ring(switches: int, clockwise: bool) -> FabricNet:
    """Returns a ring of switches, each with a host."""
    hosts = tuple((f"h{number}", f"s{number}") for number in range(switches))
    around = tuple((f"s{number}", f"s{(number + 1) % switches}") for number in range(switches))
    return FabricNet(switches, switches, hosts + around, clockwise)


NETS = {
    "chain2": chain(1),
    "chain4": chain(3),
    "incast2": star(2),
    "incast4": star(4),
    "incast16": star(16),
    "ring4": ring(4, clockwise=True),
    "ring4short": ring(4, clockwise=False),
}


@dataclass(frozen=True, slots=True)
class FabricPort:
    """One port: its line, its queue, and the seed of its draws for marks."""

    rate_bps: int
    delay_ns: int
    queue: Queue
    seed: int = 0
