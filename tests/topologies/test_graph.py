# SPDX-License-Identifier: Apache-2.0
"""The graph: what it refuses, what it answers, and that JSON loses nothing."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import pytest

from dc_gym.base.errors import TopologyError
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Cable, Graph, Host, Impairment, Marking, Port, Queue, Switch
from dc_gym.topologies.topology_spec import TopologySpec
from dc_gym.topologies.wiring import Wiring

QUEUE = Queue(100_000)
RED = Marking(
    "iroko-thesis",
    min_bytes=3000,
    max_bytes=25_000,
    limit_bytes=100_000,
    avpkt_bytes=1500,
    burst_packets=6,
    probability_ppm=100_000,
    bandwidth_bps=10**7,
)


def port(ifname, queue=QUEUE):
    return Port(ifname.partition("-")[0], ifname, queue)


def cable(a, b, rate_bps=10**9, delay_ns=1000):
    return Cable(port(a), port(b), rate_bps, delay_ns)


def host(number):
    return Host(f"h{number}", f"10.0.0.{number}", f"02:00:00:00:00:{number:02x}")


HOSTS = (host(1), host(2))
SWITCHES = (Switch("s1", "edge"), Switch("s2", "core"))
CABLES = (cable("h1-eth0", "s1-eth1"), cable("h2-eth0", "s2-eth1"), cable("s1-eth2", "s2-eth2", 10**8))
GRAPH = Graph(HOSTS, SWITCHES, CABLES)


def test_queries():
    assert [port.ifname for port in GRAPH.ports()] == ["s1-eth1", "s1-eth2", "s2-eth1", "s2-eth2", "h1-eth0", "h2-eth0"]
    assert GRAPH.switch_ports() == GRAPH.ports()[:4]
    assert GRAPH.neighbours("s1") == ("h1", "s2") and GRAPH.neighbours("h2") == ("s2",)
    assert GRAPH.host("h2") is HOSTS[1] and GRAPH.switch("s2").layer == "core"
    assert GRAPH.cable_of("s2-eth2") is GRAPH.cable_of(GRAPH.port("s1-eth2")) is CABLES[2]
    assert GRAPH.peer("s1-eth2").ifname == "s2-eth2" and GRAPH.peer("s2-eth2").ifname == "s1-eth2"
    assert GRAPH.port("s2-eth2").number == 2


def test_ports_are_ordered_by_number_not_by_text():
    builder = Builder(Wiring(TopologySpec.of(rate_bps=10**9, delay_ns=0, buffer_bytes=100_000)))
    switch = builder.switch("edge")
    for _ in range(11):
        builder.connect(builder.host(), switch)
    assert [port.number for port in builder.graph().ports_of("s1")] == list(range(1, 12))


@pytest.mark.parametrize("query", ["host", "switch", "neighbours", "ports_of", "cable_of", "port", "peer"])
def test_unknown_names_are_errors(query):
    with pytest.raises(TopologyError, match=r"'x9'.*one of: "):
        getattr(GRAPH, query)("x9")


def test_unimpaired():
    bad = replace(GRAPH, cables=(replace(CABLES[0], impairment=Impairment(loss_ppb=1, jitter_ns=2)), *CABLES[1:]))
    assert bad != GRAPH and bad.unimpaired() == GRAPH
    assert Graph.from_json(json.loads(json.dumps(bad.to_json()))) == bad


def test_frozen():
    with pytest.raises(FrozenInstanceError):
        GRAPH.hosts = ()
    assert hash(GRAPH) == hash(Graph(HOSTS, SWITCHES, CABLES))


BUCKET = Queue(100_000, "tbf", rate_bps=10**7, burst_bytes=1513)
BAD_GRAPHS = {
    "empty": ((), (), ()),
    "host twice": ((host(1), host(1)), SWITCHES, CABLES),
    "host named as a switch": ((host(1), replace(host(2), name="s1")), SWITCHES, CABLES),
    "address twice": ((host(1), replace(host(2), address="10.0.0.1")), SWITCHES, CABLES),
    "mac twice": ((host(1), replace(host(2), mac=host(1).mac)), SWITCHES, CABLES),
    "port on two cables": (HOSTS, SWITCHES, (*CABLES[:2], cable("s1-eth1", "s2-eth2"))),
    "cable to an unknown node": (HOSTS, SWITCHES, (*CABLES, cable("s1-eth3", "s9-eth1"))),
    "host without a cable": ((*HOSTS, host(3)), SWITCHES, CABLES),
    "host with two cables": (HOSTS, SWITCHES, (*CABLES, cable("h1-eth1", "s2-eth3"))),
    "hosts joined directly": (HOSTS, (), (cable("h1-eth0", "h2-eth0"),)),
    "switch without a cable": (HOSTS, (*SWITCHES, Switch("s3", "core")), CABLES),
    "two parts": (HOSTS, SWITCHES, CABLES[:2]),
    "queue below a frame": (HOSTS, SWITCHES, (replace(CABLES[0], a=port("h1-eth0", Queue(1513))), *CABLES[1:])),
    "bucket below a frame": (HOSTS, SWITCHES, (replace(CABLES[0], a=port("h1-eth0", BUCKET)), *CABLES[1:])),
    "marking at a host": (HOSTS, SWITCHES, (replace(CABLES[0], a=port("h1-eth0", Queue(100_000, "red", RED))), *CABLES[1:])),
}


@pytest.mark.parametrize("parts", BAD_GRAPHS.values(), ids=BAD_GRAPHS.keys())
def test_bad_graphs(parts):
    with pytest.raises(TopologyError) as excinfo:
        Graph(*parts)
    assert "\n" not in str(excinfo.value)


BAD_PARTS = {
    "host name": lambda: Host("h-1", "10.0.0.1", "02:00:00:00:00:01"),
    "host path": lambda: Host("../h1", "10.0.0.1", "02:00:00:00:00:01"),
    "address": lambda: Host("h1", "10.0.0.256", "02:00:00:00:00:01"),
    "multicast mac": lambda: Host("h1", "10.0.0.1", "03:00:00:00:00:01"),
    "layer": lambda: Switch("s1", "spine"),
    "ifname of another node": lambda: Port("s1", "s2-eth1", QUEUE),
    "ifname with leading zero": lambda: Port("s1", "s1-eth01", QUEUE),
    "ifname of 16 characters": lambda: Port("s123456789", "s123456789-eth10", QUEUE),
    "rate 0": lambda: cable("h1-eth0", "s1-eth1", 0),
    "rate below 0": lambda: cable("h1-eth0", "s1-eth1", -1),
    "delay below 0": lambda: cable("h1-eth0", "s1-eth1", 1, -1),
    "rate above the driver's": lambda: cable("h1-eth0", "s1-eth1", 10**13 + 1),
    "delay above the driver's": lambda: cable("h1-eth0", "s1-eth1", 1, 10**10 + 1),
    "loss above all": lambda: Impairment(loss_ppb=10**9 + 1),
    "loss below none": lambda: Impairment(loss_ppb=-1),
    "jitter above the driver's": lambda: Impairment(jitter_ns=10**10 + 1),
    "reordering by nothing": lambda: Impairment(reorder_ppb=1),
    "a delay for none": lambda: Impairment(reorder_delay_ns=1),
    "slope without a probability": lambda: Marking("red-instant", min_bytes=1, max_bytes=2),
    "slope that falls": lambda: Marking("red-instant", min_bytes=2, max_bytes=2, probability_ppm=1),
    "slope above the buffer": lambda: Queue(2000, "red", Marking("red-instant", min_bytes=1, max_bytes=2001, probability_ppm=1)),
    "cable to itself": lambda: cable("s1-eth1", "s1-eth2"),
    "queue below the least frame": lambda: Queue(589),
    "queue above 31 bits": lambda: Queue(2**31),
    "queue kind": lambda: Queue(100_000, "pfifo"),
    "red without marking": lambda: Queue(100_000, "red"),
    "bfifo with marking": lambda: Queue(100_000, "bfifo", Marking("step", k_bytes=3028)),
    "K not below the buffer": lambda: Queue(100_000, "red", Marking("step", k_bytes=100_000)),
    "RED's limit is not the queue's": lambda: Queue(200_000, "red", RED),
    "marking kind": lambda: Marking("codel"),
    "step without K": lambda: Marking("step"),
    "step with RED's parameters": lambda: Marking("step", k_bytes=3028, min_bytes=1),
    "none with K": lambda: Marking("none", k_bytes=3028),
    "RED min above max": lambda: replace(RED, min_bytes=25_000),
    "RED max above limit": lambda: replace(RED, max_bytes=100_001),
    "RED probability above 1": lambda: replace(RED, probability_ppm=1_000_001),
    "RED without burst": lambda: replace(RED, burst_packets=0),
}


@pytest.mark.parametrize("make", BAD_PARTS.values(), ids=BAD_PARTS.keys())
def test_bad_parts(make):
    with pytest.raises(TopologyError) as excinfo:
        make()
    assert "\n" not in str(excinfo.value)


def test_a_name_of_15_characters_is_long_enough():
    assert Port("s12345678", "s12345678-eth10", QUEUE).number == 10


def test_json_round_trip():
    graph = Graph(HOSTS, SWITCHES, (*CABLES[:2], Cable(port("s1-eth2", Queue(100_000, "red", RED)), port("s2-eth2"), 10**8, 0)))
    plain = json.loads(json.dumps(graph.to_json()))
    assert set(plain) == {"hosts", "switches", "cables"}
    again = Graph.from_json(plain)
    assert again == graph and again.port("s1-eth2").queue.marking == RED and again.ports() == graph.ports()


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("cables", 0, "rate_bps"), 1e9, r"graph\.cables\[0\]\.rate_bps"),
        (("cables", 0, "delay_ns"), True, r"graph\.cables\[0\]\.delay_ns"),
        (("hosts", 1, "mtu"), 1500, r"graph\.hosts\[1\].*keys"),
        (("hosts",), {}, r"graph\.hosts.*list"),
        (("switches", 0, "layer"), "spine", "layer"),
    ],
)
def test_json_is_checked(keys, value, message):
    plain = GRAPH.to_json()
    *way, last = keys
    inner = plain
    for step in way:
        inner = inner[step]
    inner[last] = value
    with pytest.raises(TopologyError, match=message):
        Graph.from_json(plain)


def test_addresses_avoid_0_and_255_and_stay_unique():
    builder = Builder(Wiring(TopologySpec.of(rate_bps=10**9, delay_ns=0, buffer_bytes=100_000)))
    switch = builder.switch("edge")
    for _ in range(600):
        builder.connect(builder.host(), switch)
    hosts = builder.graph().hosts
    assert (hosts[0].address, hosts[249].address, hosts[250].address) == ("10.0.0.1", "10.0.0.250", "10.0.1.1")
    assert hosts[599].mac == "02:00:00:00:02:58"
    assert {host.address.rpartition(".")[2] for host in hosts} == {str(number) for number in range(1, 251)}
