# SPDX-License-Identifier: Apache-2.0
"""The reactions of routing to a spec's events, for the packets of its schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dc_gym.base.key import KeyFault
from dc_gym.topologies.changes import CUT, Change
from dc_gym.topologies.ecmp import Packet, Router
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.rerouting import MOST_ENTRIES, Reaction, Rerouting
from dc_gym.traffic.flows import MOST_ENTROPIES
from dc_gym.traffic.schedule import Schedule

if TYPE_CHECKING:
    from dc_gym.spec import Spec


def reactions(spec: Spec, graph: Graph, router: Router, schedule: Schedule, changes: Sequence[Change]) -> tuple[Reaction, ...]:
    """Returns the new rules that events ask for, in the order of their times. The last of several at one time counts."""
    reroutes = sorted(
        (event.at_ns + event.reroute_ns, number) for number, event in enumerate(spec.events) if event.reroute_ns is not None
    )
    if not reroutes:
        return ()
    rerouting = Rerouting(graph, router, sent(graph, schedule), spec.seed, spec.topology.routing, spec.topology.weighs_rates)
    reactions = []
    for at_ns, number in reroutes:
        reaction = rerouting.react(at_ns, number, down_at(changes, at_ns))
        if len(reaction.entries) > MOST_ENTRIES:
            why = f"needs {len(reaction.entries)} rules in the switches, and {MOST_ENTRIES} are possible; run fewer flows"
            raise KeyFault(f"events[{number}].reroute", None, why)
        reactions.append(reaction)
    return tuple(reactions)


def down_at(changes: Sequence[Change], at_ns: int) -> list[str]:
    """Returns the ports whose cables are cut at a time. Routing knows all of them when it reacts then."""
    state: dict[str, int] = {}
    for change in changes:
        if change.at_ns <= at_ns:
            state[change.port] = dict(change.values).get(CUT, state.get(change.port, 0))
    return [port for port, cut in state.items() if cut]


def sent(graph: Graph, schedule: Schedule) -> Iterator[tuple[str, Packet]]:
    """Yields the ports of hosts, each with the packets that it sends: the data of flows, and the answers to them."""
    for flow in schedule.flows:
        protocol = "tcp" if flow.request.transport == "tcp" else "udp"
        back, (src_port, dst_port) = graph.peer(flow.ports[-1]).ifname, flow.answer_ports
        for entropy in range(MOST_ENTROPIES if flow.request.transport == "uec" else 1):
            yield flow.ports[0], Packet(protocol, flow.src_addr, flow.dst_addr, flow.src_port ^ entropy, flow.dst_port)
            yield back, Packet(protocol, flow.dst_addr, flow.src_addr, src_port ^ entropy, dst_port)
