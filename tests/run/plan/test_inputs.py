# SPDX-License-Identifier: Apache-2.0
"""Record files: layouts as C has them, what is written of a network and its flows, and how a file is shown and refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from c_layout import layout, layout_of, numbers, texts

from dc_gym.base import record_file
from dc_gym.base.errors import ProtocolError
from dc_gym.base.record_file import RecordKind
from dc_gym.run.plan import inputs, jobs
from dc_gym.run.plan.inputs import (
    ACTUATOR_FIELD,
    ACTUATOR_ROW,
    EVENT,
    EVENT_DONE,
    FLOW,
    KINDS,
    NETNS,
    NIC,
    NIC_FLOW,
    NIC_SETTINGS,
    OPENS,
    PATH,
    PORT,
    REQUEST_BYTE,
)
from dc_gym.topologies.ecmp import route
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic.flows import GAPS, MOST_FLOWS, TRANSPORTS, FlowRequest
from dc_gym.traffic.job_graph import CALC, LARGEST_MESSAGE, RECV, SEND
from dc_gym.traffic.schedule import make_schedule

HEADERS = {
    PORT: ("monitors/ports.h", "port", "PORT_MAGIC", "PORT_VERSION"),
    ACTUATOR_ROW: ("ctrl/agent/actuators.h", "actuator_row", "ACTUATOR_MAGIC", "ACTUATOR_VERSION"),
    ACTUATOR_FIELD: ("ctrl/agent/actuators.h", "actuator_field", "FIELD_MAGIC", "FIELD_VERSION"),
    REQUEST_BYTE: ("ctrl/agent/actuators.h", "unsigned char", "REQUEST_MAGIC", "ACTUATOR_VERSION"),
    EVENT: ("ctrl/agent/events_file.h", "event_change", "EVENT_MAGIC", "EVENT_VERSION"),
    EVENT_DONE: ("ctrl/agent/events_file.h", "event_done", "EVENT_DONE_MAGIC", "EVENT_VERSION"),
    NETNS: ("traffic/tgen/flow_table.h", "flow_netns", "FLOW_NETNS_MAGIC", "FLOW_VERSION"),
    FLOW: ("traffic/tgen/flow_table.h", "flow_spec", "FLOW_MAGIC", "FLOW_SPEC_VERSION"),
    OPENS: ("traffic/tgen/flow_table.h", "uint32_t", "FLOW_OPENS_MAGIC", "FLOW_VERSION"),
    PATH: ("traffic/tgen/flow_table.h", "uint32_t", "FLOW_ROWS_MAGIC", "FLOW_VERSION"),
    jobs.NODE: ("traffic/tgen/job_table.h", "job_node", "JOB_MAGIC", "JOB_VERSION"),
    jobs.EDGE: ("traffic/tgen/job_table.h", "uint32_t", "JOB_EDGES_MAGIC", "JOB_VERSION"),
    NIC: ("ctrl/nic/nics.h", "nic", "NIC_MAGIC", "NICS_VERSION"),
    NIC_FLOW: ("ctrl/nic/nics.h", "nic_flow", "NIC_FLOW_MAGIC", "NICS_VERSION"),
    NIC_SETTINGS: ("ctrl/nic/nics.h", "nic_settings", "NIC_SETTING_MAGIC", "NICS_VERSION"),
}
PLAIN = {"uint32_t": 4, "unsigned char": 1}
"""Sizes of records that are no struct."""
IDS = [kind.magic.decode() for kind in HEADERS]
DUMBBELL = build(TopologySpec.of(preset="dumbbell-10m"))


@pytest.mark.parametrize("kind", HEADERS, ids=IDS)
def test_records_are_those_of_c(kind: RecordKind) -> None:
    header, struct, magic, version = HEADERS[kind]
    declared = "ctrl/nic/shim.h" if kind is NIC_SETTINGS else header
    plain = PLAIN.get(struct)
    expected = layout(declared, struct) if plain is None else (plain, {name: (0, plain) for name in kind.dtype.names})
    assert layout_of(kind.dtype) == expected
    assert (texts(header, magic), numbers(header, version)) == ([kind.magic.decode()], [kind.version])


def test_every_kind_is_compared_and_told_apart() -> None:
    assert set(KINDS) == set(HEADERS) and len({kind.magic for kind in KINDS}) == len(KINDS)


def test_headers_and_constants_are_those_of_c() -> None:
    assert layout_of(record_file.HEADER) == layout("dc_gym/daemon/record_file.h", "record_header")
    header = "traffic/tgen/flow_table.h"
    of_tgen = [name for name in TRANSPORTS if name != "uec"]  # rdma to it
    assert numbers(header, *(f"FLOW_{name.upper()}" for name in of_tgen), "NR_TRANSPORTS") == [*range(len(of_tgen) + 1)]
    assert numbers(header, *(f"GAPS_{name.upper()}" for name in GAPS), "NR_GAPS") == [*range(len(GAPS) + 1)]
    assert numbers(header, "FLOW_NO_GATE", "FLOW_MAX") == [inputs.NEVER, MOST_FLOWS]
    job = "traffic/tgen/job_table.h"
    assert numbers(job, "JOB_START", "JOB_CALC", "JOB_SEND", "JOB_RECV") == [jobs.START, CALC, SEND, RECV]
    assert numbers(job, "JOB_BYTES_MAX") == [LARGEST_MESSAGE]
    assert numbers("ctrl/nic/nics.h", "CC_PARAMETERS_MAX") == [inputs.MOST_PARAMETERS]


# --- what is written


def tables(requests: list[FlowRequest]) -> dict[RecordKind, np.ndarray]:
    schedule = make_schedule(requests, DUMBBELL, route(DUMBBELL, 1), "dctcp", 1)
    return {table.kind: table.records for table in inputs.flow_tables(schedule)}


def test_flows_byte_for_byte() -> None:
    requests = [FlowRequest(src, dst, 5001, stop_ns=30, rate_bps=10**7) for src, dst in (("h1", "h3"), ("h2", "h4"))]
    records = tables(requests)
    assert records[NETNS]["path"].tolist() == [f"/run/netns/{host}".encode() for host in ("h1", "h3", "h2", "h4")]
    flows = ((0, 1, 1, 3, 0, 0, 26551), (2, 3, 2, 4, 1, 3, 46482))
    rows = [
        (
            *(0, 30, 0, 0, 10**7, src_ns, dst_ns, (10, 0, 0, src), (10, 0, 0, dst), listener, 2**32 - 1, 0, 0),
            *(path_start, 3, src_port, 5001, 0, 0, b"dctcp", 0, 0, (0,) * 4, 1448),
        )
        for src_ns, dst_ns, src, dst, listener, path_start, src_port in flows
    ]
    assert records[FLOW].tobytes() == np.array(rows, FLOW.dtype).tobytes()
    assert records[OPENS].tolist() == [] and records[PATH]["row"].tolist() == [6, 2, 3, 7, 2, 4]


def test_gates_lengths_and_listeners() -> None:
    requests = [
        FlowRequest("h1", "h3", 5001, size_bytes=9, opens=(0, 1)),
        FlowRequest("h3", "h1", 5001, 7, gate=1, length_ns=5, transport="udp", rate_bps=8, gaps="uniform"),
        FlowRequest("h2", "h3", 5001, opens=(0, 1)),
        FlowRequest("h2", "h3", 5001, transport="udp", rate_bps=8),
        FlowRequest("h2", "h3", 5002),
    ]
    records = tables(requests)
    flows = records[FLOW]
    assert flows["gate"].tolist() == [inputs.NEVER, 1, *[inputs.NEVER] * 3]
    assert flows["transport"].tolist() == [0, 1, 0, 1, 0] and flows["gaps"].tolist() == [0, 1, 0, 0, 0]
    assert (flows["start_ns"][1], flows["length_ns"][1], flows["stop_ns"][1]) == (7, 5, 0)
    assert flows["listener"].tolist() == [0, 1, 0, 3, 4], "the first flow to the same transport, host and port"
    assert records[OPENS]["gate"].tolist() == [0, 1], "equal lists lie there once"
    assert list(zip(flows["opens_start"].tolist(), flows["opens_len"].tolist(), strict=True))[:3] == [(0, 2), (2, 0), (0, 2)]
    rows = records[PATH]["row"]
    path = [rows[flow["path_start"] : flow["path_start"] + flow["path_len"]].tolist() for flow in flows]
    assert path[2] == path[3] == path[4] != path[0]


def test_ports_are_the_rows_of_the_state_matrix(tmp_path: Path) -> None:
    inputs.write_ports(tmp_path / "ports", DUMBBELL)
    (table,) = record_file.read(tmp_path / "ports", KINDS)
    assert table.kind is PORT and table.records["name"].tolist() == [port.ifname.encode() for port in DUMBBELL.ports()]
    switches = {switch.name for switch in DUMBBELL.switches}
    namespaces = ["-" if port.node in switches else f"/run/netns/{port.node}" for port in DUMBBELL.ports()]
    assert table.records["netns"].tolist() == [namespace.encode() for namespace in namespaces]


# --- how a file is shown and refused


def port(name: str, netns: str) -> dict[str, object]:
    return {"name": name, "netns": netns, "ifname": name, "class": 0}


def rows_of_actuators() -> record_file.Table:
    row = {"actuator": "rate", "qdisc": "tbf", "low": (8, 0, 0, 0), "high": (10**7, 0, 0, 0), "start": (10**7, 0, 0, 0)}
    row |= {"row": 3, "n_values": 1, "request_start": 0, "request_len": 108, "writes_start": 0, "n_writes": 2}
    return ACTUATOR_ROW.table([row | {"reads_start": 2, "n_reads": 2, "control_addr": (172, 16, 0, 1), "control_port": 20130}])


def test_a_file_is_shown_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "some"
    amounts = {
        "multiplier": 1 << 32,
        "divisor": 10**6,
        "value": 2,
        "width": 4,
        "offset": 0,
        "attribute": 3,
        "nest": 6,
        "index": 1,
    }
    record_file.write(path, PORT.table([port("a", "-"), port("b", "/n/b")]), rows_of_actuators(), ACTUATOR_FIELD.table([amounts]))
    argv = [sys.executable, "-m", "dc_gym.run.plan.inputs"]
    csv = subprocess.run([*argv, str(path)], capture_output=True, text=True, check=True).stdout
    assert csv == (
        "name,netns,ifname,class,reserved\na,-,a,0,0\nb,/n/b,b,0,0\n\n"
        "actuator,qdisc,low,high,start,row,n_values,request_start,request_len,writes_start,n_writes,reads_start,n_reads,"
        "control_addr,control_port,reserved\n"
        "rate,tbf,8.0.0.0,10000000.0.0.0,10000000.0.0.0,3,1,0,108,0,2,2,2,172.16.0.1,20130,0.0\n\n"
        "multiplier,divisor,value,width,offset,attribute,nest,index\n4294967296,1000000,2,4,0,3,6,1\n\n"
    )
    for words in ([str(tmp_path / "none")], [], [str(path), "more"]):
        child = subprocess.run([*argv, *words], capture_output=True, text=True)
        assert (child.returncode, child.stdout, child.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data[:10], "10 bytes at byte 0 are too few"),
        (lambda data: b"X" + data[1:], r"records b'XCGPORTS' of version 2 and 312 bytes at byte 0 are not known"),
        (lambda data: data[:8] + b"\x03" + data[9:], "of version 3"),
        (lambda data: data[:-1], "cut off within 1 records b'DCGPORTS'"),
    ],
)
def test_the_reader_is_strict(tmp_path: Path, spoil, words: str) -> None:
    path = tmp_path / "ports"
    record_file.write(path, PORT.table([port("a", "-")]))
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ProtocolError, match=words):
        record_file.read(path, KINDS)
