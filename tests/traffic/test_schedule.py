# SPDX-License-Identifier: Apache-2.0
"""The schedule: sockets and paths."""

from __future__ import annotations

import pytest

from dc_gym.base.errors import WorkloadError
from dc_gym.topologies.ecmp import path, route
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.schedule import make_schedule
from dc_gym.traffic.workloads import WorkloadSpec, generate

SECOND = 10**9
DUMBBELL, FATTREE = (build(TopologySpec.of(preset=name)) for name in ("dumbbell-10m", "fattree-k4"))


def run(graph, kind, seed=1, duration_ns=30 * SECOND, **values):
    return generate(graph, WorkloadSpec.of(kind, **values), duration_ns, seed)


def schedule(graph, flows, seed=1, **values):
    return make_schedule(flows, graph, route(graph, seed), "dctcp", seed, **values)


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


def test_rdma_takes_the_paths_of_udp():
    flows = schedule(FATTREE, [FlowRequest("h1", "h13", 4791, transport="rdma", size_bytes=9)] * 40).flows
    router = route(FATTREE, 1)
    assert {flow.ports == tuple(path(FATTREE, router, "h1", "h13", flow.src_port, 4791, "udp")) for flow in flows} == {True}
    assert len({flow.ports for flow in flows}) == 4


def test_flows_of_one_queue_pair_take_one_path():
    requests = [FlowRequest(src, "h13", 4791, transport="rdma", size_bytes=9) for src in ("h1", "h2") for _ in range(40)]
    flows = schedule(FATTREE, requests, one_path=True).flows
    assert {len({flow.ports for flow in flows if flow.src == src}) for src in ("h1", "h2")} == {1}
    assert (
        len({(flow.src, flow.src_port) for flow in flows}) == 80
        and len({flow.ports for flow in schedule(FATTREE, requests).flows}) > 2
    )
    with pytest.raises(WorkloadError, match=r"all 10\d{3} source ports are used"):  # a quarter of 40,000
        schedule(FATTREE, requests[:1] * 11_000, one_path=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"controller": "cubic,x"}, "controller.name: value 'cubic,x'"),
        ({"controller": ""}, "controller.name: value ''"),
        ({"ports": DUMBBELL.switch_ports()}, "port 'h1-eth0' is not among the rows"),
    ],
)
def test_schedule_refuses(values, message):
    arguments = {"controller": "cubic", "seed": 1} | values
    with pytest.raises(WorkloadError, match=message):
        make_schedule(run(DUMBBELL, "pairs"), DUMBBELL, route(DUMBBELL, 1), **arguments)


def test_the_path_is_that_of_the_transport():
    """The protocol is part of what is hashed; the path that is looked up is the one that each packet takes."""
    router = route(FATTREE, 1)
    flows = [FlowRequest("h1", "h16", 5001, transport=name, rate_bps=8) for name in ("tcp", "udp") for _ in range(40)]
    for flow in make_schedule(flows, FATTREE, router, "cubic", 1).flows:
        assert list(flow.ports) == path(FATTREE, router, "h1", "h16", flow.src_port, 5001, flow.request.transport)


def test_more_flows_than_a_run_takes(monkeypatch):
    from dc_gym.traffic import schedule as module

    monkeypatch.setattr(module, "MOST_FLOWS", 3)
    with pytest.raises(WorkloadError, match=r"4 flows.* 3"):
        schedule(DUMBBELL, [FlowRequest("h1", "h3", 5001)] * 4)
