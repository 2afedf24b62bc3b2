# SPDX-License-Identifier: Apache-2.0
"""Workloads and the schedule: who sends to whom and when, and the exact bytes that tgen gets."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from dc_gym.errors import WorkloadError
from dc_gym.topologies.ecmp import path, route
from dc_gym.topologies.presets import PRESETS, TopologyParams, build
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.schedule import COLUMNS, make_schedule
from dc_gym.traffic.workloads import KINDS, WorkloadParams, generate, register

SECOND = 10**9
GRAPHS = {name: build(TopologyParams(preset=name)) for name in PRESETS}
DUMBBELL, FATTREE = GRAPHS["dumbbell-10m"], GRAPHS["fattree-k4"]


def ends(flows):
    return [(flow.src, flow.dst) for flow in flows]


def run(graph, kind, seed=1, duration_ns=30 * SECOND, **values):
    return generate(graph, WorkloadParams(kind, **values), duration_ns, seed)


def test_patterns():
    assert ends(run(DUMBBELL, "pairs")) == [("h1", "h3"), ("h2", "h4")]
    assert ends(run(FATTREE, "pairs"))[:2] == [("h1", "h9"), ("h2", "h10")] and len(run(FATTREE, "pairs")) == 8
    assert ends(run(GRAPHS["dctcp-10g"], "many_to_one")) == [(f"h{number}", "h5") for number in range(1, 5)]
    assert ends(run(GRAPHS["dctcp-10g"], "many_to_one", senders=2)) == [("h1", "h5"), ("h2", "h5")]
    assert len(run(FATTREE, "hotspot")) == 16


def test_times_sizes_and_rates():
    assert run(DUMBBELL, "pairs")[0] == FlowRequest("h1", "h3", 5001, 0, 30 * SECOND, 0, 0)
    values = {"start_ns": SECOND, "stop_ns": 5 * SECOND, "rate_bps": 10**6}
    assert run(DUMBBELL, "pairs", **values)[0] == FlowRequest("h1", "h3", 5001, SECOND, 5 * SECOND, 0, 10**6)
    assert run(DUMBBELL, "pairs", size_bytes=500)[0] == FlowRequest("h1", "h3", 5001, 0, 0, 500, 0)  # a size ends it
    assert run(DUMBBELL, "pairs", size_bytes=500, stop_ns=9)[0].stop_ns == 9  # unless its time is up before
    datagrams = run(DUMBBELL, "pairs", rate_bps=10**6, transport="udp", gaps="uniform")[0]
    assert (datagrams.transport, datagrams.gaps) == ("udp", "uniform")


def test_keys_stand_in_where_a_matrix_says_nothing(tmp_path):
    file = tmp_path / "m.csv"
    file.write_text("source,destination,port,start,stop,size\nh1,h3,80,1,0,0\nh1,h3,80,1,2,0\nh2,h4,80,0,0,700\n")
    flows = run(DUMBBELL, "matrix", file=file, start_ns=SECOND, stop_ns=9 * SECOND, rate_bps=5)
    assert [(flow.start_ns, flow.stop_ns, flow.size_bytes, flow.rate_bps) for flow in flows] == [
        (2 * SECOND, 9 * SECOND, 0, 5),
        (2 * SECOND, 3 * SECOND, 0, 5),  # the whole pattern moves with workload.start
        (SECOND, 9 * SECOND, 700, 5),
    ]


def test_jitter_is_uniform_and_seeded():
    starts = [flow.start_ns for seed in range(100) for flow in run(FATTREE, "hotspot", seed=seed, start_ns=7, jitter_ns=1000)]
    assert min(starts) >= 7 and max(starts) < 1007 and len(set(starts)) > 700
    assert abs(sum(starts) / len(starts) - 506.5) < 4 * 288.7 / len(starts) ** 0.5
    assert run(FATTREE, "hotspot", seed=1, jitter_ns=1000) == run(FATTREE, "hotspot", seed=1, jitter_ns=1000)
    assert run(FATTREE, "hotspot", seed=1, jitter_ns=1000) != run(FATTREE, "hotspot", seed=2, jitter_ns=1000)


BAD = {
    "unknown kind": (DUMBBELL, "incast", {}, "workload.kind 'incast' is unknown; one of: pairs, many_to_one, hotspot, matrix"),
    "odd number of hosts": (GRAPHS["dctcp-10g"], "pairs", {}, "5 hosts"),
    "hotspot elsewhere": (DUMBBELL, "hotspot", {}, "4 hosts, not 16"),
    "no senders": (DUMBBELL, "many_to_one", {"senders": 0}, "workload.senders: value 0 is not in 1..3"),
    "too many senders": (DUMBBELL, "many_to_one", {"senders": 4}, "workload.senders: value 4"),
    "senders of pairs": (DUMBBELL, "pairs", {"senders": 2}, "workload.senders: value '2' means nothing to kind 'pairs'"),
    "file of pairs": (DUMBBELL, "pairs", {"file": "m.csv"}, "workload.file"),
    "no file": (DUMBBELL, "matrix", {}, "workload.file is missing"),
    "negative size": (DUMBBELL, "pairs", {"size_bytes": -1}, "workload.size: value -1"),
    "stop before start": (DUMBBELL, "pairs", {"start_ns": 2, "stop_ns": 1}, "stop_ns 1"),
    "start after the end": (DUMBBELL, "pairs", {"start_ns": 30 * SECOND, "size_bytes": 1}, "not before time.duration"),
}


@pytest.mark.parametrize(("graph", "kind", "values", "told"), BAD.values(), ids=BAD.keys())
def test_refused(graph, kind, values, told):
    with pytest.raises(WorkloadError) as caught:
        run(graph, kind, **values)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_kind_is_registered_once():
    with pytest.raises(WorkloadError, match="registered already"):
        register("pairs", KINDS["pairs"].pattern)


def schedule(graph, flows, seed=1, **values):
    return make_schedule(flows, graph, route(graph, seed), "dctcp", seed, **values)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"matrix"}))
def test_every_kind_on_every_preset(name, kind):
    """Contract: a kind refuses a topology in one line, or all its flows have a path that is theirs."""
    graph = GRAPHS[name]
    try:
        flows = run(graph, kind)
    except WorkloadError as refusal:
        assert "; " in str(refusal)
        return
    rows, router = graph.ports(), route(graph, 1)
    for flow in schedule(graph, flows).flows:
        ends = (flow.src, flow.dst, flow.src_port, flow.dst_port)
        assert [rows[row].ifname for row in flow.rows] == path(graph, router, *ends, plane=rows[flow.rows[0]].number)
        assert rows[flow.rows[0]].node == flow.src and graph.peer(rows[flow.rows[-1]]).node == flow.dst
        assert all(graph.peer(rows[a]).node == rows[b].node for a, b in pairwise(flow.rows))


def test_csv_byte_for_byte():
    text = schedule(DUMBBELL, run(DUMBBELL, "pairs", rate_bps=10**7)).csv()
    assert text == (
        "flow,transport,src_ns,dst_ns,src_addr,dst_addr,src_port,dst_port,cc,gate,opens,"
        "start_ns,stop_ns,length_ns,size_bytes,rate_bps,gaps,path\n"
        "0,tcp,/run/netns/h1,/run/netns/h3,10.0.0.1,10.0.0.3,26551,5001,dctcp,,,0,30000000000,0,0,10000000,exact,6;2;3\n"
        "1,tcp,/run/netns/h2,/run/netns/h4,10.0.0.2,10.0.0.4,46482,5001,dctcp,,,0,30000000000,0,0,10000000,exact,7;2;4\n"
    )


def test_header_is_the_documented_one():
    assert f"    {','.join(COLUMNS)}\n" in (Path(__file__).parents[1] / "docs" / "protocols.md").read_text(encoding="utf-8")


def test_source_ports_are_seeded_and_unique_to_a_destination():
    flows = [FlowRequest("h1", dst, 5001) for dst in ("h3", "h4") for _ in range(1500)]
    ports = [flow.src_port for flow in schedule(DUMBBELL, flows).flows]
    ends = {(flow.src_port, flow.dst) for flow in schedule(DUMBBELL, flows).flows}
    assert len(ends) == 3000 and min(ports) >= 20000 and max(ports) <= 59999
    assert ports == [flow.src_port for flow in schedule(DUMBBELL, flows).flows]
    assert ports != [flow.src_port for flow in schedule(DUMBBELL, flows, seed=2).flows]


def test_a_host_has_more_flows_than_source_ports():
    flows = [FlowRequest("h1", ("h2", "h3")[row % 2], 5001) for row in range(60_000)]
    assert len({(flow.src_port, flow.dst) for flow in schedule(DUMBBELL, flows).flows}) == 60_000
    with pytest.raises(WorkloadError, match="all 40000 source ports are used"):
        schedule(DUMBBELL, [FlowRequest("h1", "h2", 5001)] * 40_001)


def test_a_source_port_is_never_one_that_the_host_listens_on():
    alone = [FlowRequest("h1", "h3", 5001)]
    first = schedule(DUMBBELL, alone).flows[0].src_port
    assert schedule(DUMBBELL, [*alone, FlowRequest("h3", "h1", first)]).flows[0].src_port != first


def test_rows_follow_the_given_list():
    rows = tuple(reversed(DUMBBELL.ports()))
    flow = schedule(DUMBBELL, run(DUMBBELL, "pairs"), ports=rows).flows[0]
    assert tuple(rows[row].ifname for row in flow.rows) == flow.ports == ("h1-eth0", "s1-eth3", "s2-eth1")


def test_peers_are_both_ends_of_every_flow_once():
    flows = [FlowRequest("h1", "h3", 5001), FlowRequest("h1", "h3", 5002), FlowRequest("h4", "h1", 5001)]
    schedule = make_schedule(flows, DUMBBELL, route(DUMBBELL, 1), "cubic", 1)
    assert schedule.peers() == {"h1": ["h3", "h4"], "h3": ["h1"], "h4": ["h1"]}
    assert schedule.paths() == 3


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"controller": "cubic,x"}, "controller.name: value 'cubic,x'"),
        ({"controller": ""}, "controller.name: value ''"),
        ({"ports": DUMBBELL.switch_ports()}, "port 'h1-eth0' is not among the rows"),
    ],
)
def test_schedule_refuses(values, told):
    arguments = {"controller": "cubic", "seed": 1} | values
    with pytest.raises(WorkloadError, match=told):
        make_schedule(run(DUMBBELL, "pairs"), DUMBBELL, route(DUMBBELL, 1), **arguments)


PROGRAM = """
from dc_gym.topologies.ecmp import route
from dc_gym.topologies.presets import TopologyParams, build
from dc_gym.traffic.schedule import make_schedule
from dc_gym.traffic.workloads import WorkloadParams, generate
graph = build(TopologyParams(preset="fattree-k4"))
print(make_schedule(generate(graph, WorkloadParams("hotspot", jitter_ns=1000), 10**9, 5), graph, route(graph, 5), "nv", 5).csv())
"""


def test_bytes_do_not_depend_on_the_process():
    texts = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        texts.add(subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True).stdout)
    assert len(texts) == 1 and texts.pop().count(b"\n") == 18
