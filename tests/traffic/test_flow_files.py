# SPDX-License-Identifier: Apache-2.0
"""Flows in other tools' files: read twice, by the readers and by numpy, and refused in one line with their place."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dc_gym.base.errors import WorkloadError
from dc_gym.results import fingerprint
from dc_gym.spec import load, of_preset
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic import files
from dc_gym.traffic.workload_spec import TrafficSpec
from dc_gym.traffic.workloads import generate_with_notes

NETWORK = "9 1 8\n0\n" + "".join(f"{host} 0 10Gbps 1us 0\n" for host in range(1, 9))
"""Eight hosts, 1 to 8, at switch 0."""
HPCC = "3\n1 2 3 100 5000 2\n2 8 3 100 1 0.000000001\n7 1 3 100 123456 2.5e-3\n"
MATRIX = """Nodes 8
Connections 4
Triggers 2
# two at once, then one, then another
0->2 id 1 start 1000 size 100 send_done_trigger 7
1->2 id 2 start 2500000.0 size 200 recv_done_trigger 7
2->3 id 3 trigger 7 size 300 prio 1 send_done_trigger 9
3->4 id 4 trigger 9 size 0
trigger id 7 barrier count 2
trigger id 9 oneshot
"""
TEXTS = (HPCC, MATRIX)
SECONDS = 10**9


def requests(folder, text, **topology):
    (folder / "flows").write_text(text, newline="")
    graph = build(TopologySpec.of(**{"rate_bps": 10**10, "delay_ns": 1000, "buffer_bytes": 10**6} | topology))
    return generate_with_notes(graph, TrafficSpec.of("file", file=folder / "flows"), 10 * SECONDS, 1)


def single(folder, text, hosts=8):
    return requests(folder, text, kind="single", hosts=hosts)


def refused(folder, text):
    with pytest.raises(WorkloadError) as excinfo:
        single(folder, text)
    assert "\n" not in str(excinfo.value) and len(str(excinfo.value)) < 400 + len(str(folder))
    return str(excinfo.value).removeprefix(f"{folder}/")


def test_hpcc_and_conweave(tmp_path):
    (tmp_path / "net").write_text(NETWORK)
    flows, notes = requests(tmp_path, HPCC, kind="file", file=tmp_path / "net")
    expected = [("h1", "h2", 2 * SECONDS, 5000), ("h2", "h8", 1, 1), ("h7", "h1", 2_500_000, 123456)]
    assert [(flow.src, flow.dst, flow.start_ns, flow.size_bytes) for flow in flows] == expected
    assert notes["not_used"] == ["priority groups, and ports of destinations"]
    conweave = HPCC.replace(" 100 ", " ").replace("\n", " \r\n") + "1 2 3 5000 2\n\n"
    assert requests(tmp_path, conweave, kind="file", file=tmp_path / "net")[0] == flows
    assert files.read(tmp_path / "flows").not_used == ("priority groups", "1 lines after the first 3 flows")


def test_a_number_is_a_place_where_a_network_has_no_numbers_of_a_file(tmp_path):
    """With the hosts h1 to h8 and switch s1, 0 is the first host. In a file's network without node 0, 1 is still h1."""
    assert [flow.src for flow in single(tmp_path, HPCC.replace(" 8 3", " 0 3"))[0]] == ["h2", "h3", "h8"]
    (tmp_path / "net").write_text(NETWORK.replace("9 1 8\n0", "10 1 8\n9").replace(" 0 10G", " 9 10G"))
    assert [flow.dst for flow in requests(tmp_path, HPCC, kind="file", file=tmp_path / "net")[0]] == ["h2", "h8", "h1"]


def test_htsim_with_triggers(tmp_path):
    """A flow waits at the gate that its trigger's flows open. Picoseconds become nanoseconds."""
    flows, notes = single(tmp_path, MATRIX)
    assert [(flow.src, flow.dst, flow.start_ns, flow.size_bytes) for flow in flows] == [
        *(("h1", "h3", 1, 100), ("h2", "h3", 2500, 200), ("h3", "h4", 0, 300), ("h4", "h5", 0, 0))
    ]
    assert [flow.opens for flow in flows] == [(0,), (0,), (1,), ()] and [flow.gate for flow in flows] == [-1, -1, 0, 1]
    assert notes["not_used"] == ["the end of sending: a trigger waits until all is received", "priorities"]


@pytest.mark.parametrize("form", ["hpcc", "htsim"])
def test_a_hundred_thousand_flows_are_what_numpy_reads(tmp_path, form):
    draw, text = random.Random(7), []
    for number in range(100_000):
        a, b = draw.sample(range(8), 2)
        size, start = draw.randrange(1, 10**6), draw.randrange(10**9)
        hpcc, htsim = f"{a} {b} 3 100 {size} {start / 10**9:.9f}", f"{a}->{b} id {number + 1} start {start}000 size {size}"
        text.append(hpcc if form == "hpcc" else htsim)
    head = {"hpcc": f"{len(text)}\n", "htsim": f"Nodes 8\nConnections {len(text)}\n"}[form]
    flows, _ = single(tmp_path, head + "\n".join(text))
    plain = (tmp_path / "flows").read_text().replace("->", " ").splitlines()
    columns, per_second = ((0, 1, 4, 5), 1) if form == "hpcc" else ((0, 1, 7, 5), 10**12)
    rows = np.loadtxt(plain[1:] if form == "hpcc" else plain[2:], dtype=float if form == "hpcc" else str, usecols=columns)
    rows = rows.astype(float)
    assert len(flows) == len(rows) == 100_000
    mine = [(int(flow.src[1:]) - 1, int(flow.dst[1:]) - 1, flow.size_bytes, flow.start_ns) for flow in flows]
    rows[:, 3] = np.round(rows[:, 3] / per_second * 10**9)
    assert (np.array(mine) == rows).all()


REFUSED = {
    "too few flows": (HPCC.replace("3\n", "4\n", 1), "line 1: it announces 4 flows, and 3 follow"),
    "a negative size": (HPCC.replace("5000", "-5000"), "line 2: size '-5000' is not a whole number of bytes above 0"),
    "no size": (HPCC.replace(" 1 0.0", " 0 0.0"), "line 3: size '0' is not"),
    "a negative start": (HPCC.replace("100 1 0", "100 1 -0"), "line 3: start '-0.000000001' is not a number of seconds"),
    "a flow to itself": (HPCC.replace("2 8 3", "2 2 3"), "line 3: flow h3 to h3: destination 'h3' is the source"),
    "an unknown host": (HPCC, "line 3: '8' is not one of the hosts h1 .. h8 of the network"),
    "a column less": (HPCC.replace("2 8 3 100", "2 8 3"), "line 3: it has 5 words; write source, destination, priority, port"),
    "a comment": (HPCC.replace("2 8 3", "# more\n2 8 3"), "line 3: it has 2 words"),
    "nothing": ("", "is in no known format"),
    "another count": (MATRIX.replace("Connections 4", "Connections 5"), "line 2: it has 4 connections, and Connections says 5"),
    "a trigger less": (MATRIX.replace("Triggers 2", "Triggers 3"), "line 3: it has 2 triggers, and Triggers says 3"),
    "a node more": (MATRIX.replace("3->4", "3->8"), "line 8: 3->8 is not among the 8 nodes"),
    "no start": (MATRIX.replace("start 1000 ", ""), "line 5: the flow needs start or trigger, and not both"),
    "no size at all": (MATRIX.replace(" size 0", ""), "line 8: the flow has no size"),
    "a negative start in ps": (MATRIX.replace("start 1000", "start -1"), "line 5: start '-1' is not a whole number"),
    "an unknown word": (MATRIX.replace("prio", "priority"), "line 7: 'priority' is not known here"),
    "an unknown line": (MATRIX.replace("trigger id 9", "Trigger id 9"), "line 10: 'Trigger' is not known here"),
    "a trigger that nobody starts": (MATRIX.replace(" send_done_trigger 9", ""), "line 8: no flow starts trigger 9"),
    "a trigger that is not there": (MATRIX.replace("trigger 7 size", "trigger 8 size"), "line 7: there is no trigger 8"),
    "a trigger twice": (MATRIX.replace("id 9 one", "id 7 one"), "line 10: trigger 7 is in line 9 already"),
    "a barrier of three": (MATRIX.replace("count 2", "count 3"), "line 9: barrier 7 waits for 3 flows, and 2 start it"),
    "a shot by two": (MATRIX.replace("barrier count 2", "oneshot"), "line 9: oneshot 7 waits for 1 flows, and 2 start it"),
}


@pytest.mark.parametrize("text,words", REFUSED.values(), ids=REFUSED)
def test_a_mistake_is_one_line_with_its_place(tmp_path, text, words):
    assert words in refused(tmp_path, text)


def test_junk_is_one_line(tmp_path):
    (tmp_path / "junk").write_bytes(b"Nodes 4\nConnections 1\n" + bytes(range(256)))
    with pytest.raises(WorkloadError, match=r"junk: cannot read it: [^/]*; give another file") as excinfo:
        files.read(tmp_path / "junk")
    assert "\n" not in str(excinfo.value)


def test_the_files_are_in_the_fingerprint_of_runs_that_read_them_alone(tmp_path):
    (tmp_path / "net").write_text(NETWORK)
    (tmp_path / "flows").write_text(HPCC)
    words = ["workload.kind=file", f"workload.file={tmp_path / 'flows'}", "time.duration=3s", "topology.k_bytes=65p"]
    plain = of_preset("dctcp-10g")
    both = load(tmp_path / "net", words)
    before, kind = fingerprint.acting(both)["files"], fingerprint.kind_of(both)
    assert fingerprint.acting(plain) == {} and set(fingerprint.acting(load(tmp_path / "net"))) == {"files"}
    assert set(both.copies()) == {"topology-file", "workload-file"}
    (tmp_path / "flows").write_text(HPCC.replace("5000", "5001"))
    assert fingerprint.acting(both)["files"] != before and fingerprint.kind_of(both) != kind
