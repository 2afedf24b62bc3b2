# SPDX-License-Identifier: Apache-2.0
"""Routing that reacts to links: the next hops of each switch for a run's packets, once its rules are computed without a cut link.

A reaction gives switches new next hops for destinations while traffic runs. It is computed here, as plain data: an entry for each
switch and destination for which the switch may have packets of the run, by the old or by the new rules. A packet that was on its
way when the rules changed goes on by the new rules from wherever it is.

A destination that a switch cannot reach without the link keeps its old next hops: its packets are lost in the cut, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from dc_gym.topologies.ecmp import Packet, Router, route
from dc_gym.topologies.graph import Graph

MOST_ENTRIES = 1 << 16
"""Most entries of one reaction: a request of its own sets each."""
Place = tuple[str, Packet]
"""A switch, and a packet that comes there."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The next hops of a switch for a destination."""

    switch: str
    destination: str
    hops: tuple[int, ...]
    """The numbers of the ports among which it chooses, at least one."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """New rules at a time."""

    at_ns: int
    event: int
    entries: tuple[Entry, ...]


class Rerouting:
    """The places of the packets of a run, and the rules in force, as reactions follow each other."""

    def __init__(
        self, graph: Graph, router: Router, sent: Iterable[tuple[str, Packet]], seed: int, routing: str, weighted: bool = False
    ) -> None:
        """`sent` are the ports of hosts, each with the packets that it sends."""
        self._graph = graph
        self._route = partial(route, graph, seed, routing, balance=router.balance, weighted=weighted)
        self._switches = {switch.name for switch in graph.switches}
        self._routers: list[Router] = [router]
        self._places: dict[Place, None] = {(graph.peer(port).node, packet): None for port, packet in sent}
        self._spread()

    def react(self, at_ns: int, event: int, down: Sequence[str]) -> Reaction:
        """Returns the reaction to these ports being down."""
        self._routers.insert(0, self._route(frozenset(down)))
        self._spread()
        pairs = dict.fromkeys((switch, packet.destination) for switch, packet in self._places)
        entries = (Entry(*pair, router.hops[pair[0]][pair[1]]) for pair in pairs if (router := self._router_of(*pair)))
        return Reaction(at_ns, event, tuple(entries))

    def _spread(self) -> None:
        """Finds the places to which packets come by the newest rules, from all those where they may be."""
        todo = list(self._places)
        while todo:
            switch, packet = todo.pop()
            router = self._router_of(switch, packet.destination)
            if router is None:
                continue
            for number in router.out_ports(switch, packet):
                after = self._graph.peer(f"{switch}-eth{number}").node
                if after in self._switches and (after, packet) not in self._places:
                    self._places[after, packet] = None
                    todo.append((after, packet))

    def _router_of(self, switch: str, destination: str) -> Router | None:
        """Returns the newest rules by which the switch has a next hop."""
        return next((router for router in self._routers if router.hops.get(switch, {}).get(destination)), None)
