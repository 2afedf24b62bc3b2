# SPDX-License-Identifier: Apache-2.0
"""Topologies and presets: their shapes, their numbers, and what may not be asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from facts import states

from dc_gym.base.amount import parse, write
from dc_gym.base.errors import SpecError, TopologyError, UsageError
from dc_gym.base.key import KeyFault
from dc_gym.topologies.ecmp import path, route
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.links import LinkRule
from dc_gym.topologies.marking import KINDS, iroko_thesis
from dc_gym.topologies.paths import base_rtt_ns, one_way_ns
from dc_gym.topologies.presets import PRESETS, TOPOLOGIES, TopologySpec, build, register, resolve

LINKS = {"rate_bps": 10**9, "delay_ns": 1000, "buffer_bytes": 10**6}

# preset, hosts, switches, switch ports, bit/s, delay ns, buffer B, K B
TABLE = [
    ("dumbbell-10m", 4, 2, 6, 10**7, 10_000, 400_000, 3_028),
    ("dumbbell-1g", 4, 2, 6, 10**9, 10_000, 4_000_000, 30_280),
    ("dctcp-10g", 5, 1, 5, 10**10, 2_500, 4_000_000, 90_840),
    ("fattree-k4", 16, 20, 80, 10**9, 1_000, 4_000_000, 30_280),
    ("fattree-k8", 128, 80, 640, 10**9, 1_000, 4_000_000, 30_280),
    ("parkinglot-1g", 8, 4, 14, 10**9, 10_000, 4_000_000, 30_280),
]

# preset, hosts, leaves, spines, links between them, bit/s and ns of a host's link, of a spine's, buffer B
LEAF_SPINES = [
    ("rlcc64", 64, 4, 2, 32, 10**11, 1_250, 10**11, 1_250, 5_000_000),
    ("fdcc64", 64, 4, 4, 16, 10**11, 1_000, 10**11, 1_000, 2_000_000),
    ("acc24a", 24, 2, 2, 4, 25 * 10**9, 550, 10**11, 950, 2_000_000),
    ("acc24", 24, 4, 2, 16, 25 * 10**9, 550, 10**11, 950, 2_000_000),
    ("acc96", 96, 4, 2, 24, 25 * 10**9, 550, 10**11, 950, 2_000_000),
    ("acc288", 288, 12, 6, 72, 25 * 10**9, 550, 10**11, 950, 2_000_000),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_presets_are_as_designed(row):
    name, hosts, switches, ports, rate_bps, delay_ns, buffer_bytes, k_bytes = row
    graph = build(TopologySpec.of(preset=name), ecn=True)
    assert (len(graph.hosts), len(graph.switches), len(graph.switch_ports())) == (hosts, switches, ports)
    assert {(cable.rate_bps, cable.delay_ns) for cable in graph.cables} == {(rate_bps, delay_ns)}
    queues = {port.queue for port in graph.switch_ports()}
    assert {(queue.limit_bytes, queue.kind, queue.marking.kind, queue.marking.k_bytes) for queue in queues} == {
        (buffer_bytes, "port", "step", k_bytes)
    }
    egress = {graph.ports_of(host.name)[0].queue for host in graph.hosts}
    assert {(queue.limit_bytes, queue.kind, queue.marking.kind) for queue in egress} == {(buffer_bytes, "bfifo", "none")}


def test_every_preset_is_in_the_table():
    assert set(PRESETS) == {row[0] for row in (*TABLE, *LEAF_SPINES)}


@pytest.mark.parametrize("row", LEAF_SPINES, ids=[row[0] for row in LEAF_SPINES])
def test_leaf_spine_presets_are_as_designed(row):
    name, hosts, leaves, spines, middle, rate_bps, delay_ns, spine_bps, spine_ns, buffer_bytes = row
    graph = build(TopologySpec.of(preset=name), ecn=True)
    layers = Counter(switch.layer for switch in graph.switches)
    assert (len(graph.hosts), layers) == (hosts, {"edge": leaves, "core": spines})
    names = {switch.name for switch in graph.switches}
    between = [cable for cable in graph.cables if {cable.a.node, cable.b.node} <= names]
    assert len(between) == middle and {(cable.rate_bps, cable.delay_ns) for cable in between} == {(spine_bps, spine_ns)}
    below = [cable for cable in graph.cables if cable not in between]
    assert {(cable.rate_bps, cable.delay_ns) for cable in below} == {(rate_bps, delay_ns)}
    assert {port.queue.limit_bytes for port in graph.ports()} == {buffer_bytes}
    rtt_ns = base_rtt_ns(graph)
    for port in graph.switch_ports():  # one BDP
        assert port.queue.marking.k_bytes == graph.cable_of(port).rate_bps * rtt_ns // (8 * 10**9)


def test_each_server_of_acc24_is_on_two_leaves():
    graph = build(TopologySpec.of(preset="acc24"))
    assert {graph.neighbours(host.name) for host in graph.hosts[:12]} == {("s1", "s2")}
    assert {graph.neighbours(host.name) for host in graph.hosts[12:]} == {("s3", "s4")}
    assert [(nic.address, nic.mac) for nic in graph.host("h13").nics] == [
        ("10.0.0.13", "02:00:00:00:00:0d"),
        ("11.0.0.13", "02:00:00:01:00:0d"),
    ]
    assert Counter(graph.neighbours("s1")) == {f"h{number}": 1 for number in range(1, 13)} | {"s5": 2, "s6": 2}


def test_a_small_packet_takes_as_long_as_acc_says():
    """Round trips of 64 bytes in its testbed: under 2.32 us in a rack, 6.13 us between two."""
    graph = build(TopologySpec.of(preset="acc24"))
    router = route(graph, 1)
    same, other = (path(graph, router, "h1", dst, 1, 1) for dst in ("h2", "h13"))
    assert 2_200 < 2 * one_way_ns(graph, same, 64) < 2_320
    assert 6_000 < 2 * one_way_ns(graph, other, 64) < 6_130


def test_parkinglot():
    graph = build(TopologySpec.of(kind="parkinglot", hops=3, bottleneck_rate_bps=10**8, **LINKS))
    at = {host.name: graph.neighbours(host.name)[0] for host in graph.hosts}
    pairs = [(at[f"h{number}"], at[f"h{number + 4}"]) for number in range(1, 5)]
    assert pairs == [("s1", "s4"), ("s1", "s2"), ("s2", "s3"), ("s3", "s4")]
    middle = [cable for cable in graph.cables if cable.rate_bps == 10**8]
    assert [(cable.a.node, cable.b.node) for cable in middle] == [("s1", "s2"), ("s2", "s3"), ("s3", "s4")]
    router = route(graph, 1)
    assert [len(path(graph, router, f"h{number}", f"h{number + 4}", 1, 1)) for number in range(1, 5)] == [5, 3, 3, 3]


def test_uplinks_of_a_leaf_spine():
    graph = build(TopologySpec.of(preset="rlcc64", uplinks=1))
    assert len(graph.cables) == 64 + 8 and graph.neighbours("s1")[16:] == ("s5", "s6")
    graph = build(
        TopologySpec.of(kind="leafspine", leaves=2, hosts_per_leaf=1, spines=1, uplinks=3, uplink_rate_bps=4 * 10**9, **LINKS)
    )
    assert graph.neighbours("s3") == ("s1",) * 3 + ("s2",) * 3 and {port.node for port in graph.ports_of("h1")} == {"h1"}
    assert {graph.cable_of(port).rate_bps for port in graph.ports_of("s3")} == {4 * 10**9}


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
    spec = TopologySpec.of(preset="dumbbell-10m", marking=marking)
    assert resolve(spec, ecn).marking == kind
    assert {port.queue.marking.kind for port in build(spec, ecn).switch_ports()} == {kind}


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
    graph = build(TopologySpec.of(kind="dumbbell", pairs=3, bottleneck_rate_bps=10**8, marking="iroko-thesis", **LINKS))
    assert graph.neighbours("s1") == ("h1", "h2", "h3", "s2")
    assert graph.neighbours("s2") == ("h4", "h5", "h6", "s1")
    rates = {cable.name: cable.rate_bps for cable in graph.cables}
    assert rates.pop("s1-eth4--s2-eth4") == 10**8 and set(rates.values()) == {10**9}
    assert graph.port("s1-eth4").queue.marking.min_bytes == 3000 and graph.port("s1-eth1").queue.marking.min_bytes == 17_000


def test_single():
    graph = build(TopologySpec.of(kind="single", hosts=3, host_buffer_bytes=5000, host_qdisc="fq", **LINKS))
    assert graph.neighbours("s1") == ("h1", "h2", "h3")
    assert (graph.port("h1-eth0").queue.kind, graph.port("h1-eth0").queue.limit_bytes) == ("fq", 5000)
    assert (graph.port("s1-eth1").queue.kind, graph.port("s1-eth1").queue.limit_bytes) == ("port", 10**6)


@pytest.mark.parametrize("k", [2, 4, 6, 16])
def test_fattree(k):
    graph, half = build(TopologySpec.of(kind="fattree", k=k, **LINKS)), k // 2
    layers = Counter(switch.layer for switch in graph.switches)
    assert layers == {"edge": k * half, "agg": k * half, "core": half * half}
    assert len(graph.hosts) == k**3 // 4 and len(graph.cables) == 3 * k**3 // 4
    assert {len(graph.ports_of(switch.name)) for switch in graph.switches} == {k}
    for core in [switch.name for switch in graph.switches if switch.layer == "core"]:
        assert len({(int(agg[1:]) - 1) // half for agg in graph.neighbours(core)}) == k  # one of each pod


def test_fattree_names():
    graph = build(TopologySpec.of(preset="fattree-k4"))
    assert [switch.layer for switch in graph.switches] == ["edge"] * 8 + ["agg"] * 8 + ["core"] * 4
    assert graph.neighbours("s1") == ("h1", "h2", "s9", "s10")
    assert graph.neighbours("s8") == ("h15", "h16", "s15", "s16")
    assert graph.neighbours("s9") == ("s1", "s2", "s17", "s18") and graph.neighbours("s16") == ("s7", "s8", "s19", "s20")
    assert graph.neighbours("s17") == ("s9", "s11", "s13", "s15")


def test_overrides():
    graph = build(TopologySpec.of(preset="dumbbell-10m", pairs=5, rate_bps=10**8, buffer_bytes=50_000, k_bytes=9084), ecn=True)
    assert len(graph.hosts) == 10 and {cable.rate_bps for cable in graph.cables} == {10**8}
    assert {port.queue.limit_bytes for port in graph.ports()} == {50_000}  # the hosts' follows
    assert {port.queue.marking.k_bytes for port in graph.switch_ports()} == {9084}


def test_every_marking_is_tried_here():
    assert set(KINDS) == {"none", "step", "red-instant", "iroko-thesis", "secn0", "secn1", "secn2", "acc-vendor"}


def test_another_kind_keeps_the_links_of_a_preset():
    graph = build(TopologySpec.of(preset="dctcp-10g", kind="dumbbell", pairs=1))
    assert len(graph.switches) == 2 and {cable.rate_bps for cable in graph.cables} == {10**10}


@pytest.mark.parametrize(
    ("text", "rate_bps", "rtt_ns", "expected"),
    [
        ("400kB", 1, 1, 400_000),
        ("100p", 1, 1, 151_400),
        ("0.5p", 1, 1, 1514),  # a frame at least
        ("2bdp", 10**10, 10_000, 25_000),
        ("0.17bdp", 10**11, 10_512, 22_338),
        ("1bdp", 10**6, 1, 1514),
    ],
)
def test_amounts(text, rate_bps, rtt_ns, expected):
    value = parse(text)
    assert parse(write(value)) == value
    assert (value if isinstance(value, int) else value.bytes_at(rate_bps, rtt_ns)) == expected


@pytest.mark.parametrize("text", ["", "p", "1  p", "0p", "-1p", "1e3p", "2 BDPS", "3", "1bdps"])
def test_what_is_no_amount(text):
    with pytest.raises(SpecError):
        parse(text)


def test_buffers_in_packets_and_bdps():
    sizes = {"buffer_bytes": parse("2bdp"), "host_buffer_bytes": parse("100p"), "k_bytes": parse("0.5bdp")}
    links = {"rate_bps": 10**9, "bottleneck_rate_bps": 10**8, "delay_ns": 50_000}
    graph = build(TopologySpec.of(kind="dumbbell", pairs=1, **links, **sizes), ecn=True)
    rtt_ns = 6 * 50_000 + 2 * 12_112 + 121_120 + 2 * 528 + 5_280  # 1514 bytes there, 66 back
    assert base_rtt_ns(graph) == rtt_ns
    slow, fast = graph.port("s1-eth2").queue, graph.port("s1-eth1").queue
    assert (slow.limit_bytes, fast.limit_bytes) == (2 * rtt_ns // 80, 2 * rtt_ns // 8)
    assert (slow.marking.k_bytes, fast.marking.k_bytes) == (rtt_ns // 160, rtt_ns // 16)
    assert graph.port("h1-eth0").queue.limit_bytes == 151_400


SLOPE = {"kmin_bytes": 10_000, "kmax_bytes": 50_000, "pmax_ppm": 200_000}


@pytest.mark.parametrize(
    ("name", "keys", "rate_bps", "numbers"),
    [
        ("red-instant", SLOPE, 10**9, (0, 10_000, 50_000, 200_000)),
        ("secn0", {}, 10**9, (18_000, 0, 0, 0)),
        ("secn1", {}, 10**9, (0, 5_000, 200_000, 10_000)),
        ("secn1", {"pmax_ppm": 500_000}, 10**9, (0, 5_000, 200_000, 500_000)),
        ("secn2", {}, 25 * 10**9, (0, 100_000, 400_000, 200_000)),
        ("secn2", {}, 10**11, (0, 400_000, 1_600_000, 200_000)),
        ("acc-vendor", {}, 10**9, (0, 30_000, 270_000, 100_000)),
    ],
)
def test_markings_by_name(name, keys, rate_bps, numbers):
    links = {"rate_bps": rate_bps, "delay_ns": 1000, "buffer_bytes": 2 * 10**6}
    marking = build(TopologySpec.of(kind="single", hosts=2, marking=name, **keys, **links)).port("s1-eth1").queue.marking
    assert (marking.k_bytes, marking.min_bytes, marking.max_bytes, marking.probability_ppm) == numbers
    assert marking.kind == ("step" if numbers[0] else "red-instant")


def test_k_is_that_of_the_step_that_auto_chooses():
    """k applies where auto chooses the step, so that one spec can be swept over controllers with and without ECN."""
    params = TopologySpec.of(preset="dumbbell-10m", k_bytes=9084)
    assert {port.queue.marking.k_bytes for port in build(params, ecn=True).switch_ports()} == {9084}
    assert {port.queue.marking.kind for port in build(params).switch_ports()} == {"none"}


def rule(a, b, **keys):
    return LinkRule.of(between=(a, b), **keys)


def test_rules_for_some_links():
    rules = (
        rule("edge", "agg", rate_bps=4 * 10**9, loss_ppb=10),
        rule("s1", "s9", delay_ns=7, buffer_bytes=9000, k_bytes=3000),
        rule("host", "*", jitter_ns=5, host_buffer_bytes=4000),
        rule("h1", "s1", rate_bps=123, marking="none"),
    )
    graph = build(TopologySpec.of(preset="fattree-k4", links=rules), ecn=True)
    assert Counter(cable.rate_bps for cable in graph.cables) == {123: 1, 10**9: 15 + 16, 4 * 10**9: 16}
    one = graph.cable_of("s1-eth3")
    assert (one.rate_bps, one.delay_ns, one.impairment.loss_ppb) == (4 * 10**9, 7, 10)
    assert {(port.queue.limit_bytes, port.queue.marking.k_bytes) for port in (one.a, one.b)} == {(9000, 3000)}
    assert Counter(cable.impairment.jitter_ns for cable in graph.cables) == {5: 16, 0: 32}
    assert {graph.ports_of(host.name)[0].queue.limit_bytes for host in graph.hosts} == {4000}
    assert graph.peer("h1-eth0").queue.marking.kind == "none"


def test_a_rule_for_one_direction():
    """The direction from s1 differs in rate, delay, loss and buffer. Each port, and what counts in it, has those of its side."""
    rules = (
        LinkRule.of(sender="s1", receiver="s2", rate_bps=10**8, delay_ns=7, loss_ppb=10, buffer_bytes=9000, k_bytes=3000),
        LinkRule.of(sender="edge", receiver="host", rate_bps=2 * 10**8),
    )
    spec = TopologySpec.of(preset="dumbbell-1g", links=rules, scale=10)
    graph = build(spec, ecn=True)
    there, back = graph.cable_of("s1-eth3"), graph.cable_of("s2-eth3")
    assert (there.rate_bps, there.delay_ns, there.impairment.loss_ppb) == (10**7, 70, 10)
    assert (back.rate_bps, back.delay_ns, back.impairment.loss_ppb) == (10**8, 10**5, 0)
    assert (there.peer("s1-eth3"), back.peer("s2-eth3")) == (graph.port("s2-eth3"), graph.port("s1-eth3"))
    assert (graph.port("s1-eth3").queue.limit_bytes, graph.port("s2-eth3").queue.limit_bytes) == (9000, 4_000_000)
    assert [graph.cable_of(name).rate_bps for name in ("h1-eth0", "s1-eth1")] == [10**8, 2 * 10**7]
    assert Graph.from_json(graph.to_json()) == graph
    assert graph.unimpaired().cable_of("s1-eth3").impairment == graph.unimpaired().cable_of("s2-eth3").impairment
    assert graph.limited(3000, None).port("h1-eth0").queue.rate_bps == 10**8


def test_the_round_trip_of_unlike_directions_is_the_longer_one():
    """A full frame over the slow direction, and an ACK back over the fast one, on three links."""
    rules = (LinkRule.of(sender="s2", receiver="s1", rate_bps=10**6),)
    graph = build(TopologySpec.of(preset="dumbbell-1g", links=rules))
    fast = 2 * (10_000 + 12_112 + 10_000 + 528)
    assert base_rtt_ns(graph) == fast + 10_000 + 12_112_000 + 10_000 + 528


def test_headroom_counts_what_the_peer_sends():
    """It sends 1 Gbit/s over 20 us, the port 10 Gbit/s over 5 us: 25 us of 1 Gbit/s, a PAUSE frame and three frames."""
    rules = (LinkRule.of(sender="host", receiver="*", rate_bps=10**9, delay_ns=20_000),)
    keys = {
        "hosts": 2,
        "rate_bps": 10**10,
        "delay_ns": 5_000,
        "buffer_bytes": 10**5,
        "shared_buffer_bytes": 10**6,
        "pfc": "classes",
    }
    pause = build(TopologySpec.of(kind="single", links=rules, **keys)).port("s1-eth1").queue.pause
    assert pause.headroom_bytes == 3125 + 60 + 3 * 1514


def test_a_later_rule_wins():
    rules = (rule("*", "*", rate_bps=5), rule("leaf", "spine", rate_bps=6), rule("spine", "s1", rate_bps=7))
    graph = build(TopologySpec.of(preset="acc24a", links=rules))
    assert Counter(cable.rate_bps for cable in graph.cables) == {5: 24, 6: 2, 7: 2}
    assert {cable.delay_ns for cable in graph.cables} == {550, 950}  # the preset's own rule stays


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("marking", ["step", "secn1", "secn2"])
def test_scale_keeps_bdp_buffer_and_thresholds_in_packets(name, marking):
    """A slower network is the same one on a slower clock: rates / s, times x s, queues as they were."""
    params = TopologySpec.of(
        preset=name, marking=marking, buffer_bytes=parse("50bdp"), jitter_ns=10, reorder_ppb=1, reorder_delay_ns=7
    )
    if marking == "secn2" and name.startswith("dumbbell"):
        return  # its Kmin there is below a byte
    graph, slow = build(params), build(replace(params, scale=10))
    assert [port.queue for port in slow.ports()] == [port.queue for port in graph.ports()]
    for fast, other in zip(graph.cables, slow.cables, strict=True):
        assert (other.rate_bps * 10, other.delay_ns) == (fast.rate_bps, fast.delay_ns * 10)
        assert (other.impairment.jitter_ns, other.impairment.reorder_delay_ns) == (100, 70)
    assert 0 <= 10 * base_rtt_ns(graph) - base_rtt_ns(slow) <= 90  # rounding up to whole ns at each hop


BAD = {
    "no such link": (dict(preset="acc24", links=(rule("s1", "s2", rate_bps=1),)), "['s1', 's2'] matches no link"),
    "no such layer": (dict(preset="acc24", links=(rule("agg", "*", rate_bps=1),)), "between = ['agg', '*']"),
    "one server on three leaves": (dict(preset="acc24", nics=3), "topology.leaves: value 4"),
    "no slope's key": (
        dict(preset="acc24", marking="red-instant", kmin_bytes=1, kmax_bytes=2),
        "topology.pmax is missing",
    ),
    "Kmin above Kmax": (
        dict(preset="acc24", marking="red-instant", **SLOPE | {"kmin_bytes": 60_000}),
        "topology.kmin: 60000 bytes are not below topology.kmax",
    ),
    "Kmax above the buffer": (dict(preset="acc24", marking="secn2", buffer_bytes=100_000), "above the buffer"),
    "slope's key for a step": (
        dict(preset="acc24", marking="step", kmin_bytes=1),
        "topology.kmin = 1: has no effect with marking",
    ),
    "slope's key for auto": (dict(preset="acc24", pmax_ppm=1), 'topology.pmax = "0.0001%": has no effect with marking'),
    "reordering without a delay": (dict(preset="acc24", reorder_ppb=1), "reorder_delay_ns"),
    "a rate beyond the driver's": (dict(preset="acc24", rate_bps=10**13 + 1), "is above 10000Gbit/s"),
    "a delay beyond the driver's": (dict(preset="acc24", delay_ns=10**9, scale=11), "is not in 0..10000000000"),
    "no hops": (dict(kind="parkinglot", hops=65, **LINKS), "topology.hops = 65: is above 64"),
    "no kind": (dict(), "topology.kind is missing"),
    "no shape": (dict(kind="dumbbell", **LINKS), "topology.pairs is missing"),
    "no rate": (dict(kind="single", hosts=2, delay_ns=0, buffer_bytes=10**6), "topology.rate is missing"),
    "no delay": (dict(kind="single", hosts=2, rate_bps=1, buffer_bytes=10**6), "topology.delay is missing"),
    "no buffer": (dict(kind="single", hosts=2, rate_bps=1, delay_ns=0), "topology.buffer is missing"),
    "nothing of its links": (
        dict(kind="single"),
        "topology.hosts, topology.rate, topology.delay, topology.buffer are missing: kind single needs them",
    ),
    "no K": (dict(kind="single", hosts=2, ecn=True, **LINKS), "topology.k_bytes is missing"),
    "foreign shape": (dict(preset="dumbbell-10m", k=4), "topology.k = 4: has no effect with kind 'dumbbell'"),
    "foreign bottleneck": (dict(preset="fattree-k4", bottleneck_rate_bps=1), "topology.bottleneck_rate"),
    "K without step": (dict(preset="dumbbell-10m", marking="none", k_bytes=3028), "topology.k_bytes"),
    "one host": (dict(kind="single", hosts=1, **LINKS), "topology.hosts = 1: is below 2"),
    "odd k": (dict(kind="fattree", k=5, **LINKS), "topology.k: value 5"),
    "large k": (dict(kind="fattree", k=18, **LINKS), "topology.k = 18: is above 16"),
    "no slope": (dict(preset="dumbbell-10m", marking="iroko-thesis", buffer_bytes=12_000), "topology.buffer"),
    "buffer below a frame": (dict(preset="dumbbell-10m", buffer_bytes=1000), "value 1000"),
}


@pytest.mark.parametrize(("keys", "message"), BAD.values(), ids=BAD.keys())
def test_refused(keys, message):
    with pytest.raises(UsageError) as excinfo:
        build(TopologySpec.of(**{name: value for name, value in keys.items() if name != "ecn"}), "ecn" in keys)
    assert states(str(excinfo.value), message) and "\n" not in str(excinfo.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"preset": "x"}, 'topology.preset = "x": ... one of: dumbbell-10m, dumbbell-1g, dctcp-10g, fattree-k4'),
        ({"kind": "x"}, 'topology.kind = "x": ... one of: dumbbell, fattree'),
        ({"marking": "x"}, 'topology.marking = "x": ... one of: auto, none, step, red-instant, iroko-thesis'),
        ({"links": (LinkRule(between=("*", "*"), marking="x"),)}, 'topology.links[0].marking = "x": '),
        ({"host_qdisc": "red"}, 'topology.host_qdisc = "red": ... one of: bfifo, fq'),
        ({"rate_bps": 0}, "topology.rate = 0: ... 1bit/s"),
        ({"delay_ns": -1}, "topology.delay = -1: ... 0ns"),
        ({"host_buffer_bytes": -1}, "topology.host_buffer = -1: ... 1B"),
        ({"k_bytes": 0}, "topology.k_bytes = 0: ... 1"),
        ({"nothing": 0}, "nothing: ... TopologySpec"),
    ],
)
def test_refused_at_once(values, message):
    with pytest.raises(KeyFault) as excinfo:
        TopologySpec.of(**values)
    assert states(str(excinfo.value), message)


def test_a_kind_is_registered_once():
    with pytest.raises(TopologyError, match="registered already"):
        register("single", TOPOLOGIES["single"].call, TOPOLOGIES["single"].keys)


@pytest.mark.parametrize("name", PRESETS)
def test_build_is_repeatable_and_survives_json(name):
    params = TopologySpec.of(preset=name, marking="secn0")
    graph = build(params)
    assert build(params) == graph == Graph.from_json(graph.to_json()) == build(resolve(params))
    assert build(replace(params, marking="none")) != graph
