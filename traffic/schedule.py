# SPDX-License-Identifier: Apache-2.0
"""From flows that are asked for to the CSV that tgen runs (docs/protocols.md): addresses, namespaces, source ports, paths.

Everything follows from the arguments: equal arguments give equal bytes. Times are ns relative to t0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from re import fullmatch

from dc_gym.errors import WorkloadError
from dc_gym.topologies.ecmp import Router, draw, path
from dc_gym.topologies.graph import Graph, Port
from dc_gym.traffic.matrix import FlowRequest

FIRST_SOURCE_PORT, LAST_SOURCE_PORT = 20000, 59999
NETNS_FOLDER = "/run/netns"
COLUMNS = (
    *("flow", "src_ns", "dst_ns", "src_addr", "dst_addr", "src_port", "dst_port"),
    *("cc", "start_ns", "stop_ns", "size_bytes", "rate_bps", "path"),
)


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow as it is run: the columns of tgen's CSV, and the names behind them."""

    flow: int
    src: str
    dst: str
    src_ns: str
    dst_ns: str
    src_addr: str
    dst_addr: str
    src_port: int
    dst_port: int
    cc: str
    start_ns: int
    stop_ns: int
    size_bytes: int
    rate_bps: int
    ports: tuple[str, ...]  # egress ports that its data crosses
    rows: tuple[int, ...]  # their rows in the state matrix

    @property
    def path(self) -> str:
        return ";".join(str(row) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Schedule:
    """All flows of a run, in the order of the workload."""

    flows: tuple[Flow, ...]

    def csv(self) -> str:
        """The text for `tgen --flows`."""
        lines = [",".join(COLUMNS)] + [",".join(str(getattr(flow, column)) for column in COLUMNS) for flow in self.flows]
        return "\n".join(lines) + "\n"

    def peers(self) -> dict[str, list[str]]:
        """By host: whom it exchanges packets with, in the order of the flows."""
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
) -> Schedule:
    """Give every flow its sockets and its path. A row of the state matrix is an index into `ports`, by default graph.ports()."""
    if not fullmatch(r"[a-z0-9_]{1,15}", controller):
        raise WorkloadError(f"controller.name: value {controller!r} is no name of a TCP congestion control; one of docs/spec.md")
    rows = {port.ifname: row for row, port in enumerate(graph.ports() if ports is None else ports)}
    source_ports = _source_ports(requests, seed)
    flows = []
    for number, (request, src_port) in enumerate(zip(requests, source_ports, strict=True)):
        crossed = path(graph, router, request.src, request.dst, src_port, request.dst_port)
        if missing := [ifname for ifname in crossed if ifname not in rows]:
            raise WorkloadError(f"flow {number}: port {missing[0]!r} is not among the rows; give all ports of the graph")
        flows.append(_flow(number, request, graph, controller, src_port, tuple(crossed), rows))
    return Schedule(tuple(flows))


def _flow(
    number: int,
    request: FlowRequest,
    graph: Graph,
    controller: str,
    src_port: int,
    crossed: tuple[str, ...],
    rows: dict[str, int],
) -> Flow:
    return Flow(
        flow=number,
        src=request.src,
        dst=request.dst,
        src_ns=f"{NETNS_FOLDER}/{request.src}",
        dst_ns=f"{NETNS_FOLDER}/{request.dst}",
        src_addr=graph.host(request.src).address,
        dst_addr=graph.host(request.dst).address,
        src_port=src_port,
        dst_port=request.dst_port,
        cc=controller,
        start_ns=request.start_ns,
        stop_ns=request.stop_ns,
        size_bytes=request.size_bytes,
        rate_bps=request.rate_bps,
        ports=crossed,
        rows=tuple(rows[ifname] for ifname in crossed),
    )


def _source_ports(requests: Sequence[FlowRequest], seed: int) -> list[int]:
    """A seeded source port for each flow.

    Unique on the sending host, and none that it listens on: then a bind never fails for a reason of our own making.
    """
    taken: dict[str, set[int]] = {request.src: set() for request in requests}
    most = LAST_SOURCE_PORT - FIRST_SOURCE_PORT + 1
    for request in requests:
        if request.dst in taken and FIRST_SOURCE_PORT <= request.dst_port <= LAST_SOURCE_PORT:
            taken[request.dst].add(request.dst_port)
    chosen = []
    for number, request in enumerate(requests):
        used = taken[request.src]
        if len(used) >= most:
            raise WorkloadError(f"flow {number}: host {request.src} has used all {most} source ports; use more hosts")
        attempt = 0
        while (port := FIRST_SOURCE_PORT + draw(seed, "source port", number, attempt) % most) in used:
            attempt += 1
        used.add(port)
        chosen.append(port)
    return chosen
