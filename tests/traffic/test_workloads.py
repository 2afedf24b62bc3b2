# SPDX-License-Identifier: Apache-2.0
"""Workloads: every kind against its definition, and the contract that all of them keep."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev

import pytest

from dc_gym.base.errors import UsageError, WorkloadError
from dc_gym.base.key import KeyFault
from dc_gym.topologies.ecmp import route
from dc_gym.topologies.presets import PRESETS, TopologySpec, build
from dc_gym.traffic.flows import NO_GATE, FlowRequest
from dc_gym.traffic.kinds.collectives import decide, steps
from dc_gym.traffic.schedule import make_schedule
from dc_gym.traffic.workloads import KINDS, WorkloadSpec, generate, generate_with_notes, register

SECOND = 10**9
GRAPHS = {name: build(TopologySpec.of(preset=name)) for name in PRESETS}
DUMBBELL, FATTREE = GRAPHS["dumbbell-10m"], GRAPHS["fattree-k4"]


def ends(flows):
    return [(flow.src, flow.dst) for flow in flows]


def run(graph, kind, seed=1, duration_ns=30 * SECOND, **values):
    return generate(graph, WorkloadSpec.of(kind, **values), duration_ns, seed)


def test_patterns():
    assert ends(run(DUMBBELL, "pairs")) == [("h1", "h3"), ("h2", "h4")]
    assert ends(run(FATTREE, "pairs"))[:2] == [("h1", "h9"), ("h2", "h10")] and len(run(FATTREE, "pairs")) == 8
    assert ends(run(GRAPHS["dctcp-10g"], "many_to_one")) == [(f"h{number}", "h5") for number in range(1, 5)]
    assert ends(run(GRAPHS["dctcp-10g"], "many_to_one", senders=2)) == [("h1", "h5"), ("h2", "h5")]
    assert len(run(FATTREE, "hotspot")) == 16


def test_times_sizes_and_rates():
    assert run(DUMBBELL, "pairs")[0] == FlowRequest("h1", "h3", 5001, 0, 30 * SECOND, 0, 0, transport="tcp")
    values = {"start_ns": SECOND, "stop_ns": 5 * SECOND, "rate_bps": 10**6}
    assert run(DUMBBELL, "pairs", **values)[0] == FlowRequest("h1", "h3", 5001, SECOND, 5 * SECOND, 0, 10**6, transport="tcp")
    assert run(DUMBBELL, "pairs", size_bytes=500)[0] == FlowRequest(
        "h1", "h3", 5001, 0, 0, 500, 0, transport="tcp"
    )  # a size ends it
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


def test_gaussian_jitter_is_seeded_and_centred():
    gaussian = {"start_ns": 7, "jitter_ns": 6000, "jitter_distribution": "gaussian"}
    starts = [flow.start_ns - 7 for seed in range(100) for flow in run(FATTREE, "hotspot", seed=seed, **gaussian)]
    assert min(starts) >= 0 and max(starts) < 6000
    within = sum(2000 <= start < 4000 for start in starts) / len(starts)  # one sigma either way: 68.3 % of 99.7 %
    assert within == pytest.approx(0.6845, abs=0.05)
    assert run(FATTREE, "hotspot", seed=1, **gaussian) == run(FATTREE, "hotspot", seed=1, **gaussian)
    assert run(FATTREE, "hotspot", seed=1, **gaussian) != run(FATTREE, "hotspot", seed=2, **gaussian)


def test_a_distribution_without_jitter_is_refused():
    with pytest.raises(KeyFault, match=r"jitter_distribution.*workload\.jitter"):
        WorkloadSpec.of("hotspot", jitter_distribution="gaussian")


def test_jitter_is_uniform_and_seeded():
    starts = [flow.start_ns for seed in range(100) for flow in run(FATTREE, "hotspot", seed=seed, start_ns=7, jitter_ns=1000)]
    assert min(starts) >= 7 and max(starts) < 1007 and len(set(starts)) > 700
    assert abs(sum(starts) / len(starts) - 506.5) < 4 * 288.7 / len(starts) ** 0.5
    assert run(FATTREE, "hotspot", seed=1, jitter_ns=1000) == run(FATTREE, "hotspot", seed=1, jitter_ns=1000)
    assert run(FATTREE, "hotspot", seed=1, jitter_ns=1000) != run(FATTREE, "hotspot", seed=2, jitter_ns=1000)


BAD = {
    "unknown kind": (DUMBBELL, "inca", {}, 'workload.kind = "inca": unknown; did you mean incast?'),
    "odd number of hosts": (GRAPHS["dctcp-10g"], "pairs", {}, "5 hosts"),
    "hotspot elsewhere": (DUMBBELL, "hotspot", {}, "4 hosts, not 16"),
    "no senders": (DUMBBELL, "many_to_one", {"senders": 0}, "workload.senders = 0: is below 1"),
    "too many senders": (DUMBBELL, "many_to_one", {"senders": 4}, "workload.senders: value 4"),
    "senders of pairs": (DUMBBELL, "pairs", {"senders": 2}, "workload.senders = 2: has no effect with kind 'pairs'"),
    "file of pairs": (DUMBBELL, "pairs", {"file": Path("m.csv")}, "workload.file"),
    "no file": (DUMBBELL, "matrix", {}, "workload.file: is missing"),
    "negative size": (DUMBBELL, "pairs", {"size_bytes": -1}, "workload.size = -1: is below 1B"),
    "stop before start": (DUMBBELL, "pairs", {"start_ns": 2, "stop_ns": 1}, "workload.stop = 1: is not after workload.start"),
    "start after the end": (DUMBBELL, "pairs", {"start_ns": 30 * SECOND, "size_bytes": 1}, "no flow starts before the end"),
    "stride to oneself": (DUMBBELL, "stride", {"stride": 4}, "workload.stride: value 4 sends each of 4 hosts to itself"),
    "no stride": (DUMBBELL, "stride", {}, "workload.stride: is missing: kind 'stride' needs it"),
    "probabilities": (DUMBBELL, "staggered", {"p_edge": 0.6, "p_pod": 0.5}, "above 1 together"),
    "too many destinations": (DUMBBELL, "random", {"flows": 4}, "workload.flows: value 4 is not below the 4 hosts"),
    "no size": (DUMBBELL, "incast", {"senders": 2}, "workload.size: is missing"),
    "no sizes": (DUMBBELL, "poisson", {"load": 0.5}, "give one of the three, not nothing"),
    "two sizes": (DUMBBELL, "poisson", {"load": 0.5, "size_bytes": 1, "distribution": "websearch"}, "not workload.size and"),
    "no load": (DUMBBELL, "poisson", {"size_bytes": 1000}, "workload.load: is missing"),
    "no distribution": (
        DUMBBELL,
        "poisson",
        {"load": 0.5, "distribution": "web"},
        'workload.distribution = "web": unknown; did you mean web',
    ),
    "too much": (
        GRAPHS["acc24"],
        "poisson",
        {"load": 1.0, "size_bytes": 10**9, "load_of": "bisection"},
        "asks 2.56 times what the link of h1 carries",
    ),
    "above 1": (DUMBBELL, "poisson", {"load": 1.5, "size_bytes": 1000}, "workload.load = 1.5: is above 1"),
    "no bisection": (
        GRAPHS["dctcp-10g"],
        "poisson",
        {"load": 0.5, "size_bytes": 10**6, "load_of": "bisection"},
        "no links above",
    ),
    "nothing to answer": (
        DUMBBELL,
        "partition_aggregate",
        {"size_bytes": 2, "interval_ns": 9},
        "workload.size: value 2 leaves nothing",
    ),
    "too many workers": (
        DUMBBELL,
        "partition_aggregate",
        {"size_bytes": 9, "interval_ns": 9, "senders": 4},
        "workload.senders: value 4",
    ),
    "unknown mix": (DUMBBELL, "storage", {"mix": "oltq"}, 'workload.mix = "oltq": unknown; did you mean oltp?'),
    "all store": (DUMBBELL, "storage", {"mix": "oltp", "storage": 4}, "workload.storage: value 4 is not in 1..3"),
    "copies of itself": (DUMBBELL, "storage", {"mix": "oltp", "replicas": 1}, "workload.replicas: value 1 is not below"),
    "one process": (DUMBBELL, "alltoall", {"size_bytes": 9, "senders": 1}, "workload.senders: value 1 is not in 2..4"),
    "largest below size": (DUMBBELL, "alltoall", {"size_bytes": 9, "largest_bytes": 8}, "workload.largest: value 8 is below"),
    "ring of one": (DUMBBELL, "ring_allreduce", {"size_bytes": 9, "senders": 1}, "workload.senders: value 1 is too few"),
    "no flow": (DUMBBELL, "poisson", {"size_bytes": 10**9, "load": 0.01}, "it gives no flow in this network and time"),
    "more than a run takes": (FATTREE, "poisson", {"size_bytes": 50, "load": 0.9}, "a run takes 1048576"),
}


@pytest.mark.parametrize(("graph", "kind", "values", "message"), BAD.values(), ids=BAD.keys())
def test_refused(graph, kind, values, message):
    with pytest.raises(UsageError) as excinfo:
        run(graph, kind, **values)
    assert message in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_a_kind_is_registered_once():
    with pytest.raises(WorkloadError, match="registered already"):
        register("pairs", KINDS["pairs"].call)


def test_a_flow_beyond_the_end_is_kept_if_another_starts(tmp_path):
    """The late flow appears in the log as one that waited; a matrix may be run for a shorter time than it was made for."""
    (tmp_path / "m.csv").write_text("source,destination,port,start,stop,size\nh1,h3,80,0,0,9\nh2,h4,80,50,0,9\n")
    assert [flow.start_ns for flow in run(DUMBBELL, "matrix", file=tmp_path / "m.csv")] == [0, 50 * SECOND]


# --- the kinds against their definitions

EDGE = {host.name: FATTREE.peer(FATTREE.ports_of(host.name)[0]).node for host in FATTREE.hosts}
HOSTS = [host.name for host in FATTREE.hosts]


def number(host):
    return int(host[1:]) - 1


def test_all_to_all():
    assert sorted(ends(run(FATTREE, "all_to_all"))) == sorted((a, b) for a in HOSTS for b in HOSTS if a != b)
    assert set(Counter(ends(run(FATTREE, "all_to_all", flows=2))).values()) == {2}


@pytest.mark.parametrize("step", [1, 4, 8, 17])
def test_stride(step):
    assert [(number(a), number(b)) for a, b in ends(run(FATTREE, "stride", stride=step))] == [
        (x, (x + step) % 16) for x in range(16)
    ]


def test_random_destinations():
    into = Counter()
    for seed in range(50):
        flows = run(FATTREE, "random", seed=seed, flows=3)
        assert len(set(ends(flows))) == 48 and Counter(flow.src for flow in flows) == dict.fromkeys(HOSTS, 3)
        into.update(flow.dst for flow in flows)
    assert all(abs(count - 150) < 4 * 150**0.5 for count in into.values())
    assert max(Counter(flow.dst for flow in run(FATTREE, "random")).values()) > 1  # receivers are shared


def test_random_bijective():
    for seed in range(200):
        flows = run(FATTREE, "random_bijective", seed=seed)
        assert sorted(flow.dst for flow in flows) == sorted(HOSTS) and all(flow.src != flow.dst for flow in flows)
    assert ends(run(FATTREE, "random_bijective", seed=1)) != ends(run(FATTREE, "random_bijective", seed=2))


def test_staggered_has_three_disjoint_classes():
    counts = Counter()
    for seed in range(200):
        for src, dst in ends(run(FATTREE, "staggered", seed=seed, p_edge=0.2, p_pod=0.3)):
            same_pod = number(src) // 4 == number(dst) // 4
            counts["edge" if EDGE[src] == EDGE[dst] else "pod" if same_pod else "rest"] += 1
    assert {name: counts[name] / 3200 for name in counts} == pytest.approx({"edge": 0.2, "pod": 0.3, "rest": 0.5}, abs=0.04)
    assert all(EDGE[src] == EDGE[dst] for src, dst in ends(run(FATTREE, "staggered", p_edge=1.0, p_pod=0.0)))
    assert all(number(a) // 4 != number(b) // 4 for a, b in ends(run(FATTREE, "staggered", p_edge=0.0, p_pod=0.0)))


def test_staggered_where_a_class_is_missing():
    """One switch: everyone is on it. A dumbbell: an edge switch is a pod of its own."""
    assert len(run(GRAPHS["dctcp-10g"], "staggered", p_edge=0.0, p_pod=0.0)) == 5
    crossing = [number(a) // 2 != number(b) // 2 for a, b in ends(run(DUMBBELL, "staggered", p_edge=0.0, p_pod=1.0))]
    assert crossing == [True] * 4


def in_rounds(flows):
    rounds = {}
    for flow in flows:
        rounds.setdefault(flow.rep, []).append(flow)
    return [rounds[rep] for rep in sorted(rounds)]


def test_incast():
    flows = run(FATTREE, "incast", senders=15, size_bytes=64_000, rounds=3, interval_ns=1000)
    first, second, third = in_rounds(flows)
    assert {(flow.dst, flow.size_bytes, flow.group) for flow in flows} == {("h16", 64_000, "response")}
    assert [flow.src for flow in first] == HOSTS[:15] and {flow.start_ns for flow in first} == {0}
    for before, after in ((first, second), (second, third)):
        assert {flow.gate for flow in after} == {before[0].opens[0]} and len({flow.opens for flow in before}) == 1
        assert {flow.start_ns for flow in after} == {1000}
    assert not any(flow.spare for flow in flows)
    more = run(FATTREE, "incast", senders=40, size_bytes=64_000)
    assert Counter(flow.src for flow in more if flow.rep == 0)["h1"] == 3
    assert not any(flow.spare for flow in more if flow.rep == 0) and all(flow.spare for flow in more if flow.rep)
    assert len(more) * 64_000 * 8 < 1.1 * 30 * 10**9 + 40 * 64_000 * 8  # no more rounds than the link carries


def test_partition_aggregate():
    flows = run(FATTREE, "partition_aggregate", senders=8, size_bytes=80_000, interval_ns=10**8)
    rounds = in_rounds(flows)
    assert len(rounds) == pytest.approx(300, abs=70)
    for queries in rounds:
        asks, answers = [[flow for flow in queries if flow.group == group] for group in ("query", "response")]
        assert len({flow.src for flow in asks}) == 1 and len({flow.dst for flow in asks}) == 8 == len(answers)
        assert [(flow.dst, flow.src, *flow.opens) for flow in asks] == [(flow.src, flow.dst, flow.gate) for flow in answers]
        assert {flow.size_bytes for flow in asks} == {1600} and {flow.size_bytes for flow in answers} == {10_000}
    assert len({queries[0].src for queries in rounds}) == 16
    exact = run(FATTREE, "partition_aggregate", size_bytes=80_000, interval_ns=10**9, intervals="exact", last_start_ns=5 * SECOND)
    assert sorted({flow.start_ns for flow in exact if flow.group == "query"}) == [second * SECOND for second in range(5)]


def test_long_short():
    flows = run(GRAPHS["dctcp-10g"], "long_short", long=2, short=50, size_bytes=10_000)
    long, short = flows[:2], flows[2:]
    assert {flow.group for flow in long} == {"long"} and {(flow.size_bytes, flow.stop_ns) for flow in long} == {(0, 30 * SECOND)}
    assert len(short) == 50 and {(flow.group, flow.size_bytes, flow.stop_ns) for flow in short} == {("short", 10_000, 0)}
    starts = {run(FATTREE, "long_short", seed=seed, short=1, size_bytes=1)[-1].start_ns for seed in range(20)}
    assert len(starts) == 20 and min(starts) >= 7.5 * SECOND and max(starts) <= 22.5 * SECOND
    assert run(FATTREE, "long_short", short=1, size_bytes=1, short_start_ns=5)[-1].start_ns == 5


def test_on_off():
    flows = run(DUMBBELL, "on_off", on_ns=SECOND, off_ns=2 * SECOND, ends="pairs")
    spans = [(flow.start_ns, flow.stop_ns) for flow in flows if flow.src == "h1"]
    assert spans == [(3 * n * SECOND, (3 * n + 1) * SECOND) for n in range(10)] and len(flows) == 20
    flows = run(FATTREE, "on_off", on_ns=10**8, off_ns=3 * 10**8, senders=15, intervals="exponential")
    on = sum(min(flow.stop_ns, 30 * SECOND) - flow.start_ns for flow in flows) / (15 * 30 * SECOND)
    assert on == pytest.approx(0.25, abs=0.03)


def test_joins_and_leaves_in_reverse():
    flows = run(FATTREE, "joins", flows=4, interval_ns=SECOND)
    assert [(flow.start_ns // SECOND, flow.stop_ns // SECOND) for flow in flows] == [(0, 7), (1, 6), (2, 5), (3, 4)]
    assert run(FATTREE, "joins", flows=4)[0].stop_ns == 7 * (30 * SECOND // 8)


def test_repeat():
    flows = run(DUMBBELL, "repeat", size_bytes=125_000, rounds=3, interval_ns=5, ends="pairs")
    assert len(flows) == 6 and [flow.gate for flow in flows[:3]] == [NO_GATE, flows[0].opens[0], flows[1].opens[0]]
    assert [flow.start_ns for flow in flows[:3]] == [0, 5, 5]
    endless = run(DUMBBELL, "repeat", size_bytes=125_000, senders=1)
    assert 280 < len(endless) <= 300  # 125 kB take 0.1 s at 10 Mbit/s, and a little more with headers
    assert [flow.spare for flow in endless[:2]] == [False, True]


def offered(flows, duration_ns):
    return sum(flow.size_bytes for flow in flows) * 8 * SECOND / duration_ns


@pytest.mark.parametrize(("name", "load", "duration_ns"), [
    ("websearch", 0.8, 8 * SECOND), ("fb_hadoop", 0.3, SECOND), ("homa_w4", 0.5, SECOND),
])  # fmt: skip
def test_poisson_offers_its_load(name, load, duration_ns):
    """The load is within three standard errors; gaps are exponential: their standard deviation is their mean."""
    flows = run(FATTREE, "poisson", 1, duration_ns, distribution=name, load=load)
    sizes = [flow.size_bytes for flow in flows]
    error = 3 * (1 + (stdev(sizes) / mean(sizes)) ** 2) ** 0.5 / len(sizes) ** 0.5
    assert offered(flows, duration_ns) / 16e9 == pytest.approx(load, rel=error) and error < 0.25
    gaps = [after.start_ns - before.start_ns for before, after in pairwise(flows)]
    assert stdev(gaps) / mean(gaps) == pytest.approx(1, abs=0.06) and min(gaps) >= 0
    to = Counter(flow.dst for flow in flows)
    assert set(to) == set(HOSTS) and max(to.values()) < 1.4 * min(to.values()) and all(flow.src != flow.dst for flow in flows)


@pytest.mark.long
@pytest.mark.parametrize("load", [0.3, 0.5, 0.8])
def test_poisson_offers_its_load_within_two_percent_in_the_long_run(load):
    flows = run(FATTREE, "poisson", 1, 300 * SECOND, distribution="websearch", load=load)
    assert offered(flows, 300 * SECOND) / 16e9 == pytest.approx(load, rel=0.02)


def test_load_on_the_wire_counts_headers():
    keys = {"size_bytes": 14_480, "load": 0.5, "duration_ns": SECOND // 10}
    payload, wire = (run(FATTREE, "poisson", load_counts=basis, **keys) for basis in ("payload", "wire"))
    assert payload[0].start_ns / wire[0].start_ns == pytest.approx(14_480 / 15_140, rel=1e-3)  # the same draws, spread out
    assert len(payload) / len(wire) == pytest.approx(15_140 / 14_480, rel=0.01)


def test_load_of_the_bisection():
    """Two hosts a side at 10 Mbit/s share one middle link; two of three destinations lie across it."""
    flows = run(DUMBBELL, "poisson", duration_ns=600 * SECOND, size_bytes=50_000, load=0.6, load_of="bisection")
    across = sum(flow.size_bytes for flow in flows if number(flow.src) // 2 == 0 and number(flow.dst) // 2 == 1)
    assert across * 8 / 600 / 10e6 == pytest.approx(0.6, rel=0.03)


def test_load_of_the_bisection_counts_all_planes():
    """ACC's network: a rack of 12 hosts has a leaf in each of two planes, and each leaf four links of 100 Gbit/s up."""
    graph = GRAPHS["acc24"]
    flows = run(graph, "poisson", duration_ns=SECOND, size_bytes=10**7, load=0.3, load_of="bisection")
    leaving = sum(flow.size_bytes for flow in flows if number(flow.src) < 12 <= number(flow.dst))
    assert graph.neighbours("h12") == ("s1", "s2") and graph.neighbours("h13") == ("s3", "s4")
    assert leaving * 8 / 800e9 == pytest.approx(0.3, rel=0.05)


def test_the_same_flows_for_every_controller_and_more_of_them_in_a_longer_run():
    short = run(FATTREE, "poisson", duration_ns=SECOND // 2, distribution="websearch", load=0.5)
    longer = run(FATTREE, "poisson", duration_ns=SECOND, distribution="websearch", load=0.5)
    assert longer[: len(short)] == short


def test_notes_say_what_was_offered():
    params = WorkloadSpec.of("poisson", distribution="websearch", load=0.5, truncate_bytes=10**6, last_start_ns=SECOND)
    flows, notes = generate_with_notes(FATTREE, params, 30 * SECOND, 1)
    assert notes["mean_size_bytes"] == 386_250 and notes["sampling"] == "linear"
    assert max(flow.start_ns for flow in flows) < SECOND
    assert notes["offered_payload_bps"] == sum(flow.size_bytes for flow in flows) * 8
    assert notes["offered_payload_bps"] == pytest.approx(8e9, rel=0.1)


def test_closed_loop_keeps_its_number_outstanding():
    flows = run(FATTREE, "closed_loop", duration_ns=SECOND // 2, size_bytes=10**6, outstanding=3, interval_ns=7)
    assert Counter(flow.src for flow in flows if flow.gate == NO_GATE) == dict.fromkeys(HOSTS, 3)
    assert {flow.start_ns for flow in flows if flow.gate != NO_GATE} == {7}
    opened = [gate for flow in flows for gate in flow.opens]
    assert len(opened) == len(set(opened)) and {flow.gate for flow in flows} - {NO_GATE} == set(opened)
    assert len({flow.dst for flow in flows if flow.src == "h1"}) == 15


def test_parameter_server():
    flows = run(FATTREE, "parameter_server", senders=7, size_bytes=10**6, compute_ns=10**6, rounds=2)
    push, pull, again, _ = [flows[at : at + 7] for at in range(0, 28, 7)]
    assert {(flow.dst, flow.group) for flow in push} == {("h16", "push")} and {flow.src for flow in push} == set(HOSTS[:7])
    assert {(flow.src, flow.group, flow.gate) for flow in pull} == {("h16", "pull", push[0].opens[0])}
    assert len({flow.opens for flow in push}) == 1 == len(push[0].opens)
    assert [(flow.src, flow.gate, flow.start_ns) for flow in again] == [(flow.dst, flow.opens[0], 10**6) for flow in pull]


def test_ring_allreduce():
    """Every worker sends (and receives) 2 (n - 1) / n of the model an iteration, each step after the one before."""
    flows = run(FATTREE, "ring_allreduce", senders=4, size_bytes=4 * 10**6, compute_ns=10**6, rounds=2)
    assert len(flows) == 2 * 6 * 4 and {flow.size_bytes for flow in flows} == {10**6}
    steps = [flows[at : at + 4] for at in range(0, len(flows), 4)]
    for before, after in pairwise(steps):
        for flow in after:
            openers = {(opener.src, opener.dst) for opener in before if flow.gate in opener.opens}
            rank = HOSTS.index(flow.src)
            assert openers == {(flow.src, flow.dst), (HOSTS[(rank - 1) % 4], flow.src)}
    assert {flow.start_ns for flow in steps[6]} == {10**6} and {flow.start_ns for flow in steps[5]} == {0}


@pytest.mark.parametrize("schedule", ["linear", "pairwise", "bruck"])
@pytest.mark.parametrize("processes", [2, 5, 13, 16])
def test_alltoall_delivers_every_block(processes, schedule):
    """Block (a, b) begins at a and moves with the messages that its schedule puts it into; in the end it is at b."""
    at = {(source, target): source for source in range(processes) for target in range(processes)}
    for step in steps(schedule, processes):
        before = dict(at)
        for rank, peer, blocks in step:
            ahead = (peer - rank) % processes
            moved = [pair for pair, position in before.items() if position == rank and moves(schedule, pair, processes, ahead)]
            assert len(moved) == blocks
            at.update(dict.fromkeys(moved, peer))
    assert all(position == target for (_, target), position in at.items())


def moves(schedule, pair, processes, ahead):
    distance = (pair[1] - pair[0]) % processes
    return bool(distance & ahead) if schedule == "bruck" else distance == ahead


@pytest.mark.parametrize("schedule", ["linear", "pairwise", "bruck"])
def test_alltoall_waits_for_its_own_step_alone(schedule):
    """A process goes on when it has sent and received; an iteration begins when all of the one before has arrived."""
    flows = run(FATTREE, "alltoall", senders=5, size_bytes=1000, rounds=2, interval_ns=7, schedule=schedule)
    lengths = [len(step) for step in steps(schedule, 5)] * 2
    step_flows = [flows[sum(lengths[:number]) : sum(lengths[: number + 1])] for number in range(len(lengths))]
    half = len(lengths) // 2
    for number, (before, after) in enumerate(pairwise(step_flows), 1):
        for flow in after:
            openers = {(opener.src, opener.dst) for opener in before if flow.gate in opener.opens}
            process_ends = {(opener.src, opener.dst) for opener in before if flow.src in (opener.src, opener.dst)}
            assert openers == (set(ends(before)) if number == half else process_ends)
            assert (flow.rep, flow.start_ns) == (int(number >= half), 7 if number == half else 0)


def test_alltoall_decides_as_open_mpi():
    assert [decide(64, size) for size in (32, 1023, 1024, 262_143, 262_144)] == ["bruck"] * 2 + ["linear"] * 2 + ["pairwise"]
    assert [decide(16, size) for size in (3, 4, 511, 512, 1 << 20)] == ["linear", "bruck", "bruck", "linear", "linear"]
    assert decide(2, 1) == decide(2, 1 << 20) == "pairwise" and decide(5000, 2047) == "bruck"
    _, notes = generate_with_notes(FATTREE, WorkloadSpec.of("alltoall", size_bytes=256, largest_bytes=1100), SECOND, 1)
    assert notes["schedules"] == {"256": "bruck", "512": "linear", "1024": "linear"}


@pytest.mark.parametrize(("mix", "reads", "least", "most"), [
    ("oltp", 0.5, 512, 65536), ("olap", 0.5, 2**18, 2**22), ("vdi", 0.2, 1024, 65536), ("exchange", 0.6, 2**15, 2**19),
    ("video", 0.2, 65536, 65536), ("backup", 0.4, 16384, 65536),
])  # fmt: skip
def test_storage_mixes(mix, reads, least, most):
    flows = run(FATTREE, "storage", duration_ns=SECOND // 20 if mix != "olap" else 4 * SECOND, mix=mix, outstanding=2)
    assert {flow.dst for flow in flows if flow.group == "write"} == set(HOSTS[12:]) == {f.src for f in flows if f.group == "read"}
    share = sum(flow.group == "read" for flow in flows) / len(flows)
    assert share == pytest.approx(reads, abs=4 * (0.25 / len(flows)) ** 0.5)
    sizes = Counter(flow.size_bytes for flow in flows)
    assert min(sizes) == least and max(sizes) == most and all(size & (size - 1) == 0 for size in sizes)
    assert max(sizes.values()) < 1.6 * min(sizes.values())
    assert Counter(flow.gate == NO_GATE for flow in flows)[True] == 24


def test_operations_under_way_at_once_choose_where_copies_go_by_themselves():
    flows = run(FATTREE, "storage", duration_ns=SECOND // 1000, mix="video", replicas=1, outstanding=40)
    client = {gate: flow.src for flow in flows if flow.rep == 0 and flow.group == "write" for gate in flow.opens}
    replicas_by_server = {}
    for copy in flows:
        if copy.group == "replica" and copy.gate in client:
            replicas_by_server.setdefault((client[copy.gate], copy.src), set()).add(copy.dst)
    assert len(replicas_by_server) == 12 * 4 and sum(len(replicas) > 1 for replicas in replicas_by_server.values()) > 40


def test_storage_places_end_after_their_rounds():
    flows = run(FATTREE, "storage", duration_ns=SECOND, mix="vdi", outstanding=3, rounds=4)
    clients = len({flow.src for flow in flows if flow.group == "write"})
    assert len(flows) == clients * 3 * 4 and not any(flow.spare for flow in flows)
    assert [flow.rep for flow in flows[:4]] == [0, 1, 2, 3]


def test_copies_of_writes():
    flows = run(FATTREE, "storage", duration_ns=SECOND // 100, mix="backup", replicas=2)
    writes, copies = [[flow for flow in flows if flow.group == group] for group in ("write", "replica")]
    assert len(copies) == 2 * len(writes) > 0
    for write in writes:
        write_copies = [copy for copy in copies if copy.gate in write.opens]
        assert len({copy.dst for copy in write_copies} | {write.dst}) == 3 and {copy.src for copy in write_copies} == {write.dst}
        assert {copy.size_bytes for copy in write_copies} == {write.size_bytes}


# --- the contract that every registered kind keeps

KEYS = {
    "stride": {"stride": 1},
    "staggered": {"p_edge": 0.3, "p_pod": 0.3},
    "iroko": {"pattern": "random0"},
    "incast": {"senders": 3, "size_bytes": 20_000},
    "partition_aggregate": {"senders": 2, "size_bytes": 20_000, "interval_ns": SECOND // 500},
    "long_short": {"short": 5, "size_bytes": 20_000},
    "on_off": {"on_ns": SECOND // 500, "off_ns": SECOND // 500, "intervals": "uniform"},
    "joins": {"flows": 3},
    "repeat": {"size_bytes": 20_000, "intervals": "exponential", "interval_ns": 10**6},
    "poisson": {"size_bytes": 20_000, "load": 0.1},
    "closed_loop": {"size_bytes": 200_000},
    "parameter_server": {"size_bytes": 200_000},
    "ring_allreduce": {"size_bytes": 10**6},
    "alltoall": {"size_bytes": 100, "largest_bytes": 1000},
    "storage": {"mix": "olap"},
    "job": {"collective": "all_gather", "size_bytes": 20_000},
}
"""The required keys of each workload kind; add here those of a new kind."""
SEEDED = {"random", "random_bijective", "staggered", "partition_aggregate", "long_short", "on_off", "repeat", "poisson",
          "closed_loop", "storage"}  # fmt: skip
SMALL = build(TopologySpec.of(preset="dumbbell-10m", rate_bps=10**8))


def request(graph, kind, tmp_path, **values):
    (tmp_path / "m.csv").write_text("source,destination,port,start,stop,size\nh1,h3,80,0,0,0\nh2,h4,80,0,0,700\n")
    (tmp_path / "log.csv").write_text("start_ms,source,destination,bytes\n1,h1,h3,7000\n2,h2,h4,700\n")
    files = {"matrix": "m.csv", "file": "log.csv"}
    keys = {"file": tmp_path / files[kind]} if kind in files else KEYS.get(kind, {})
    return lambda seed=1: run(graph, kind, seed=seed, duration_ns=SECOND // 50, **(keys | values))


@pytest.mark.parametrize("graph", [SMALL, FATTREE, GRAPHS["dctcp-10g"]], ids=["dumbbell", "fattree", "single"])
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"none"}))
def test_every_kind(kind, graph, tmp_path):
    """A kind is refused in one line, or it repeats, differs between seeds, and gives a schedule in which every flow can run."""
    make = request(graph, kind, tmp_path, rate_bps=10**7)
    try:
        flows = make()
    except WorkloadError as refusal:
        assert "; " in str(refusal) and "\n" not in str(refusal)
        assert kind in ("pairs", "hotspot", "iroko", "matrix", "job"), refusal
        return
    assert flows == make() and (make(seed=2) != flows) == (kind in SEEDED)
    assert request(graph, kind, tmp_path, jitter_ns=10**6)(seed=2) != request(graph, kind, tmp_path, jitter_ns=10**6)()
    schedule, rows = make_schedule(flows, graph, route(graph, 1), "dctcp", 1), graph.ports()
    for flow in schedule.flows[:200]:
        assert rows[flow.rows[0]].node == flow.src and graph.peer(rows[flow.rows[-1]]).node == flow.dst
        assert all(graph.peer(rows[a]).node == rows[b].node for a, b in pairwise(flow.rows))
    assert len({(f.request.transport, f.src, f.src_port, f.dst, f.dst_port) for f in schedule.flows}) == len(flows)
    openers = Counter(gate for flow in flows for gate in flow.opens)
    assert {flow.gate for flow in flows} - {NO_GATE} <= set(openers)
    assert_gates_can_open(flows)
    for flow in flows:
        assert flow.size_bytes or flow.stop_ns or flow.length_ns  # it ends
        assert flow.gate == NO_GATE or not flow.spare or flow.rep or kind == "storage"


def assert_gates_can_open(flows):
    """Checks that every flow starts if every flow ends: no two flows wait for each other."""
    left, ready, started = Counter(gate for flow in flows for gate in flow.opens), [], 0
    waiting = {}
    for flow in flows:
        (ready if flow.gate == NO_GATE else waiting.setdefault(flow.gate, [])).append(flow)
    while ready:
        started += 1
        for gate in ready.pop().opens:
            left[gate] -= 1
            if not left[gate]:
                ready += waiting.pop(gate, [])
    assert started == len(flows)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"none", "hotspot", "iroko", "job"}))
def test_every_kind_over_udp(kind, tmp_path):
    """With a rate, every kind can send datagrams."""
    flows = request(SMALL, kind, tmp_path, transport="udp", rate_bps=10**6, gaps="uniform")()
    assert {(flow.transport, flow.rate_bps, flow.gaps) for flow in flows} == {("udp", 10**6, "uniform")}


PROGRAM = """
from dc_gym.run.plan.inputs import flow_tables
from dc_gym.topologies.ecmp import route
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic.schedule import make_schedule
from dc_gym.traffic.workloads import WorkloadSpec, generate
graph = build(TopologySpec.of(preset="fattree-k4"))
flows = generate(graph, WorkloadSpec.of("hotspot", jitter_ns=1000), 10**9, 5)
for table in flow_tables(make_schedule(flows, graph, route(graph, 5), "nv", 5)):
    print(len(table.records), table.bytes().hex())
"""


def test_bytes_do_not_depend_on_the_process():
    texts = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        texts.add(subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True).stdout)
    assert len(texts) == 1 and texts.pop().splitlines()[1].startswith(b"16 ")
