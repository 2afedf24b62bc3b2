# SPDX-License-Identifier: Apache-2.0
"""Turns requested flows into flows that tgen can run (docs/protocols.md): addresses, source ports, paths.

Everything follows from the arguments: equal arguments give equal flows. Times are ns relative to t0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from re import fullmatch

from dc_gym.base.errors import WorkloadError
from dc_gym.topologies.ecmp import Router, draw, path
from dc_gym.topologies.graph import Graph, Port
from dc_gym.traffic.flows import MOST_FLOWS, FlowRequest

FIRST_SOURCE_PORT, LAST_SOURCE_PORT = 20000, 59999


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow as it is run: the request, its sockets and its path."""

    flow: int
    request: FlowRequest
    src_addr: str
    dst_addr: str
    src_port: int
    cc: str
    ports: tuple[str, ...]  # egress ports that its data crosses
    rows: tuple[int, ...]  # their rows in the state matrix

    @property
    def src(self) -> str:
        return self.request.src

    @property
    def dst(self) -> str:
        return self.request.dst

    @property
    def dst_port(self) -> int:
        return self.request.dst_port

    @property
    def answer_ports(self) -> tuple[int, int]:
        """The source and destination port of packets that come back. With RoCEv2 they equal the data's."""
        ports = (self.src_port, self.dst_port)
        return ports if self.request.by_nic else ports[::-1]


@dataclass(frozen=True, slots=True)
class Schedule:
    """All flows of a run, in the order of the workload."""

    flows: tuple[Flow, ...]

    def peers(self) -> dict[str, list[str]]:
        """Returns for each host the hosts that it exchanges packets with, in the order of the flows."""
        peers: dict[str, dict[str, None]] = {}
        for flow in self.flows:
            peers.setdefault(flow.src, {})[flow.dst] = None
            peers.setdefault(flow.dst, {})[flow.src] = None
        return {host: list(others) for host, others in peers.items()}


def make_schedule(
    requests: Sequence[FlowRequest],
    graph: Graph,
    router: Router,
    controller: str,
    seed: int,
    ports: Sequence[Port] | None = None,
    one_path: bool = False,
    beside: str | None = None,
) -> Schedule:
    """Gives every flow its sockets and its path.

    `controller` is the controller of all flows; `beside` replaces it for flows over TCP. A row of the state matrix
    is an index into `ports`, by default graph.ports(). A request that names no transport goes over TCP.
    """
    requests = [request if request.transport else replace(request, transport="tcp") for request in requests]
    for name in (controller, beside or controller):
        if not fullmatch(r"[a-z0-9_-]{1,15}", name):
            raise WorkloadError(f"controller.name: value {name!r} is not a TCP congestion control; docs/spec.md lists them")
    if len(requests) > MOST_FLOWS:
        raise WorkloadError(f"the workload has {len(requests)} flows, a run takes {MOST_FLOWS}; run shorter or ask for fewer")
    rows = {port.ifname: row for row, port in enumerate(graph.ports() if ports is None else ports)}
    nics = {host.name: host.nics for host in graph.hosts}
    paths = _Paths(graph, router, rows)
    planes = [_plane(min(len(nics[flow.src]), len(nics[flow.dst])), seed, number) for number, flow in enumerate(requests)]
    follows = _OnePath(graph, router, requests, planes) if one_path else None
    flows = []
    for number, (request, src_port) in enumerate(zip(requests, _source_ports(requests, seed, follows), strict=True)):
        plane = planes[number]
        crossed, crossed_rows = paths.of(number, request, src_port, plane)
        ends = nics[request.src][plane].address, nics[request.dst][plane].address
        cc = beside if beside is not None and request.transport == "tcp" else controller
        flows.append(Flow(number, request, *ends, src_port, cc, crossed, crossed_rows))
    return Schedule(tuple(flows))


class _Paths:
    """Paths, with the rows of their ports."""

    def __init__(self, graph: Graph, router: Router, rows: dict[str, int]) -> None:
        self._graph, self._router, self._rows = graph, router, rows
        self._known: dict[tuple[str, ...], tuple[tuple[str, ...], tuple[int, ...]]] = {}
        """Each path once, however many flows take it."""

    def of(self, number: int, flow: FlowRequest, src_port: int, plane: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Returns the ports that data of the flow crosses, and their rows."""
        crossed = tuple(path(self._graph, self._router, flow.src, flow.dst, src_port, flow.dst_port, _protocol(flow), plane))
        if crossed not in self._known:
            if missing := [ifname for ifname in crossed if ifname not in self._rows]:
                raise WorkloadError(f"flow {number}: port {missing[0]!r} is not among the rows; give all ports of the graph")
            self._known[crossed] = crossed, tuple(self._rows[ifname] for ifname in crossed)
        return self._known[crossed]


class _OnePath:
    """Finds source ports with which a flow takes the path of the first flow between the same two hosts in the same plane."""

    def __init__(self, graph: Graph, router: Router, requests: Sequence[FlowRequest], planes: Sequence[int]) -> None:
        self.planes = planes
        """The plane of each flow."""
        self._graph, self._router, self._requests = graph, router, requests
        self._first: dict[tuple[object, ...], list[str]] = {}

    def allows(self, number: int, src_port: int) -> bool:
        """Returns whether a flow, by its number, has that path with this port."""
        flow, plane = self._requests[number], self.planes[number]
        crossed = path(self._graph, self._router, flow.src, flow.dst, src_port, flow.dst_port, _protocol(flow), plane)
        return self._first.setdefault((_protocol(flow), plane, flow.src, flow.dst), crossed) == crossed


def plane_of(flow: Flow, graph: Graph) -> int:
    """Returns the plane whose addresses the flow uses."""
    return next(plane for plane, nic in enumerate(graph.host(flow.src).nics) if nic.address == flow.src_addr)


def ways_from(flow: Flow, graph: Graph, router: Router, src_port: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the ports that the flow's data and the answers would cross if it had another source port."""
    data_ports = path(graph, router, flow.src, flow.dst, src_port, flow.dst_port, _protocol(flow.request), plane_of(flow, graph))
    moved = replace(flow, src_port=src_port, ports=tuple(data_ports))
    return next(both_ways([moved], graph, router))


def both_ways(flows: Iterable[Flow], graph: Graph, router: Router) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yields for each flow the ports that its data crosses, and the ports that answers to it cross.

    Answers may come back over other switches: each switch spreads flows by a hash of its own.
    """
    planes = {nic.address: plane for host in graph.hosts for plane, nic in enumerate(host.nics)}
    for flow in flows:
        back = path(graph, router, flow.dst, flow.src, *flow.answer_ports, _protocol(flow.request), planes[flow.src_addr])
        yield flow.ports, tuple(back)


def _protocol(flow: FlowRequest) -> str:
    """Returns the protocol that switches see: RoCEv2 is UDP."""
    return "udp" if flow.by_nic else flow.transport or "tcp"


def _plane(planes: int, seed: int, number: int) -> int:
    """Returns the plane of a flow, drawn by seed from the planes with ports of both ends. No hash of the kernel takes part."""
    return draw(seed, "plane", number) % planes if planes > 1 else 0


def _source_ports(requests: Sequence[FlowRequest], seed: int, follows: _OnePath | None) -> list[int]:
    """Returns a seeded source port for each flow, one that `follows` allows.

    A port is unique among the flows of a host to one destination and port, and the host does not listen on it. So neither bind
    nor connect fails because of the chosen ports. TIME_WAIT does not matter, since no connection comes twice.
    """
    listened: dict[str, set[int]] = {}
    for request in requests:
        listened.setdefault(request.dst, set()).add(request.dst_port)
    most = LAST_SOURCE_PORT - FIRST_SOURCE_PORT + 1
    taken: dict[tuple[object, ...], set[int]] = {}
    steps: dict[tuple[object, ...], int] = {}
    """From the first port: the ports that flows of the same path have tried."""
    chosen = []
    for number, request in enumerate(requests):
        ends = request.transport, request.src, request.dst, request.dst_port
        if ends not in taken:
            taken[ends] = {port for port in listened.get(request.src, ()) if FIRST_SOURCE_PORT <= port <= LAST_SOURCE_PORT}
        used = taken[ends]
        drawn, alike = ((request.src, request.dst), (ends, follows.planes[number])) if follows else ((number, 0), (number,))
        start = draw(seed, "source port", *drawn)
        for step in range(steps.get(alike, 0), most):  # the next free one: a new draw each time would take longer and longer
            port = FIRST_SOURCE_PORT + (start + step) % most
            if port not in used and (follows is None or follows.allows(number, port)):
                break
        else:
            where = f"flow {number}: {request.src} to {request.dst}, port {request.dst_port}"
            raise WorkloadError(f"{where}: all {len(used)} source ports are used; use more ports, hosts, or a shorter run")
        if follows:
            steps[alike] = step + 1
        used.add(port)
        chosen.append(port)
    return chosen
