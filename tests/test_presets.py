# SPDX-License-Identifier: Apache-2.0
"""Topologies and presets: their shapes, their numbers, and what may not be asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dc_gym.errors import TopologyError
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.presets import PRESETS, TOPOLOGIES, TopologyParams, build, iroko_thesis, register, resolve

LINKS = {"rate_bps": 10**9, "delay_ns": 1000, "buffer_bytes": 10**6}

# preset, hosts, switches, switch ports, bit/s, delay ns, buffer B, K B
TABLE = [
    ("dumbbell-10m", 4, 2, 6, 10**7, 10_000, 400_000, 3_028),
    ("dumbbell-1g", 4, 2, 6, 10**9, 10_000, 4_000_000, 30_280),
    ("dctcp-10g", 5, 1, 5, 10**10, 2_500, 4_000_000, 90_840),
    ("fattree-k4", 16, 20, 80, 10**9, 1_000, 4_000_000, 30_280),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_presets_are_as_designed(row):
    name, hosts, switches, ports, rate_bps, delay_ns, buffer_bytes, k_bytes = row
    graph = build(TopologyParams(preset=name, ecn=True))
    assert (len(graph.hosts), len(graph.switches), len(graph.switch_ports())) == (hosts, switches, ports)
    assert {(cable.rate_bps, cable.delay_ns) for cable in graph.cables} == {(rate_bps, delay_ns)}
    queues = {port.queue for port in graph.switch_ports()}
    assert {(queue.limit_bytes, queue.kind, queue.marking.kind, queue.marking.k_bytes) for queue in queues} == {
        (buffer_bytes, "red", "step", k_bytes)
    }
    egress = {graph.ports_of(host.name)[0].queue for host in graph.hosts}
    assert {(queue.limit_bytes, queue.kind, queue.marking.kind) for queue in egress} == {(buffer_bytes, "bfifo", "none")}


def test_every_preset_is_in_the_table():
    assert set(PRESETS) == {row[0] for row in TABLE}


@pytest.mark.parametrize(
    ("marking", "ecn", "kind"),
    [
        (None, False, "none"),
        (None, True, "step"),
        ("auto", False, "none"),
        ("auto", True, "step"),
        ("none", True, "none"),
        ("step", False, "step"),
        ("iroko-thesis", False, "iroko-thesis"),
    ],
)
def test_choice_of_marking(marking, ecn, kind):
    params = TopologyParams(preset="dumbbell-10m", marking=marking, ecn=ecn)
    assert resolve(params).marking == kind
    assert {port.queue.marking.kind for port in build(params).switch_ports()} == {kind}


@pytest.mark.parametrize(
    ("rate_bps", "limit_bytes", "numbers"),
    [
        (10**7, 400_000, (3000, 100_000, 23, 10**7)),  # thesis, table 1
        (10**9, 4_000_000, (17_000, 1_000_000, 229, 10**10)),  # thesis, table 1, with the bandwidth as printed
        (10**8, 4_000_000, (3000, 1_000_000, 223, 10**8)),
        (10**10, 4_000_000, (170_000, 1_000_000, 297, 10**10)),
    ],
)
def test_iroko_thesis(rate_bps, limit_bytes, numbers):
    red = iroko_thesis(rate_bps, limit_bytes)
    assert (red.min_bytes, red.max_bytes, red.burst_packets, red.bandwidth_bps) == numbers
    assert (red.limit_bytes, red.avpkt_bytes, red.probability_ppm) == (limit_bytes, 1500, 100_000)


def test_dumbbell():
    graph = build(TopologyParams(kind="dumbbell", pairs=3, bottleneck_rate_bps=10**8, marking="iroko-thesis", **LINKS))
    assert graph.neighbours("s1") == ("h1", "h2", "h3", "s2")
    assert graph.neighbours("s2") == ("h4", "h5", "h6", "s1")
    rates = {cable.name: cable.rate_bps for cable in graph.cables}
    assert rates.pop("s1-eth4--s2-eth4") == 10**8 and set(rates.values()) == {10**9}
    assert graph.port("s1-eth4").queue.marking.min_bytes == 3000 and graph.port("s1-eth1").queue.marking.min_bytes == 17_000


def test_single():
    graph = build(TopologyParams(kind="single", hosts=3, host_buffer_bytes=5000, host_qdisc="fq", **LINKS))
    assert graph.neighbours("s1") == ("h1", "h2", "h3")
    assert (graph.port("h1-eth0").queue.kind, graph.port("h1-eth0").queue.limit_bytes) == ("fq", 5000)
    assert (graph.port("s1-eth1").queue.kind, graph.port("s1-eth1").queue.limit_bytes) == ("bfifo", 10**6)


@pytest.mark.parametrize("k", [2, 4, 6, 16])
def test_fattree(k):
    graph, half = build(TopologyParams(kind="fattree", k=k, **LINKS)), k // 2
    layers = Counter(switch.layer for switch in graph.switches)
    assert layers == {"edge": k * half, "agg": k * half, "core": half * half}
    assert len(graph.hosts) == k**3 // 4 and len(graph.cables) == 3 * k**3 // 4
    assert {len(graph.ports_of(switch.name)) for switch in graph.switches} == {k}
    for core in [switch.name for switch in graph.switches if switch.layer == "core"]:
        assert len({(int(agg[1:]) - 1) // half for agg in graph.neighbours(core)}) == k  # one of each pod


def test_fattree_names():
    graph = build(TopologyParams(preset="fattree-k4"))
    assert [switch.layer for switch in graph.switches] == ["edge"] * 8 + ["agg"] * 8 + ["core"] * 4
    assert graph.neighbours("s1") == ("h1", "h2", "s9", "s10")
    assert graph.neighbours("s8") == ("h15", "h16", "s15", "s16")
    assert graph.neighbours("s9") == ("s1", "s2", "s17", "s18") and graph.neighbours("s16") == ("s7", "s8", "s19", "s20")
    assert graph.neighbours("s17") == ("s9", "s11", "s13", "s15")


def test_overrides():
    graph = build(TopologyParams(preset="dumbbell-10m", pairs=5, rate_bps=10**8, buffer_bytes=50_000, k_bytes=9084, ecn=True))
    assert len(graph.hosts) == 10 and {cable.rate_bps for cable in graph.cables} == {10**8}
    assert {port.queue.limit_bytes for port in graph.ports()} == {50_000}  # the hosts' follows
    assert {port.queue.marking.k_bytes for port in graph.switch_ports()} == {9084}


def test_another_kind_keeps_the_links_of_a_preset():
    graph = build(TopologyParams(preset="dctcp-10g", kind="dumbbell", pairs=1))
    assert len(graph.switches) == 2 and {cable.rate_bps for cable in graph.cables} == {10**10}


BAD = {
    "no kind": (TopologyParams(), "topology.kind is missing"),
    "no shape": (TopologyParams(kind="dumbbell", **LINKS), "topology.pairs is missing"),
    "no rate": (TopologyParams(kind="single", hosts=2, delay_ns=0, buffer_bytes=10**6), "topology.rate is missing"),
    "no delay": (TopologyParams(kind="single", hosts=2, rate_bps=1, buffer_bytes=10**6), "topology.delay is missing"),
    "no buffer": (TopologyParams(kind="single", hosts=2, rate_bps=1, delay_ns=0), "topology.buffer is missing"),
    "no K": (TopologyParams(kind="single", hosts=2, ecn=True, **LINKS), "topology.k_bytes is missing"),
    "foreign shape": (TopologyParams(preset="dumbbell-10m", k=4), "topology.k: value 4 means nothing to kind 'dumbbell'"),
    "foreign bottleneck": (TopologyParams(preset="fattree-k4", bottleneck_rate_bps=1), "topology.bottleneck_rate"),
    "K without step": (TopologyParams(preset="dumbbell-10m", marking="none", k_bytes=3028), "topology.k_bytes"),
    "one host": (TopologyParams(kind="single", hosts=1, **LINKS), "topology.hosts: value 1"),
    "odd k": (TopologyParams(kind="fattree", k=5, **LINKS), "topology.k: value 5"),
    "large k": (TopologyParams(kind="fattree", k=18, **LINKS), "topology.k: value 18"),
    "no slope": (TopologyParams(preset="dumbbell-10m", marking="iroko-thesis", buffer_bytes=12_000), "topology.buffer"),
    "buffer below a frame": (TopologyParams(preset="dumbbell-10m", buffer_bytes=1000), "value 1000"),
}


@pytest.mark.parametrize(("params", "told"), BAD.values(), ids=BAD.keys())
def test_refused(params, told):
    with pytest.raises(TopologyError) as caught:
        build(params)
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"preset": "x"}, "topology.preset 'x' is unknown; one of: dumbbell-10m, dumbbell-1g, dctcp-10g, fattree-k4"),
        ({"kind": "x"}, "topology.kind 'x' is unknown; one of: single, dumbbell, fattree"),
        ({"marking": "x"}, "topology.marking 'x' is unknown; one of: auto, none, step, iroko-thesis"),
        ({"host_qdisc": "red"}, "topology.host_qdisc 'red' is unknown; one of: bfifo, fq"),
        ({"rate_bps": 0}, "topology.rate: value 0 is below 1"),
        ({"delay_ns": -1}, "topology.delay: value -1 is below 0"),
        ({"host_buffer_bytes": -1}, "topology.host_buffer: value -1"),
        ({"k_bytes": 0}, "topology.k_bytes: value 0"),
    ],
)
def test_refused_at_once(values, told):
    with pytest.raises(TopologyError) as caught:
        TopologyParams(**values)
    assert told in str(caught.value)


def test_a_kind_is_registered_once():
    with pytest.raises(TopologyError, match="registered already"):
        register("single", TOPOLOGIES["single"].build, ("hosts",))


@pytest.mark.parametrize("name", PRESETS)
def test_build_is_repeatable_and_survives_json(name):
    params = TopologyParams(preset=name, marking="iroko-thesis")
    graph = build(params)
    assert build(params) == graph == Graph.from_json(graph.to_json()) == build(resolve(params))
    assert build(replace(params, marking="none")) != graph
