# SPDX-License-Identifier: Apache-2.0
"""Ideal completion times: classes of paths, the closed form, the grid and its measured error, the cache; and once in a lab."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import TestbedError
from dc_gym.results.metrics import ideal, queues
from dc_gym.results.metrics.ideal import PathClass
from dc_gym.results.metrics.summary import FLOW_COLUMNS, IDEAL_COLUMNS
from dc_gym.run.result.tgen_log import FLOW_DTYPE
from dc_gym.spec import from_dict
from dc_gym.topologies.ecmp import route
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.schedule import Schedule, make_schedule

GRAPH = build(TopologySpec.of(preset="fattree-k4"))
ROUTER = route(GRAPH, 1)
GBIT = 10**9
DEPENDS = {"environment": "none"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def schedule(sizes: list[int], pairs: list[tuple[str, str]] | None = None, **values: Any) -> Schedule:
    pairs = pairs or [("h1", "h16")] * len(sizes)
    requests = [FlowRequest(src, dst, 5001, size_bytes=size, **values) for size, (src, dst) in zip(sizes, pairs, strict=True)]
    return make_schedule(requests, GRAPH, ROUTER, "dctcp", 1)


class Network:
    """Stands in for a lab: the FCT of a lone flow is a function of its size; counts what is asked of it."""

    def __init__(self, fct_ns: Any, patience: int = 0) -> None:
        self.fct_ns, self.flows, self.runs, self.patience = fct_ns, 0, 0, patience

    def __call__(self, probes: Schedule, duration_ns: int) -> Any:
        table = np.zeros(len(probes.flows), FLOW_DTYPE)
        table["start_ns"] = [flow.request.start_ns for flow in probes.flows]
        table["fct_ns"] = [int(self.fct_ns(flow.request.size_bytes)) for flow in probes.flows]
        table["end_ns"] = table["start_ns"] + table["fct_ns"]
        table["fct_ns"][table["end_ns"] > duration_ns] = -1
        assert len({(flow.src, flow.src_port) for flow in probes.flows}) == len(probes.flows)
        self.flows, self.runs = self.flows + len(probes.flows), self.runs + 1
        return table


def slow_start(size: int) -> float:
    """Returns an FCT that jumps by a round trip wherever another window is needed, as on a path of 1000 packets."""
    packets = -(-size // 1448)
    return 1000 + 12_112 * packets + 200_000 * np.ceil(np.log2(packets / 10 + 1))


def find(of: Schedule, network: Network | None, seed: int = 1) -> ideal.Ideal:
    return ideal.of(of, GRAPH, ROUTER, DEPENDS, network, seed)


def test_a_fat_tree_has_three_classes() -> None:
    pairs = [("h1", "h2"), ("h3", "h4"), ("h1", "h3"), ("h1", "h16"), ("h16", "h5")]
    classes, of_flow = ideal.classify(schedule([1] * 5, pairs), GRAPH, ROUTER)
    assert [len(path_class.forward) for path_class in classes] == [2, 4, 6] and of_flow.tolist() == [0, 0, 1, 2, 2]


def test_flows_without_a_size_or_with_a_rate_have_no_ideal() -> None:
    ideals = find(schedule([0], stop_ns=9), Network(float))
    assert ideals.path_class.tolist() == [-1] and np.isnan(ideals.fct_ns).all()
    assert np.isnan(find(schedule([5000], rate_bps=10**6), Network(float)).closed_form_ns).all()


def test_closed_form_by_hand() -> None:
    """The path has two hops of 1 Gbit/s and 1 us; SYN and SYN-ACK of 74 bytes and an ACK come before the frames."""
    hop = (GBIT, 1000, "")
    path = PathClass((hop, hop), (hop, hop))
    syn = 4 * (74 * 8 + 1000)
    assert path.handshake_ns == syn
    assert path.closed_form_ns([1000, 1])[0] == syn + 66 * 8 + 2 * 1000 + 2 * 1066 * 8
    assert path.closed_form_ns([1])[0] == syn + 66 * 8 + 2 * 1000 + 2 * 67 * 8
    assert path.closed_form_ns([3 * 1448])[0] == syn + 66 * 8 + 2 * 1000 + 4 * 1514 * 8, (
        "two hops, and two frames behind the first"
    )


def test_closed_form_is_the_pipeline_frame_by_frame() -> None:
    """It equals a store-and-forward pipeline on hops of different rates."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        hops = tuple((int(rng.integers(1, 50)) * 10**8, int(rng.integers(0, 5000)), "") for _ in range(rng.integers(1, 6)))
        size = int(rng.integers(1, 30_000))
        frames = [1514.0] * ((size - 1) // 1448) + [max(60.0, (size - 1) % 1448 + 1 + 66)]
        free, arrived = np.zeros(len(hops)), 0.0
        for frame in frames:
            arrived = 0.0
            for row, (rate, delay, _) in enumerate(hops):
                free[row] = max(arrived, free[row]) + frame * 8e9 / rate
                arrived = free[row] + delay
        path = PathClass(hops, hops)
        expected = path.handshake_ns + 66 * 8e9 / hops[0][0] + arrived
        assert path.closed_form_ns([size])[0] == pytest.approx(expected, rel=1e-9)


def test_few_sizes_are_measured_each_and_once() -> None:
    network = Network(slow_start)
    of = schedule([1000, 50_000, 1000])
    ideals = find(of, network)
    assert ideals.fct_ns.tolist() == [slow_start(1000), slow_start(50_000), slow_start(1000)] and ideals.error == 0
    assert network.flows == 2
    assert find(of, network, seed=2).fct_ns.tolist() == ideals.fct_ns.tolist() and network.flows == 2, "from the cache"


@pytest.mark.parametrize("fct_ns", [slow_start, lambda size: 5000 + 8.37 * size])
def test_many_sizes_are_interpolated_and_the_stated_error_holds(fct_ns: Any) -> None:
    sizes = np.unique(np.exp(np.random.default_rng(1).uniform(np.log(100), np.log(3e7), 3000)).astype(int)).tolist()
    network = Network(fct_ns)
    ideals = find(schedule(sizes), network)
    truth = np.array([int(fct_ns(size)) for size in sizes])
    errors = np.abs(ideals.fct_ns / truth - 1)
    assert ideals.error is not None and ideals.error < 0.01
    assert np.mean(errors > 0.01) < 0.005 and network.flows < 600
    assert find(schedule(sizes), network).error < 0.01


def test_a_flow_that_was_not_alone_is_sent_again() -> None:
    network = Network(lambda size: 40_000_000 + 100 * size)
    ideals = find(schedule([1000, 2000]), network)
    assert ideals.fct_ns.tolist() == [40_100_000, 40_200_000] and network.flows > 2


class Bottleneck(Network):
    """Flows that overlap share it: a flow that starts before all others have ended takes three times as long."""

    def __call__(self, probes: Schedule, duration_ns: int) -> Any:
        table = super().__call__(probes, duration_ns)
        busy_ns = 0
        for row, flow in zip(table, probes.flows, strict=True):
            row["fct_ns"] = int(self.fct_ns(flow.request.size_bytes)) * (3 if row["start_ns"] < busy_ns else 1)
            row["end_ns"] = row["start_ns"] + row["fct_ns"]
            busy_ns = max(busy_ns, int(row["end_ns"]))
        late = table["end_ns"] > duration_ns
        table["fct_ns"][late], table["end_ns"][late] = -1, -1
        return table


@pytest.mark.parametrize("first_ms", [40, 90, 1000])
def test_a_flow_that_started_before_an_earlier_one_ended_is_sent_again(first_ms: int) -> None:
    """It ends before the next one starts, yet it was not alone. With 1000 ms the earlier one does not end in the first run."""

    network = Bottleneck(lambda size: first_ms * 10**6 if size == 1000 else 10**6)
    ideals = find(schedule([1000, 2000, 3000, 4000, 5000]), network)
    assert ideals.fct_ns.tolist() == [first_ms * 10**6] + [10**6] * 4


def test_the_way_back_is_in_the_flow_s_own_plane() -> None:
    """Plane 1 of h1 is slower: flows between the same hosts and ports are of another class there, both ways."""
    graph = build(TopologySpec.of(preset="acc24"))
    slow = graph.cable_of("h1-eth1")
    cables = tuple(dataclasses.replace(cable, delay_ns=777_000) if cable == slow else cable for cable in graph.cables)
    graph = dataclasses.replace(graph, cables=cables)
    router = route(graph, 1)
    many = make_schedule([FlowRequest("h1", "h13", 5001, size_bytes=1000)] * 500, graph, router, "dctcp", 1)
    assert len({flow.src_addr for flow in many.flows}) == 2, "both planes are used"
    classes, of_flow = ideal.classify(many, graph, router)
    second = graph.host("h1").nics[1].address
    for flow, number in zip(many.flows, of_flow.tolist(), strict=True):
        delays = [[hop[1] for hop in way].count(777_000) for way in (classes[number].forward, classes[number].backward)]
        assert delays == ([1, 1] if flow.src_addr == second else [0, 0])


def test_the_error_is_measured_at_the_largest_size_that_is_affordable() -> None:
    """100 sizes of 30 MB and more: the budget in bytes is gone after two; the largest below 64 MB is one of them."""
    sizes = [*range(30_000_000, 64_000_000, 340_007), 70_000_000]
    ideals = find(schedule(sizes), Network(slow_start))
    assert ideals.facts["classes"][0]["probed_to_bytes"] == sizes[-2]
    few = find(schedule([1000]), Network(slow_start))
    assert few.facts["classes"][0]["probed_to_bytes"] is None


def test_the_probes_are_by_lot_and_within_their_bytes() -> None:
    of = schedule(list(range(100_000, 8_000_000, 20_011)))
    curve = ideal.FctCurve(
        PathClass((), ()), of.flows[0], Path(), np.array([flow.request.size_bytes for flow in of.flows]), lambda port: True
    )
    probes = ideal._probes(curve, 3)
    assert len(probes) <= ideal.PROBES and sum(probes) <= ideal.PROBE_BYTES and probes == sorted(set(probes))
    assert max(probes) == curve.wanted[-1] and probes != ideal._probes(curve, 4)


def test_what_the_cache_has_changes_nothing_between_points() -> None:
    """Two workloads have different sizes; the second gets the same times with and without the first in the cache."""
    first, second = list(range(200, 200_000, 997)), list(range(300, 150_000, 1009))
    fresh = ideal.of(schedule(second), GRAPH, ROUTER, {"environment": "fresh"}, Network(slow_start), 1)
    network = Network(slow_start)
    find(schedule(first), network)
    before = network.flows
    ideals = find(schedule(second), network)
    assert ideals.fct_ns.tolist() == fresh.fct_ns.tolist() and ideals.error == fresh.error
    assert network.flows - before < 80, "packet boundaries are shared"


def test_a_flow_that_never_ends_is_an_error_that_names_it() -> None:
    with pytest.raises(TestbedError, match=r"lone flow of 1000 bytes from h1 to h16 .*metrics.slowdown"):
        find(schedule([1000]), Network(lambda size: 10**12))


def test_a_damaged_cache_is_measured_again(cache: Path) -> None:
    network = Network(slow_start)
    find(schedule([1000]), network)
    file = next((cache / "ideal").glob("*.json"))
    file.write_text(file.read_text()[:-9])
    assert find(schedule([1000]), network).fct_ns.tolist() == [slow_start(1000)] and network.flows == 2


def test_a_cache_for_reading_alone_is_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(slow_start)
    find(schedule([1000]), network)
    for lock in (cache / "ideal").glob("*.lock"):
        lock.unlink()
    monkeypatch.setattr(os, "access", lambda path, how: False)
    ideals = find(schedule([1000, 2000]), network)
    assert ideals.fct_ns.tolist() == [slow_start(1000), slow_start(2000)] and network.flows == 2
    assert not list((cache / "ideal").glob("*.lock")), "nothing is made where nothing may be"


def test_another_network_controller_or_kernel_is_another_key(cache: Path) -> None:
    network, of = Network(slow_start), schedule([1000])
    find(of, network)
    ideal.of(of, GRAPH, ROUTER, {"environment": "other"}, network, 1)
    cubic = Schedule(tuple(dataclasses.replace(flow, cc="cubic") for flow in of.flows))
    find(cubic, network)
    slower = build(TopologySpec.of(preset="fattree-k4", rate_bps=GBIT // 10))
    ideal.of(of, slower, ROUTER, DEPENDS, network, 1)
    assert network.flows == 4 and len(list((cache / "ideal").glob("*.json"))) == 4


def test_without_a_measurement_the_closed_form_stands_in() -> None:
    times = find(schedule([1000]), None)
    assert (
        times.fct_ns.tolist() == times.closed_form_ns.tolist()
        and times.error is None
        and times.facts == {"method": "closed-form"}
    )


@pytest.mark.lab
def test_a_lone_flow_in_a_run_takes_its_ideal_time(tmp_path: Path, lab_kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dc_gym.base.progress import Quiet
    from dc_gym.run import runner

    monkeypatch.delenv("DCGYM_CACHE")  # the kernel is there; what is measured here serves the next time
    (tmp_path / "m.csv").write_text(
        "source,destination,port,start,stop,size\nh1,h3,5001,0.005,0,200000\nh2,h4,5001,0.015,0,1000\n"
    )
    spec = {
        "topology": {"preset": "dumbbell-1g"},
        "controller": {"name": "dctcp"},
        "workload": {"kind": "matrix", "file": "m.csv"},
        "time": {"duration": "30ms"},
    }
    result = runner.run(from_dict(spec, tmp_path), tmp_path / "run", Quiet(), plot=False)
    table, ports = result.derived("flow_metrics"), result.derived("port_metrics")
    assert table is not None and table.column_names == [*FLOW_COLUMNS, *IDEAL_COLUMNS]
    assert ports is not None and ports.column_names == [*queues.COLUMNS, *queues.LOST]
    slowdown, closed = (np.array(table.column(name)) for name in ("slowdown", "closed_form_ns"))
    np.testing.assert_allclose(slowdown, 1, atol=0.01)
    np.testing.assert_allclose(np.array(table.column("ideal_ns")), closed, rtol=0.05)
    conservation = result.manifest["conservation"]
    assert conservation["sent_by_hosts"] == conservation["received_by_hosts"] > 0 and conservation["switches_checked"] == 2
    for row in result.manifest["calibration"]:
        assert all(pair[0] == pair[1] for name, pair in row.items() if name not in ("port", "how")), row
