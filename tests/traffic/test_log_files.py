# SPDX-License-Identifier: Apache-2.0
"""Logs of flows and captures as workloads: read twice, and refused in one line with their place."""

from __future__ import annotations

import socket
import struct
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from readers import PCAP, PCAPNG

from dc_gym.base.errors import WorkloadError
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic import files
from dc_gym.traffic.workload_spec import TrafficSpec
from dc_gym.traffic.workloads import generate_with_notes

MS = 10**6


def requests(path, hosts=4):
    graph = build(TopologySpec.of(kind="single", hosts=hosts, rate_bps=10**10, delay_ns=1000, buffer_bytes=10**6))
    return generate_with_notes(graph, TrafficSpec.of("file", file=path), 10**12, 1)


def ends(flows):
    return [(flow.source, flow.destination, flow.start_ns, flow.size_bytes) for flow in flows]


def refused(path, content, hosts=4):
    path.write_bytes(content)
    with pytest.raises(WorkloadError) as excinfo:
        requests(path, hosts)
    assert "\n" not in str(excinfo.value) and len(str(excinfo.value)) < 400 + len(str(path))
    return str(excinfo.value).removeprefix(f"{path}: ")


def test_a_hundred_thousand_flows_in_csv_and_parquet(tmp_path):
    """Times are not sorted. numpy and pyarrow read the same."""
    chance = np.random.default_rng(1)
    starts, sizes = chance.integers(0, 10**9, 100_000), chance.integers(1, 10**6, 100_000)
    sources = chance.integers(1, 5, 100_000)
    lines = [f"{start / 1000:.3f},h{at},h{at % 4 + 1},{size},x" for start, at, size in zip(starts, sources, sizes, strict=True)]
    (tmp_path / "csv").write_text("# of a cluster\r\nStart us,Src,Dst,Bytes,tag\r\n" + "\r\n".join(lines) + "\r\n", newline="")
    flows, _ = requests(tmp_path / "csv")
    table = np.genfromtxt(tmp_path / "csv", delimiter=",", skip_header=2, usecols=(0, 3))
    assert [flow.start_ns for flow in flows] == np.round(table[:, 0] * 1000).astype(int).tolist() == starts.tolist()
    assert [flow.size_bytes for flow in flows] == table[:, 1].astype(int).tolist()
    assert [(flow.src, flow.dst) for flow in flows] == [(f"h{at}", f"h{at % 4 + 1}") for at in sources]
    names = {"src": [f"h{at}" for at in sources], "dst": [f"h{at % 4 + 1}" for at in sources]}
    pq.write_table(pa.table({"start": pa.array(starts, pa.duration("ns")), **names, "size": sizes}), tmp_path / "parquet")
    assert ends(files.read(tmp_path / "parquet").flows) == ends(files.read(tmp_path / "csv").flows)
    assert files.read(tmp_path / "csv").not_used == ("columns tag",)


def test_dates_count_from_the_first_flow(tmp_path):
    """An empty flow is none. The addresses of a collector become hosts in the order of appearance."""
    first = datetime(2026, 1, 31, 12)
    rows = [(first + timedelta(seconds=2), "9.9.9.9;8.8.8.8;70"), (first, "8.8.8.8;10.0.0.1;9"), (first, "8.8.8.8;9.9.9.9;0")]
    (tmp_path / "csv").write_text("ts;sa;da;ibyt\n" + "".join(f"{time};{rest}\n" for time, rest in rows))
    flows, notes = requests(tmp_path / "csv")
    assert [(flow.src, flow.dst, flow.start_ns, flow.size_bytes) for flow in flows] == [
        *(("h1", "h2", 2000 * MS, 70), ("h2", "h3", 0, 9))
    ]
    assert notes["addresses"] == {"9.9.9.9": "h1", "8.8.8.8": "h2", "10.0.0.1": "h3"}
    assert notes["not_used"] == ["1 flows of 0 bytes"]
    (tmp_path / "own").write_text("start_ns,src,dst,bytes\n0,10.0.0.3,10.0.0.1,9\n")
    assert [(flow.src, flow.dst) for flow in requests(tmp_path / "own")[0]] == [("h3", "h1")]


HEADER = b"start_s,src,dst,bytes\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (HEADER + b"0,h1,h2,-5\n", "line 2: size '-5'"),
        (b"# x\n" + HEADER + b"-1,h1,h2,5\n", "line 3: start '-1'"),
        (HEADER + b"0,h1,h2,5\n0,h1,h9,5\n", "line 3: 'h9' is not one of the hosts"),
        (HEADER + b"0,h1,h1,5\n", "line 2: flow h1 to h1"),
        (HEADER + b"\n0,h1,h2\n", "line 3: it has 3 columns"),
        (HEADER + b'0,"h1,h2,5\n', "not CSV"),
        (HEADER, "0 flows"),
        (b"start,src,bytes\n0,h1,5\n", "no known format"),
        (b"PAR1 and more", "pyarrow does not read it"),
        (HEADER + b"".join(b"0,1.1.1.%d,2.2.2.2,5\n" % host for host in range(4)), "it has 5 addresses"),
        (PCAP[:-1], "behind packet 0"),
        (PCAPNG + PCAPNG[:-4], "behind packet 1"),
        (PCAP[:20] + struct.pack("<I", 105) + PCAP[24:], "link type 105"),
        (PCAP[:24], "none of its 0 packets"),
    ],
)
def test_a_log_or_a_capture_is_refused_with_its_place(content, said, tmp_path):
    assert said in refused(tmp_path / "flows", content)


def packet(source, destination, protocol, transport):
    address = [socket.inet_aton(text) for text in (source, destination)]
    return struct.pack(">BBHIBBH", 0x45, 0, 20 + len(transport), 0, 64, protocol, 0) + b"".join(address) + transport


def segment(ports, seq, flags, payload=0):
    return struct.pack(">HHIIBBHI", *ports, seq, 0, 0x50, flags, 0, 0) + bytes(payload)


def test_a_capture_counts_each_byte_once(tmp_path):
    """A retransmission, a wrap of sequence numbers, a late SYN, the same ports again, UDP, a fragment; packets that are cut."""
    there, back, top = ("1.1.1.1", "2.2.2.2", 6), ("2.2.2.2", "1.1.1.1", 6), 2**32 - 101
    packets = [
        *(packet(*there, segment((1, 80), top, 2)), packet(*back, segment((80, 1), 50, 18))),
        *(packet(*there, segment((1, 80), top + 1, 16, 300)), packet(*there, segment((1, 80), top + 1, 16, 300))),
        *(packet(*there, segment((1, 80), 200, 16, 1000)), packet(*there, segment((1, 80), top, 2))),
        *(packet(*back, segment((80, 1), 51, 16, 7)), packet(*there, segment((1, 80), 9000, 2))),
        *(
            packet(*there, segment((1, 80), 9001, 16, 5)),
            packet("3.3.3.3", "1.1.1.1", 17, struct.pack(">4H", 5, 6, 48, 0) + bytes(40)),
        ),
        *(packet(*there, b"")[:6] + b"\0\1" + packet(*there, b"")[8:], b"\0"),
    ]
    text = struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 64, 101)
    for number, data in enumerate(packets):
        text += struct.pack(">4I", 7 + number, 3, len(data[:40]), len(data)) + data[:40]
    (tmp_path / "pcap").write_bytes(text)
    content = files.read(tmp_path / "pcap")
    assert ends(content.flows) == [
        *(("1.1.1.1", "2.2.2.2", 0, 1300), ("2.2.2.2", "1.1.1.1", 6 * 10**9, 7)),
        *(("1.1.1.1", "2.2.2.2", 7 * 10**9, 5), ("3.3.3.3", "1.1.1.1", 9 * 10**9, 40)),
    ]
    assert content.not_used == ("2 of 12 packets, which are not of TCP or UDP", "the transport of 1 flows over UDP")
