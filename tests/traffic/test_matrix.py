# SPDX-License-Identifier: Apache-2.0
"""The flow matrix: what a row means, and that every error names its line, column and value."""

from __future__ import annotations

from collections import Counter

import pytest

from dc_gym.base.errors import WorkloadError
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.kinds.patterns import HOTSPOT_FILE
from dc_gym.traffic.matrix import parse_matrix, read_matrix

HEADER = "source,destination,port,start,stop,size\n"
HOSTS = [f"h{number}" for number in range(1, 17)]


def parse(text):
    return parse_matrix(text, "m.csv", HOSTS)


@pytest.mark.parametrize(
    ("row", "flow"),
    [
        ("h1,h3,80,0.0,0.0,1000000", FlowRequest("h1", "h3", 80, 0, 0, 1_000_000)),  # thesis, table 4.1
        ("h1,h4,80,15.0,30.0,inf", FlowRequest("h1", "h4", 80, 15_000_000_000, 30_000_000_000, 0)),
        ("h2,h1,65535,0.000000001,0,0", FlowRequest("h2", "h1", 65535, 1, 0, 0)),
        ("h2,h1,1,0.1,0.30,1152921504606846976", FlowRequest("h2", "h1", 1, 100_000_000, 300_000_000, 2**60)),
    ],
)
def test_rows(row, flow):
    assert parse(HEADER + row + "\n") == [flow]
    assert parse((HEADER + row).replace("\n", "\r\n")) == [flow]


BAD = [
    ("h1,h2,70000,0,0,0", "m.csv:3: column 'port': value '70000' is not in 1..65535"),
    ("h1,h2,0,0,0,0", "column 'port': value '0'"),
    ("h1,h2,+80,0,0,0", "column 'port': value '+80'"),
    ("h1,h2,8 0,0,0,0", "column 'port': value '8 0'"),
    ("h1,h2,,0,0,0", "column 'port': value ''"),
    ("h99,h2,80,0,0,0", "m.csv:3: column 'source': value 'h99' is not one of the 16 hosts"),
    ("h1,h17,80,0,0,0", "column 'destination': value 'h17'"),
    (" h1,h2,80,0,0,0", "column 'source': value ' h1'"),
    ("h1,h1,80,0,0,0", "column 'destination': value 'h1' is not another host"),
    ("h1,h2,80,-1,0,0", "column 'start': value '-1'"),
    ("h1,h2,80,nan,0,0", "column 'start': value 'nan'"),
    ("h1,h2,80,1e3,0,0", "column 'start': value '1e3'"),
    ("h1,h2,80,0.0000000001,0,0", "column 'start': value '0.0000000001'"),
    ("h1,h2,80,99999999999,0,0", "column 'start': value '99999999999'"),
    ("h1,h2,80,0,inf,0", "column 'stop': value 'inf'"),
    ("h1,h2,80,5,5,0", "column 'stop': value '5' is not after the start '5'"),
    ("h1,h2,80,0,0,1.5", "column 'size': value '1.5'"),
    ("h1,h2,80,0,0,-1", "column 'size': value '-1'"),
    ("h1,h2,80,0,0,1152921504606846977", "column 'size': value '1152921504606846977'"),
    ("h1,h2,80,0,0", "m.csv:3: it has 5 columns, not 6"),
    ("h1,h2,80,0,0,0,UDP", "m.csv:3: it has 7 columns, not 6"),
    ("", "m.csv:3: it has 0 columns"),
    ('"h1,h2,80,0,0,0', "m.csv:3: not CSV"),
]


@pytest.mark.parametrize(("row", "message"), BAD, ids=[row for row, _ in BAD])
def test_bad_rows(row, message):
    with pytest.raises(WorkloadError) as excinfo:
        parse(f"{HEADER}h1,h2,80,0,0,0\n{row}\n")
    assert message in str(excinfo.value) and "\n" not in str(excinfo.value)


BAD_FILES = ["", HEADER, "h1,h2,80,0,0,0\n", HEADER.replace("port", "Port"), "\ufeff" + HEADER, "\n" + HEADER]


@pytest.mark.parametrize("text", BAD_FILES)
def test_bad_files(text):
    with pytest.raises(WorkloadError, match="source,destination,port,start,stop,size"):
        parse(text)


def test_unreadable_files(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing.csv", "binary", "."):
        with pytest.raises(WorkloadError, match=r"workload\.file: cannot read [^ ]*: [^/]*; give a CSV file$"):
            read_matrix(tmp_path / name, HOSTS)


@pytest.mark.parametrize(
    "values",
    [
        {"dst": "h1"},
        {"dst_port": 0},
        {"dst_port": 65536},
        {"start_ns": -1},
        {"size_bytes": 2**60 + 1},
        {"rate_bps": -1},
        {"start_ns": 5, "stop_ns": 5},
    ],
)
def test_bad_requests(values):
    with pytest.raises(WorkloadError):
        FlowRequest(**{"src": "h1", "dst": "h2", "dst_port": 80} | values)


def test_hotspot_is_irokos():
    """One flow a host, in-degree 3 at Iroko's 10.5.0.2 (h10) and 10.7.0.2 (h14); 1 stays at its edge switch, 15 cross pods."""
    flows = read_matrix(HOTSPOT_FILE, HOSTS)
    assert [flow.src for flow in flows] == HOSTS
    received = Counter(flow.dst for flow in flows)
    assert {dst for dst, count in received.items() if count == 3} == {"h10", "h14"} and max(received.values()) == 3
    numbers = [(int(flow.src[1:]) - 1, int(flow.dst[1:]) - 1) for flow in flows]
    assert sum(src // 2 == dst // 2 for src, dst in numbers) == 1 == sum(src // 4 == dst // 4 for src, dst in numbers)
    assert {(flow.dst_port, flow.start_ns, flow.stop_ns, flow.size_bytes) for flow in flows} == {(12345, 0, 0, 0)}
