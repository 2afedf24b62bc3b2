# SPDX-License-Identifier: Apache-2.0
"""Times over links without queues: one way, there and back, and the base round trip of a whole network.

The base round trip is the longest over all pairs of hosts in one plane: a full frame one way and an ACK back, over a path of the
fewest hops. If several paths are shortest, the slowest counts. BDPs in a spec refer to this round trip.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from dc_gym.topologies.graph import Cable, Graph

ACK_BYTES = 66  # Ethernet 14, IP 20, TCP 20, timestamps 12
BIT_NS = 8 * 10**9  # time of a byte at 1 bit/s


def transfer_ns(cable: Cable, frame_bytes: int) -> int:
    """Returns the time from the start of the first bit to the arrival of the last, rounded up as the driver's timers are."""
    return serialization_ns(cable, frame_bytes) + cable.delay_ns


def serialization_ns(cable: Cable, frame_bytes: int) -> int:
    """Returns the time for which a frame keeps the transmitter busy."""
    return -(-frame_bytes * BIT_NS // cable.rate_bps)


def one_way_ns(graph: Graph, crossed: Sequence[str], frame_bytes: int | None = None) -> int:
    """Returns the time of one frame, by default a full one, over the egress ports of a path (ecmp.path). Each switch stores and
    forwards it."""
    return sum(transfer_ns(graph.cable_of(ifname), frame_bytes or graph.frame_bytes) for ifname in crossed)


def round_trip_ns(graph: Graph, crossed: Sequence[str]) -> int:
    """Returns the time of a full frame over a path and an ACK back over the same cables."""
    return sum(_there_and_back_ns(graph.cable_of(ifname), graph.frame_bytes) for ifname in crossed)


def bottleneck(graph: Graph, crossed: Sequence[str]) -> str:
    """Returns the first of the slowest ports of a path."""
    return min(crossed, key=lambda ifname: graph.cable_of(ifname).rate_bps)


def base_rtt_ns(graph: Graph) -> int:
    """Returns the base round trip of the network, or 0 with fewer than two hosts."""
    return longest_ns(graph, lambda cable: _there_and_back_ns(cable, graph.frame_bytes))


def longest_ns(graph: Graph, time_ns: Callable[[Cable], int]) -> int:
    """Returns the longest time between two hosts in one plane, over the fewest hops, if a cable takes `time_ns(cable)`."""
    planes = range(max((len(host.nics) for host in graph.hosts), default=0))
    return max((_longest_in_plane_ns(graph, plane, time_ns) for plane in planes), default=0)


def _longest_in_plane_ns(graph: Graph, plane: int, time_ns: Callable[[Cable], int]) -> int:
    access: dict[str, list[int]] = {}  # by switch: the links of its two slowest hosts
    for host in graph.hosts:
        if plane < len(host.nics):
            cable = graph.cable_of(f"{host.name}-eth{plane}")
            switch = graph.peer(f"{host.name}-eth{plane}").node
            access[switch] = sorted([*access.get(switch, []), time_ns(cable)], reverse=True)[:2]
    longest = max((sum(links) for links in access.values() if len(links) == 2), default=0)
    toward = {
        switch.name: [(graph.peer(port).node, time_ns(graph.cable_of(port))) for port in graph.ports_of(switch.name)]
        for switch in graph.switches
    }
    for target, links in access.items():
        between = _slowest_ns(toward, target)
        longest = max([longest, *(between[other] + links[0] + access[other][0] for other in access if other != target)])
    return longest


def _slowest_ns(toward: Mapping[str, Sequence[tuple[str, int]]], target: str) -> dict[str, int]:
    """Returns by switch the longest time to the target switch over the fewest hops. `toward`: by switch each neighbour, and the
    time of the cable to it."""
    times_ns, hops, todo = {target: 0}, {target: 0}, deque([target])
    while todo:
        node = todo.popleft()
        for peer, time_ns in toward[node]:
            if peer not in toward or hops.get(peer, hops[node] + 1) != hops[node] + 1:
                continue
            if peer not in hops:
                hops[peer] = hops[node] + 1
                todo.append(peer)
            times_ns[peer] = max(times_ns.get(peer, 0), times_ns[node] + time_ns)
    return times_ns


def _there_and_back_ns(cable: Cable, frame_bytes: int) -> int:
    """Returns the time of a full frame over a cable and of an ACK back, in the direction in which that takes longer."""
    there, back = cable.directions()
    return max(transfer_ns(one, frame_bytes) + transfer_ns(other, ACK_BYTES) for one, other in ((there, back), (back, there)))
