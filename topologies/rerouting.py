# SPDX-License-Identifier: Apache-2.0
"""Routing that reacts to links: what each switch does with the packets of a run once its rules are computed without a cut link.

Open vSwitch's daemons stand still while traffic runs, so a reaction replaces the flows of its datapath. They are computed here,
as plain data: one entry for each place where packets of the run may be, by the old rules or by the new ones. A packet that was on
its way when the rules changed goes on by the new rules from wherever it is.

A destination that a switch cannot reach without the link keeps its old next hop: such packets are lost in the cut, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dc_gym.topologies.ecmp import Packet, Router, route
from dc_gym.topologies.graph import PORT_MASK, Graph

MOST_ENTRIES = 1 << 16
"""Most entries of one reaction: a request of its own sets each."""
Place = tuple[str, Packet]
"""A port at which packets enter a switch, and such a packet."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One flow of the datapath: the packets that enter at a port for a destination, with these low bits of the ports."""

    in_port: str
    protocol: str
    destination: str
    source_bits: int
    destination_bits: int
    out_port: str


@dataclass(frozen=True, slots=True)
class Reaction:
    """New rules at a time."""

    at_ns: int
    event: int
    entries: tuple[Entry, ...]


def representative(packet: Packet) -> Packet:
    """Returns the packet that stands for all that no switch can tell apart from this one."""
    ports = packet.source_port & PORT_MASK, packet.destination_port & PORT_MASK
    return Packet(packet.protocol, "0.0.0.0", packet.destination, *ports)


class Rerouting:
    """The places of the packets of a run, and the rules in force, as reactions follow each other."""

    def __init__(self, graph: Graph, router: Router, sent: Iterable[Place], seed: int, routing: str) -> None:
        """`sent` are the ports of hosts, each with the packets that it sends."""
        self._graph, self._seed, self._routing = graph, seed, routing
        self._routers: list[Router] = [router]
        self._places = {(graph.peer(port).ifname, representative(packet)): "" for port, packet in sent}
        self._spread()

    def react(self, at_ns: int, event: int, down: Sequence[str]) -> Reaction:
        """Returns the reaction to these ports being down."""
        self._routers.insert(0, route(self._graph, self._seed, self._routing, frozenset(down)))
        self._spread()
        entries = (
            Entry(port, packet.protocol, packet.destination, packet.source_port, packet.destination_port, out)
            for (port, packet), out in self._places.items()
            if out
        )
        return Reaction(at_ns, event, tuple(entries))

    def _spread(self) -> None:
        """Finds the way out of each place by the newest rules that have one, and the places to which these ways lead."""
        todo = list(self._places)
        while todo:
            place = todo.pop()
            out = self._places[place] = self._way_out(*place)
            after = self._graph.peer(out).ifname if out else ""
            is_switch = after and any(switch.name == self._graph.port(after).node for switch in self._graph.switches)
            if is_switch and (after, place[1]) not in self._places:
                self._places[after, place[1]] = ""
                todo.append((after, place[1]))

    def _way_out(self, in_port: str, packet: Packet) -> str:
        switch = self._graph.port(in_port).node
        for router in self._routers:
            if (number := router.out_port(switch, packet)) is not None:
                return f"{switch}-eth{number}"
        return ""
