# SPDX-License-Identifier: Apache-2.0
"""Writes an experiment as plain CSV files for a peer: nodes, links, routes, flows (docs/peers.md).

Anything that these files cannot express raises an error: marking by averages, hosts with several ports, flows without a
size, and equal-cost paths, between which each side would choose on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError, UsageError
from dc_gym.base.files import csv_bytes
from dc_gym.base.units import PPM
from dc_gym.run.plan.experiment import Experiment
from dc_gym.topologies.ecmp import Router
from dc_gym.topologies.graph import NO_IMPAIRMENT, Graph, Port
from dc_gym.traffic.flows import FlowRequest

Row = Sequence[object]

NODES = ("name", "address")
NO_ADDRESS = "-"
"""A switch's address."""
MARKING = ("k_bytes", "max_bytes", "max_ppm")
"""Marking begins at K, its probability rises to max_ppm at max_bytes, and is 1 from there on. A step: max_bytes is K. 0: none."""
LINKS = ("a", "b", "rate_bps", "delay_ns", *(f"{end}_{what}" for end in "ab" for what in ("limit_bytes", *MARKING)))
ROUTES = ("port", "destination")
FLOWS = ("flow", "protocol", "src", "dst", "dst_port", "start_ns", "size_bytes")
FLOWS_OUT = ("flow", "established_ns", "end_ns", "received_bytes")
PORTS_OUT = ("port", "tx_packets", "tx_bytes", "marks", "drops")
QUEUE_OUT = ("t_ns", "packets")
QUEUES_OUT = ("port", "queue_bytes")
PROGRESS_OUT = ("t_ns", "flow", "received_bytes")


@dataclass(frozen=True, slots=True)
class PeerFlow:
    """A flow as a peer runs it: TCP, or `udp` with full ECN-capable datagrams that are all handed over at once."""

    src: str
    dst: str
    dst_port: int
    start_ns: int
    size_bytes: int
    protocol: str = "tcp"


@dataclass(frozen=True, slots=True)
class FlowEnd:
    established_ns: int
    end_ns: int
    """When the receiver had the last byte; -1 if it never had."""
    received_bytes: int


@dataclass(frozen=True, slots=True)
class PortCount:
    tx_packets: int
    tx_bytes: int
    """Sizes as Ethernet frames."""
    marks: int
    drops: int


def write(folder: Path, experiment: Experiment, protocol: str = "tcp") -> None:
    """Writes the four files of an experiment to `folder`. Raises UsageError if peers cannot run its flows."""
    if experiment.router.balance:
        raise UsageError(f"topology.balance = {experiment.spec.topology.balance!r}: peers keep a flow on one path; leave it out")
    flows = []
    for number, request in enumerate(flow.request for flow in experiment.schedule.flows):
        known = FlowRequest(request.src, request.dst, request.dst_port, request.start_ns, size_bytes=request.size_bytes)
        if replace(request, stop_ns=0, group=known.group, rep=known.rep, transport=known.transport) != known:
            raise UsageError(f"flow {number}: peers know flows with a start and a size, nothing else; ask for such")
        flows.append(PeerFlow(request.src, request.dst, request.dst_port, request.start_ns, request.size_bytes, protocol))
    write_experiment(folder, experiment.graph, experiment.router, flows)


def write_experiment(folder: Path, graph: Graph, router: Router, flows: Iterable[PeerFlow]) -> None:
    """Writes the four files to `folder`."""
    numbered = list(enumerate(flows))
    for number, flow in numbered:
        if not flow.size_bytes:
            raise UsageError(f"flow {number}: it has no size; a peer runs flows to their end, so give workload.size")
    nodes = [*((host.name, host.address) for host in graph.hosts), *((switch.name, NO_ADDRESS) for switch in graph.switches)]
    for name, columns, rows in (
        ("nodes.csv", NODES, nodes),
        ("links.csv", LINKS, _links(graph)),
        ("routes.csv", ROUTES, _routes(graph, router)),
        ("flows.csv", FLOWS, [(number, *(getattr(flow, name) for name in FLOWS[1:])) for number, flow in numbered]),
    ):
        (folder / name).write_bytes(csv_bytes(columns, rows))


def read_flows(folder: Path) -> tuple[FlowEnd, ...]:
    """Returns the flows' outcomes, in their order."""
    return tuple(FlowEnd(*map(int, row[1:])) for row in _read(folder / "flows-out.csv", FLOWS_OUT))


def read_ports(folder: Path) -> dict[str, PortCount]:
    """Returns the ports' counters, by name."""
    return {row[0]: PortCount(*map(int, row[1:])) for row in _read(folder / "ports-out.csv", PORTS_OUT)}


def read_queue(folder: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns times in ns, and the number of packets waiting in the traced port."""
    rows = np.array([list(map(int, row)) for row in _read(folder / "queue-out.csv", QUEUE_OUT)], np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def read_queues(folder: Path) -> dict[str, int]:
    """Returns the mean queue of each port of a switch over the window, in bytes."""
    return {port: int(queue_bytes) for port, queue_bytes in _read(folder / "queues-out.csv", QUEUES_OUT)}


def read_progress(folder: Path, flows: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Returns the times of the samples in ns, and the bytes that each flow's receiver (columns) had."""
    rows = np.array([list(map(int, row)) for row in _read(folder / "progress-out.csv", PROGRESS_OUT)], np.int64)
    if not len(rows) or len(rows) % flows:
        raise ProtocolError(f"{folder / 'progress-out.csv'}: {len(rows)} rows are not whole samples of {flows} flows")
    samples = rows.reshape(-1, flows, 3)
    return samples[:, 0, 0], samples[:, :, 2].astype(np.float64)


def _links(graph: Graph) -> Iterator[Row]:
    for cable in graph.cables:
        if cable.impairment != NO_IMPAIRMENT:
            raise UsageError(f"cable {cable.name} loses or delays frames; peers know only cables that do not")
        if cable.back is not None:
            raise UsageError(f"cable {cable.name} has two rates or delays; peers know only cables whose directions are equal")
        ends = [(port.queue.limit_bytes, *_marking(port)) for port in (cable.a, cable.b)]
        yield (cable.a.ifname, cable.b.ifname, cable.rate_bps, cable.delay_ns, *ends[0], *ends[1])


def _marking(port: Port) -> tuple[int, int, int]:
    """Returns the columns of MARKING."""
    marking = port.queue.marking
    if marking.kind not in ("none", "step", "red-instant"):
        raise UsageError(f"marking {marking.kind} of {port.ifname}: peers know none, step and red-instant; set topology.marking")
    if port.queue.kind == "fq":
        raise UsageError(f"queue fq of {port.ifname}: peers know only bfifo; set topology.host_qdisc")
    if marking.kind == "red-instant":
        return marking.min_bytes, marking.max_bytes, marking.probability_ppm
    return marking.k_bytes, marking.k_bytes, PPM if marking.k_bytes else 0


def _routes(graph: Graph, router: Router) -> Iterator[tuple[str, str]]:
    addresses: Mapping[str, str] = {host.name: host.address for host in graph.hosts}
    for host in graph.hosts:
        ports = graph.ports_of(host.name)
        if len(ports) != 1:
            raise UsageError(f"host {host.name} has {len(ports)} ports; peers know hosts with one")
        yield from ((ports[0].ifname, other) for other in addresses if other != host.name)
    for switch in graph.switches:
        for name, address in addresses.items():
            numbers = router.hops[switch.name].get(address, ())
            if len(numbers) != 1:
                raise UsageError(
                    f'switch {switch.name} has several paths to {name}; a peer needs one: set topology.routing = "single"'
                )
            yield f"{switch.name}-eth{numbers[0]}", name


def _read(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Reads the rows of a file that a peer wrote.

    Raises ProtocolError if it is not in the agreed form: a header, then rows of a name and numbers.
    """
    try:
        head, *rows = [line.split(",") for line in path.read_text().splitlines()] or [[]]
    except OSError as error:
        raise ProtocolError(f"{path}: the peer did not write it: {error.strerror}") from None
    if tuple(head) != tuple(columns):
        raise ProtocolError(f"{path}: the first line is not {','.join(columns)}")
    for line, row in enumerate(rows, 2):
        if len(row) != len(columns) or not all(cell.lstrip("-").isdigit() for cell in row[1:]):
            raise ProtocolError(f"{path}:{line}: {','.join(row)!r} is not a row of {','.join(columns)}")
    return rows
