# SPDX-License-Identifier: Apache-2.0
"""The record files that the programs in a ground read: ports, actuators, flows and NICs.

    python -m dc_gym.run.plan.inputs FILE    prints a record file as CSV

The records are declared in C, too: monitors/ports.h, ctrl/agent/actuators.h, ctrl/agent/events_file.h, traffic/tgen/flow_table.h
and ctrl/nic/nics.h. A test compares the layouts. An IPv4 address is four bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base import record_file
from dc_gym.base.errors import TestbedError
from dc_gym.base.record_file import RecordKind, Table
from dc_gym.base.units import ETHERNET_BYTES, MTU_BYTES, TCP_HEADERS_BYTES, UDP_HEADERS_BYTES
from dc_gym.monitors.state_matrix import MAX_VALUES
from dc_gym.run.plan import jobs
from dc_gym.run.plan.plan import JOB
from dc_gym.spec.nic import FRAME_HEADERS_BYTES
from dc_gym.topologies import telemetry
from dc_gym.topologies.graph import NETNS_FOLDER, Graph, Row
from dc_gym.topologies.realize import nics
from dc_gym.topologies.telemetry import RateUnits
from dc_gym.traffic.flows import GAPS, NO_GATE, TRANSPORTS
from dc_gym.traffic.schedule import Schedule

PORT = RecordKind(
    b"DCGPORTS",
    np.dtype([("name", "S32"), ("netns", "S256"), ("ifname", "S16"), ("class", "<u4"), ("reserved", "<u4")]),
    version=2,
)
ACTUATOR_ROW = RecordKind(
    b"DCGACTRS",
    np.dtype(
        [
            ("actuator", "S16"),
            ("qdisc", "S16"),
            ("low", "<u8", MAX_VALUES),
            ("high", "<u8", MAX_VALUES),
            ("start", "<u8", MAX_VALUES),
            ("row", "<u4"),
            ("n_values", "<u4"),
            ("request_start", "<u4"),
            ("request_len", "<u4"),
            ("writes_start", "<u4"),
            ("n_writes", "<u4"),
            ("reads_start", "<u4"),
            ("n_reads", "<u4"),
            ("control_addr", "u1", 4),
            ("control_port", "<u2"),
            ("reserved", "u1", 2),
        ]
    ),
)
ACTUATOR_FIELD = RecordKind(
    b"DCGFIELD",
    np.dtype(
        [
            ("multiplier", "<u8"),
            ("divisor", "<u8"),
            ("value", "<u2"),
            ("width", "<u2"),
            ("offset", "<u2"),
            ("attribute", "<u2"),
            ("nest", "<u4"),
            ("index", "<u4"),
        ]
    ),
    version=2,
)
REQUEST_BYTE = RecordKind(b"DCGBYTES", np.dtype([("byte", "u1")]))
EVENT = RecordKind(
    b"DCGEVENT",
    np.dtype(
        [
            ("at_ns", "<u8"),
            ("row", "<u4"),
            ("tag", "<u4"),
            ("set_start", "<u4"),
            ("set_len", "<u4"),
            ("get_start", "<u4"),
            ("get_len", "<u4"),
            ("generic", "<u4"),
            ("reserved", "<u4"),
        ]
    ),
)
EVENT_DONE = RecordKind(
    b"DCGEDONE",
    np.dtype([("t_ns", "<u8"), ("tag", "<u4"), ("error", "<i4"), ("answer_start", "<u4"), ("answer_len", "<u4")]),
)
NETNS = RecordKind(b"DCGNETNS", np.dtype([("path", "S256")]))
FLOW = RecordKind(
    b"DCGFLOWS",
    np.dtype(
        [
            ("start_ns", "<i8"),
            ("stop_ns", "<i8"),
            ("length_ns", "<i8"),
            ("size_bytes", "<u8"),
            ("rate_bps", "<u8"),
            ("src_ns", "<u4"),
            ("dst_ns", "<u4"),
            ("src_addr", "u1", 4),
            ("dst_addr", "u1", 4),
            ("listener", "<u4"),
            ("gate", "<u4"),
            ("opens_start", "<u4"),
            ("opens_len", "<u4"),
            ("path_start", "<u4"),
            ("path_len", "<u4"),
            ("src_port", "<u2"),
            ("dst_port", "<u2"),
            ("transport", "u1"),
            ("gaps", "u1"),
            ("cc", "S16"),
            ("dscp", "u1"),
            ("acks", "u1"),
            ("reserved", "u1", 4),
            ("packet_bytes", "<u4"),
        ]
    ),
    version=2,
)
OPENS = RecordKind(b"DCGOPENS", np.dtype([("gate", "<u4")]))
PATH = RecordKind(b"DCGPROWS", np.dtype([("row", "<u4")]))
NIC = RecordKind(
    b"DCGYNICS",
    np.dtype([("line_bps", "<u8"), ("name", "S64"), ("netns", "S256"), ("wire", "S16"), ("ring", "S16"), ("tail", "S16")]),
)
NIC_FLOW = RecordKind(
    b"DCGYQPRS",
    np.dtype(
        [
            ("message_bytes", "<u8"),
            ("total_bytes", "<u8"),
            ("flow", "<u4"),
            ("src_nic", "<u4"),
            ("dst_nic", "<u4"),
            ("src_addr", "u1", 4),
            ("dst_addr", "u1", 4),
            ("payload_bytes", "<u4"),
            ("base_rtt_ns", "<u4"),
            ("hops", "u1"),
            ("dscp", "u1"),
            ("answer_dscp", "u1"),
            ("cnp_dscp", "u1"),
            ("src_mac", "u1", 6),
            ("dst_mac", "u1", 6),
            ("src_port", "<u2"),
            ("tcp_src_port", "<u2"),
            ("tcp_dst_port", "<u2"),
            ("int_bytes", "<u2"),
            ("inflight_bytes", "<u4"),
        ]
    ),
)
MOST_PARAMETERS = 44
NIC_SETTINGS = RecordKind(
    b"DCGYNSET",
    np.dtype(
        [
            ("latency_ns", "<u8"),
            ("cnp_interval_ns", "<u8"),
            ("nack_interval_ns", "<u8"),
            ("timeout_ns", "<u8"),
            ("timeout_max_ns", "<u8"),
            ("probe_timeout_ns", "<u8"),
            ("probe_timeout_max_ns", "<u8"),
            ("ack_packets", "<u4"),
            ("burst_packets", "<u4"),
            ("selective", "<u4"),
            ("trace", "<u4"),
            ("in_turn", "<u4"),
            ("event_loss_ppm", "<u4"),
            ("event_coalesce", "<u4"),
            ("spaced", "<u4"),
            ("seed", "<u8"),
            ("parameter", "<u4", MOST_PARAMETERS),
            ("int_rate", "<u4", (telemetry.MOST_RATES, 4)),
            ("caps", "<u4"),
            ("beside", "<u4"),
            ("trims", "<u4"),
            ("entropies", "<u4"),
            ("event_cost_ns", "<u8"),
            ("event_queue", "<u8"),
            ("balancer", "<u8"),
        ],
        align=True,
    ),
)
KINDS = (
    PORT,
    ACTUATOR_ROW,
    ACTUATOR_FIELD,
    REQUEST_BYTE,
    EVENT,
    EVENT_DONE,
    NETNS,
    FLOW,
    OPENS,
    PATH,
    NIC,
    NIC_FLOW,
    NIC_SETTINGS,
    jobs.NODE,
    jobs.EDGE,
)
HERE = "-"
"""Instead of a namespace's path: the program's own."""
NEVER = 2**32 - 1
"""Instead of a gate: the flow waits at none."""


def netns_of(host: str) -> str:
    return f"{NETNS_FOLDER}/{host}"


def address(text: str | IPv4Address) -> tuple[int, ...]:
    return tuple(IPv4Address(text).packed)


def mac(text: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(text.replace(":", "")))


def write_ports(path: Path, graph: Graph, only: Sequence[str] | None = None) -> None:
    """Writes all ports of a network, or only the ports with these names."""
    _write(path, graph, [Row(port) for port in graph.ports() if only is None or port.ifname in only])


def write_rows(path: Path, graph: Graph) -> None:
    """Writes the rows of the state matrix. A record's number is its row."""
    _write(path, graph, graph.rows())


def _write(path: Path, graph: Graph, rows: Sequence[Row]) -> None:
    hosts = {host.name for host in graph.hosts}
    record_file.write(path, PORT.table(_port(row, hosts) for row in rows))


def _port(row: Row, hosts: set[str]) -> dict[str, object]:
    port, class_index = row.port, 0 if row.number is None else 1 + row.number
    netns = netns_of(port.node) if port.node in hosts else HERE
    return {"name": row.name, "netns": netns, "ifname": port.ifname, "class": class_index}


NIC_HEADERS_BYTES = FRAME_HEADERS_BYTES - ETHERNET_BYTES
PACKET_HEADERS_BYTES = {"tcp": TCP_HEADERS_BYTES, "udp": UDP_HEADERS_BYTES, "rdma": NIC_HEADERS_BYTES, "uec": NIC_HEADERS_BYTES}


def write_flows(path: Path, schedule: Schedule, graph: Graph, traced: Container[int] = ()) -> None:
    """Writes the file of `tgen --flows`, and beside it that of `tgen --job` if there are jobs.

    The ACKs of flows with the numbers `traced` are recorded.
    """
    record_file.write(path, *flow_tables(schedule, graph.mtu_bytes, traced))
    if job_tables := jobs.tables(schedule):
        record_file.write(path.with_suffix(JOB), *job_tables)


def flow_tables(schedule: Schedule, mtu_bytes: int = MTU_BYTES, traced: Container[int] = ()) -> tuple[Table, Table, Table, Table]:
    """Returns the namespaces, the flows, the gates that they open and the rows of the ports that they cross."""
    netns: dict[str, int] = {}
    listeners: dict[tuple[object, ...], int] = {}
    opens, crossed, rows = _Lists(), _Lists(), []
    addresses = {endpoint: address(endpoint) for flow in schedule.flows for endpoint in (flow.src_addr, flow.dst_addr)}
    for flow in schedule.flows:
        request = flow.request
        rows.append(
            {
                "start_ns": request.start_ns,
                "stop_ns": request.stop_ns,
                "length_ns": request.length_ns,
                "size_bytes": request.size_bytes,
                "rate_bps": request.rate_bps,
                "src_ns": netns.setdefault(request.src, len(netns)),
                "dst_ns": netns.setdefault(request.dst, len(netns)),
                "src_addr": addresses[flow.src_addr],
                "dst_addr": addresses[flow.dst_addr],
                "listener": listeners.setdefault((request.transport, request.dst, flow.dst_addr, request.dst_port), flow.flow),
                "gate": NEVER if request.gate == NO_GATE else request.gate,
                "opens_start": opens.start(request.opens),
                "opens_len": len(request.opens),
                "path_start": crossed.start(flow.rows),
                "path_len": len(flow.rows),
                "src_port": flow.src_port,
                "dst_port": request.dst_port,
                "transport": TRANSPORTS.index("rdma" if request.by_nic else request.transport),  # to tgen the NICs' are one
                "gaps": GAPS.index(request.gaps),
                "cc": flow.cc,
                "dscp": request.dscp or 0,
                "acks": int(flow.flow in traced),
                "packet_bytes": mtu_bytes - PACKET_HEADERS_BYTES[str(request.transport)],
            }
        )
    spaces = NETNS.table({"path": netns_of(host)} for host in netns)
    gates, path = ({"gate": gate} for gate in opens.numbers), ({"row": row} for row in crossed.numbers)
    return spaces, FLOW.table(rows), OPENS.table(gates), PATH.table(path)


def nic_table(graph: Graph) -> Table:
    """Returns the NICs. A NIC's record number is its row in the loader's tables."""
    return NIC.table(
        {
            "line_bps": nic.line_bps,
            "name": nic.name,
            "netns": netns_of(nic.host),
            "wire": nic.wire,
            "ring": nic.ring,
            "tail": nic.tail,
        }
        for nic in nics.devices(graph)
    )


def settings_table(
    settings: Mapping[str, int], parameters: Sequence[int], rates: Sequence[RateUnits] = (), *, beside: bool = False
) -> Table:
    """Returns the settings by their names, the algorithm's parameters in their order, and the table of rates of telemetry.

    `beside` is True if the hosts send frames of their own beside RDMA.
    """
    rest = [0] * (MOST_PARAMETERS - len(parameters))
    row = {
        "trims": 0,
        "entropies": 0,
        "balancer": 0,
        **settings,
        "parameter": (*parameters, *rest),
        "int_rate": telemetry.words(rates),
        "caps": 0,
        "beside": int(beside),
    }
    return NIC_SETTINGS.table([row])


class _Lists:
    """Lists of numbers in one table. Equal ones share their place."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._starts: dict[tuple[int, ...], int] = {}

    def start(self, numbers: tuple[int, ...]) -> int:
        """Returns where a list begins."""
        if numbers not in self._starts:
            self._starts[numbers] = len(self.numbers)
            self.numbers += numbers
        return self._starts[numbers]


def main(argv: list[str] = sys.argv) -> int:
    try:
        (path,) = argv[1:]
        tables = record_file.read(Path(path), KINDS)
    except ValueError:
        print("usage: python -m dc_gym.run.plan.inputs FILE", file=sys.stderr)
        return 2
    except (OSError, TestbedError) as error:
        print(f"inputs: {error}", file=sys.stderr)
        return 2
    for table in tables:
        names = table.records.dtype.names or ()
        print(",".join(names))
        for record in table.records:
            print(",".join(_shown(record[name]) for name in names))
        print()
    return 0


def _shown(value: Any) -> str:
    """Returns a text as it is, and numbers with their separator."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return ".".join(map(str, value)) if isinstance(value, np.ndarray) else str(value)


if __name__ == "__main__":
    sys.exit(main())
