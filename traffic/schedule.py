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
from dc_gym.topologies.graph import PORT_MASK, Graph, Port
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
        """The source and destination port of packets that come back. With RoCEv2 they equal those of the data."""
        ports = (self.src_port, self.dst_port)
        return ports if self.request.transport == "rdma" else ports[::-1]


@dataclass(frozen=True, slots=True)
class Schedule:
    """All flows of a run, in the order of the workload."""

    flows: tuple[Flow, ...]

    def paths(self) -> int:
        """Returns the number of groups of flows that no switch can tell apart."""
        bits = ((flow.src_port & PORT_MASK, flow.dst_port & PORT_MASK) for flow in self.flows)
        ends = ((flow.request.transport, flow.src_addr, flow.dst_addr) for flow in self.flows)
        return len(set(zip(ends, bits, strict=True)))

    def peers(self) -> dict[str, list[str]]:
        """Returns for each host the hosts that it exchanges packets with, in the order of the flows."""
        found: dict[str, dict[str, None]] = {}
        for flow in self.flows:
            found.setdefault(flow.src, {})[flow.dst] = None
            found.setdefault(flow.dst, {})[flow.src] = None
        return {host: list(others) for host, others in found.items()}


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

    `controller` is that of all flows; with `beside`, that is the TCP of those over TCP. A row of the state matrix is an index
    into `ports`, by default graph.ports(). A request that names no transport goes over TCP.
    """
    requests = [each if each.transport else replace(each, transport="tcp") for each in requests]
    for name in (controller, beside or controller):
        if not fullmatch(r"[a-z0-9_-]{1,15}", name):
            raise WorkloadError(f"controller.name: value {name!r} is not a TCP congestion control; docs/spec.md lists them")
    if len(requests) > MOST_FLOWS:
        raise WorkloadError(f"the workload has {len(requests)} flows, a run takes {MOST_FLOWS}; run shorter or ask for fewer")
    rows = {port.ifname: row for row, port in enumerate(graph.ports() if ports is None else ports)}
    nics = {host.name: host.nics for host in graph.hosts}
    paths = _Paths(graph, router, rows)
    flows = []
    for number, (request, src_port) in enumerate(zip(requests, _source_ports(requests, seed, one_path), strict=True)):
        plane = _plane(min(len(nics[request.src]), len(nics[request.dst])), seed, number)
        crossed, crossed_rows = paths.of(number, request, src_port, plane)
        ends = nics[request.src][plane].address, nics[request.dst][plane].address
        cc = beside if beside is not None and request.transport == "tcp" else controller
        flows.append(Flow(number, request, *ends, src_port, cc, crossed, crossed_rows))
    return Schedule(tuple(flows))


class _Paths:
    """Paths, looked up once for all flows that no switch can tell apart."""

    def __init__(self, graph: Graph, router: Router, rows: dict[str, int]) -> None:
        self._graph, self._router, self._rows = graph, router, rows
        self._known: dict[tuple[object, ...], tuple[tuple[str, ...], tuple[int, ...]]] = {}

    def of(self, number: int, asked: FlowRequest, src_port: int, plane: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Returns the ports that data of the flow crosses, and their rows."""
        key = asked.transport, plane, asked.src, asked.dst, src_port & PORT_MASK, asked.dst_port & PORT_MASK
        if key not in self._known:
            ports = src_port, asked.dst_port
            crossed = path(self._graph, self._router, asked.src, asked.dst, *ports, _protocol(asked), plane)
            if missing := [ifname for ifname in crossed if ifname not in self._rows]:
                raise WorkloadError(f"flow {number}: port {missing[0]!r} is not among the rows; give all ports of the graph")
            self._known[key] = tuple(crossed), tuple(self._rows[ifname] for ifname in crossed)
        return self._known[key]


def both_ways(flows: Iterable[Flow], graph: Graph, router: Router) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yields for each flow the ports that its data crosses, and those that answers to it cross.

    Answers may come back over other switches: each switch spreads flows by a table of its own.
    """
    planes = {nic.address: plane for host in graph.hosts for plane, nic in enumerate(host.nics)}
    known: dict[tuple[object, ...], tuple[str, ...]] = {}
    for flow in flows:
        ports, protocol = flow.answer_ports, _protocol(flow.request)
        key = protocol, flow.src_addr, flow.dst_addr, *(port & PORT_MASK for port in ports)  # all that routing reads
        if key not in known:
            known[key] = tuple(path(graph, router, flow.dst, flow.src, *ports, protocol, planes[flow.src_addr]))
        yield flow.ports, known[key]


def _protocol(asked: FlowRequest) -> str:
    """Returns the protocol that switches see: RoCEv2 is UDP."""
    return "udp" if asked.transport == "rdma" else asked.transport or "tcp"


def _plane(planes: int, seed: int, number: int) -> int:
    """Returns the plane of a flow, drawn by seed from those in which both ends have a port. No hash of the kernel takes part."""
    return draw(seed, "plane", number) % planes if planes > 1 else 0


def _source_ports(requests: Sequence[FlowRequest], seed: int, one_path: bool) -> list[int]:
    """Returns a seeded source port for each flow.

    With `one_path`, flows between the same two hosts share the bits that switches read. A port is unique among the flows of a
    host to one destination and port, and the host does not listen on it. So neither bind nor connect fails because of the chosen
    ports. TIME_WAIT does not matter, since no connection comes twice.
    """
    listened: dict[str, set[int]] = {}
    for request in requests:
        listened.setdefault(request.dst, set()).add(request.dst_port)
    most, step = LAST_SOURCE_PORT - FIRST_SOURCE_PORT + 1, PORT_MASK + 1 if one_path else 1
    taken: dict[tuple[object, ...], set[int]] = {}
    chosen = []
    for number, request in enumerate(requests):
        ends = request.transport, request.src, request.dst, request.dst_port
        if ends not in taken:
            taken[ends] = {port for port in listened.get(request.src, ()) if FIRST_SOURCE_PORT <= port <= LAST_SOURCE_PORT}
        used = taken[ends]
        if len(used) >= most // step:
            where = f"flow {number}: {request.src} to {request.dst}, port {request.dst_port}"
            raise WorkloadError(f"{where}: all {most // step} source ports are used; use more ports, hosts, or a shorter run")
        drawn = (request.src, request.dst) if one_path else (number, 0)
        port = FIRST_SOURCE_PORT + draw(seed, "source port", *drawn) % most
        while port in used:  # the next free one: a new draw each time would take longer and longer
            port = FIRST_SOURCE_PORT + (port - FIRST_SOURCE_PORT + step) % most
        used.add(port)
        chosen.append(port)
    return chosen
