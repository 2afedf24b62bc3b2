# SPDX-License-Identifier: Apache-2.0
"""Routing: every pair of every registered topology and preset is joined, by shortest paths, spread evenly, by seed."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, deque
from dataclasses import replace
from ipaddress import IPv4Address
from itertools import permutations
from math import sqrt
from pathlib import Path

import pytest

from dc_gym.base.errors import TopologyError
from dc_gym.base.splitmix import splitmix64
from dc_gym.topologies import buckets
from dc_gym.topologies.buckets import Buckets
from dc_gym.topologies.ecmp import (
    Groups,
    Hashed,
    Packet,
    Router,
    choice,
    draw,
    group_seed,
    hops_of,
    path,
    route,
    rules,
    tuple_hash,
)
from dc_gym.topologies.graph import Cable, Graph, Host, Port, Queue, Switch
from dc_gym.topologies.presets import PRESETS, TOPOLOGIES, TopologySpec, build

QUEUE = Queue(100_000)
SMALL = {"hosts": 3, "pairs": 2, "k": 4, "hops": 2, "leaves": 3, "hosts_per_leaf": 2, "spines": 2}
FILES = {"mininet": "two_racks.py", "file": "clos.topo"}


def registered(kind):
    shape = {name: SMALL[name] for name in TOPOLOGIES[kind].needs() if name != "file"}
    if kind in FILES:
        shape["file"] = Path(__file__).parents[2] / "examples" / FILES[kind]
    return build(TopologySpec.of(kind=kind, rate_bps=10**9, delay_ns=1000, buffer_bytes=10**6, **shape))


def wire(hosts, links):
    """Returns a graph with host i on switch hosts[i], and links between switches."""
    ports = Counter()

    def port(node):
        number = ports[node] + (node[0] == "s")
        ports[node] += 1
        return Port(node, f"{node}-eth{number}", QUEUE)

    ends = [(f"h{number}", switch) for number, switch in enumerate(hosts, 1)] + links
    switches = sorted({node for pair in ends for node in pair if node[0] == "s"}, key=lambda name: int(name[1:]))
    return Graph(
        tuple(Host(f"h{number}", f"10.0.0.{number}", f"02:00:00:00:00:{number:02x}") for number in range(1, len(hosts) + 1)),
        tuple(Switch(name, "edge") for name in switches),
        tuple(Cable(port(a), port(b), 10**9, 0) for a, b in ends),
    )


GRAPHS = {
    **{f"preset {name}": build(TopologySpec.of(preset=name)) for name in PRESETS},
    **{f"kind {name}": registered(name) for name in TOPOLOGIES},
    "ring of 4": wire(["s1", "s2", "s3", "s4"], [("s1", "s2"), ("s2", "s3"), ("s3", "s4"), ("s4", "s1")]),
    "3 parallel links": wire(["s1", "s1", "s2", "s2"], [("s1", "s2")] * 3),
    "two different sets of next hops": wire(["s1", "s2", "s3", "s2"], [("s1", "s2")] * 2 + [("s1", "s3")] * 3),
}


def hops(graph, src, dst):
    """Returns the number of cables between two hosts, computed independently of the router."""
    distance, todo = {src: 0}, deque([src])
    while todo:
        node = todo.popleft()
        for neighbour in graph.neighbours(node):
            if neighbour not in distance:
                distance[neighbour] = distance[node] + 1
                todo.append(neighbour)
    return distance[dst]


@pytest.mark.parametrize("proto", ["tcp", "udp", "icmp"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_every_pair_is_reached_on_a_shortest_path(graph, proto):
    router, ports = route(graph, seed=1), random.Random(1)
    pairs = list(permutations([host.name for host in graph.hosts], 2))
    for src, dst in pairs if len(pairs) <= 300 else ports.sample(pairs, 300):
        crossed = path(graph, router, src, dst, ports.randrange(65536), ports.randrange(65536), proto)
        nodes = [graph.port(ifname).node for ifname in crossed]
        assert nodes[0] == src and len(set(nodes)) == len(nodes)
        assert [graph.peer(ifname).node for ifname in crossed] == [*nodes[1:], dst]
        assert len(crossed) == hops(graph, src, dst)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_rules_name_ports_that_exist_and_are_unambiguous(graph):
    router = route(graph, seed=1)
    groups = Groups(hops_of(router), 1)
    members = {(group.switch, group.number): group.members for group in groups}
    ends = {(switch.name, port.number) for switch in graph.switches for port in graph.ports_of(switch.name)}
    assert {(switch, number) for (switch, _), numbers in members.items() for number in numbers} <= ends
    assert members.keys().isdisjoint(ends) and len({group.ifname for group in groups}) == len(members)
    table_rules = list(rules(router, groups))
    assert all((rule.switch, rule.out_port) in members.keys() | ends for rule in table_rules)
    assert len({(rule.switch, rule.destination) for rule in table_rules}) == len(table_rules)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_every_packet_to_every_address_comes_nearer_at_every_switch(graph):
    """All pairs, all headers, all planes, without sampling: so nothing loops, and nothing is lost."""
    router = route(graph, seed=1)
    access = {
        nic.address: graph.peer(port)
        for host in graph.hosts
        for port, nic in zip(graph.ports_of(host.name), host.nics, strict=True)
    }
    hosts, far = {host.name for host in graph.hosts}, {}
    for target in {port.node for port in access.values()}:
        far[target], todo = {target: 0}, deque([target])
        while todo:
            node = todo.popleft()
            for neighbour in graph.neighbours(node):
                if neighbour not in hosts and neighbour not in far[target]:
                    far[target][neighbour] = far[target][node] + 1
                    todo.append(neighbour)
    for address, port in access.items():
        distance = far[port.node]
        assert set(router.hops[port.node][address]) == {port.number}
        for switch in distance.keys() - {port.node}:
            nearer = {p.number for p in graph.ports_of(switch) if distance.get(graph.peer(p).node, 99) < distance[switch]}
            assert set(router.hops[switch][address]) == nearer  # and all of them are used


def test_parallel_links_of_a_spine_are_spread_in_every_direction():
    graph, ports = GRAPHS["preset rlcc64"], random.Random(5)
    router, up, down = route(graph, 1), Counter(), Counter()
    for _ in range(4000):
        crossed = path(graph, router, "h1", f"h{ports.randrange(33, 49)}", ports.randrange(65536), ports.randrange(65536))
        up[crossed[1]] += 1
        down[crossed[2]] += 1
    assert len(up) == 8 and len(down) == 8  # 2 spines x 4 links, twice
    assert chi_square(up, 8) < 29.9 and chi_square(down, 8) < 29.9  # 7 degrees of freedom, 1 in 10,000


def test_planes_do_not_mix():
    graph, ports = GRAPHS["preset acc24"], random.Random(6)
    router = route(graph, 1)
    for plane in (0, 1):
        for _ in range(300):
            src, dst = ports.sample([host.name for host in graph.hosts], 2)
            crossed = path(graph, router, src, dst, ports.randrange(65536), ports.randrange(65536), plane=plane)
            assert crossed[0] == f"{src}-eth{plane}" and graph.peer(crossed[-1]).ifname == f"{dst}-eth{plane}"
            leaves = {graph.port(ifname).node for ifname in crossed} & {"s1", "s2", "s3", "s4"}
            assert leaves <= {"s1", "s3"} if plane == 0 else leaves <= {"s2", "s4"}
    with pytest.raises(TopologyError, match="not both in plane 2"):
        path(graph, router, "h1", "h2", 1, 1, plane=2)


def masked(text, pattern, value):
    number, _, mask = pattern.partition("/")
    read = (lambda word: int(IPv4Address(word))) if "." in number else (lambda word: int(word, 0))
    return read(value) & (read(mask) if mask else -1) == read(number)


def as_switch(lines, header):
    """Returns the action of a switch by the text of its rules: the match of highest priority decides. Independent of Router."""
    candidates = []
    for line in lines:
        match, _, actions = line.partition(",actions=")
        words = dict(word.partition("=")[::2] for word in match.split(","))
        if words.get("table", "0") != header.get("table", "0"):
            continue
        fits = (words.keys() & {"tcp", "udp", "icmp"}) <= {header["proto"]}
        fits = fits and all(masked(key, value, header[key]) for key, value in words.items() if key in header and key != "proto")
        if fits:
            candidates.append((int(words["priority"]), actions))
    best = max(candidates)
    assert [priority for priority, _ in candidates].count(best[0]) == 1
    if best[1].startswith("output:"):
        return int(best[1].removeprefix("output:"))
    group = re.fullmatch(r"write_metadata:(0x[0-9a-f]+),goto_table:1", best[1])
    return as_switch(lines, header | {"table": "1", "metadata": group[1]})


@pytest.mark.parametrize("spread", [Hashed, Buckets])
@pytest.mark.parametrize("name", ["preset fattree-k4", "preset rlcc64", "two different sets of next hops", "3 parallel links"])
def test_the_text_of_the_rules_leads_where_path_says(name, spread):
    graph, ports = GRAPHS[name], random.Random(2)
    router, names = route(graph, seed=3, spread=spread), [host.name for host in graph.hosts]
    groups = Groups(hops_of(router) if spread is Hashed else (), 3)
    lines = buckets.flows(router) if spread is Buckets else {switch.name: [] for switch in graph.switches}
    for rule in rules(router, groups) if spread is Hashed else ():
        lines[rule.switch].append(rule.flow())
    members = {(group.switch, group.number): group for group in groups}
    for _ in range(60):
        src, dst = ports.sample(names, 2)
        proto, tp_src, tp_dst = ports.choice(["tcp", "udp", "icmp"]), ports.randrange(65536), ports.randrange(65536)
        packet = Packet(proto, graph.host(src).address, graph.host(dst).address, tp_src, tp_dst)
        header = {"proto": proto, "nw_src": packet.source, "nw_dst": packet.destination}
        header |= {"tp_src": str(tp_src), "tp_dst": str(tp_dst)}
        for ifname in path(graph, router, src, dst, tp_src, tp_dst, proto)[1:]:
            port = graph.port(ifname)
            number = as_switch(lines[port.node], header)
            if group := members.get((port.node, number)):
                number = group.members[choice(tuple_hash(group.seed, packet), len(group.members))]
            assert number == port.number


def test_number_of_rules_in_a_fattree():
    router = route(GRAPHS["preset fattree-k4"], seed=1)
    groups = Groups(hops_of(router), 1)
    assert Counter(rule.switch for rule in rules(router, groups)) == {f"s{number}": 16 for number in range(1, 21)}
    assert Counter(group.switch for group in groups) == {f"s{number}": 1 for number in range(1, 17)}  # a core has one way to each
    sizes = {switch: len(lines) for switch, lines in buckets.flows(route(GRAPHS["preset fattree-k4"], 1, spread=Buckets)).items()}
    by_ports = 256 + 256 + 16
    assert {sizes[f"s{number}"] for number in range(1, 9)} == {2 + by_ports}  # edge: its two hosts
    assert {sizes[f"s{number}"] for number in range(9, 17)} == {4 + by_ports}  # aggregation: its pod
    assert {sizes[f"s{number}"] for number in range(17, 21)} == {16}  # core: all hosts


def test_tables_of_buckets_are_balanced_in_every_row_and_column():
    for switch, lines in buckets.flows(route(GRAPHS["preset fattree-k4"], seed=7, spread=Buckets)).items():
        matches = [re.search(r"tcp,tp_src=(\w+)/0xf,tp_dst=(\w+)/0xf,actions=output:(\d+)", line) for line in lines]
        for side in (1, 2):
            split = Counter((match[side], match[3]) for match in matches if match)
            assert set(split.values()) == ({8} if int(switch[1:]) <= 16 else set())


SETS = {
    "even ports": lambda number: ("10.0.0.2", 32768 + 2 * number, 80),
    "multiples of 16": lambda number: ("10.0.0.2", 32768 + 16 * number % 32768, 16 * (number // 2048)),
    "one destination port": lambda number: ("10.0.0.2", 20000 + number, 5001),
    "one pair of ports": lambda number: (f"10.0.{number // 250}.{number % 250 + 2}", 5001, 5001),
}


@pytest.mark.parametrize("ends", SETS.values(), ids=SETS.keys())
@pytest.mark.parametrize("members", [2, 4, 24])
def test_a_hash_spreads_flows_as_independent_draws_would(members, ends):
    """Over 200 seeds the sum of chi-square has the mean and the deviation of 200 x (members - 1) degrees of freedom."""
    packets = [Packet("tcp", "10.0.0.1", *ends(number)) for number in range(64 * members)]
    freedom, total = 200 * (members - 1), 0.0
    for seed in range(200):
        chosen = Counter(choice(tuple_hash(group_seed(seed, "s1"), packet), members) for packet in packets)
        total += chi_square(chosen, members)
    assert abs(total - freedom) < 4 * sqrt(2 * freedom)


def test_two_layers_choose_independently():
    """A switch's choice tells nothing about the next one's: all ways through two layers are equally likely."""
    packets = [Packet("tcp", "10.0.0.1", "10.0.0.2", 20000 + 2 * number, 80) for number in range(4000)]
    ways = Counter(tuple(choice(tuple_hash(group_seed(1, switch), packet), 4) for switch in ("s1", "s9")) for packet in packets)
    assert chi_square(ways, 16) < 44.3  # 15 degrees of freedom, 1 in 10,000


def chi_square(counts, cells):
    mean = sum(counts.values()) / cells
    return sum((counts[cell] - mean) ** 2 / mean for cell in counts) + (cells - len(counts)) * mean


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_flows_take_every_uplink_equally_often(seed):
    """An uplink gets a binomial share (p = 1/2) of an edge switch's 2000 flows: four standard deviations bound it."""
    graph, ports, flows = GRAPHS["preset fattree-k4"], random.Random(seed), 4000
    router, uplinks, cores = route(graph, seed), Counter(), Counter()
    for number in range(flows):
        src = number % 4 + 1  # the first pod to the last
        dst, tp_src, tp_dst = ports.randrange(13, 17), ports.randrange(1024, 65536), ports.randrange(1024, 65536)
        crossed = path(graph, router, f"h{src}", f"h{dst}", tp_src, tp_dst)
        uplinks[crossed[1]] += 1
        cores[graph.port(crossed[3]).node] += 1
    assert set(uplinks) == {"s1-eth3", "s1-eth4", "s2-eth3", "s2-eth4"} and set(cores) == {"s17", "s18", "s19", "s20"}
    for count in uplinks.values():
        assert abs(count - flows / 4) < 4 * sqrt(flows / 2 * 0.25)
    assert chi_square(cores, 4) < 21.1  # 3 degrees of freedom, 1 in 10,000


def test_seeds():
    graph = GRAPHS["preset fattree-k4"]
    ways = [path(graph, route(graph, seed), "h1", "h16", 20000, 5001) for seed in (*range(20), *range(20))]
    assert ways[:20] == ways[20:] and len(set(map(tuple, ways))) == 4


def test_single_routing_has_one_path_and_uses_every_link():
    """The path does not depend on ports or seed; an edge's uplinks lead to equally many hosts each, and so do the cores."""
    graph = GRAPHS["preset fattree-k4"]
    router, uplinks, cores = route(graph, 1, "single"), Counter(), Counter()
    assert router.hops == route(graph, 2, "single").hops and not [*Groups(hops_of(router), 1)]
    for dst in range(5, 17):
        crossed = path(graph, router, "h1", f"h{dst}", 1, 2)
        assert crossed == path(graph, router, "h1", f"h{dst}", 50_001, 77)
        uplinks[crossed[1]] += 1
        cores[graph.peer(crossed[2]).node] += 1
    assert set(uplinks.values()) == {6} and len(uplinks) == 2
    assert set(cores.values()) == {3} and len(cores) == 4


def test_paths_never_change_between_versions():
    """Pinned: a change of this digest changes the paths, and so the results, of every fat-tree run."""
    graph, ports = GRAPHS["preset fattree-k4"], random.Random(1)
    router, names = route(graph, seed=1), [host.name for host in graph.hosts]
    ends = [(*ports.sample(names, 2), ports.randrange(65536), ports.randrange(65536)) for _ in range(500)]
    text = "\n".join(" ".join(path(graph, router, *flow_ends)) for flow_ends in ends)
    assert hashlib.sha256(text.encode()).hexdigest() == "593d70ca1e2b10cadb4dedf5ec1c3f54690e2bdea99b495194016558a267a41d"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_hash_of_a_tuple(seed):
    """The two words of a 5-tuple, written out, one after the other through splitmix64. Other protocols have no ports."""
    packet = Packet("udp", "10.0.0.1", "10.1.2.3", 4791, 65535)
    ends = splitmix64(seed, 0x0A0000010A010203)
    assert tuple_hash(seed, packet) == splitmix64(ends, 4791 << 24 | 65535 << 8 | 17)
    assert tuple_hash(seed, replace(packet, protocol="icmp")) == splitmix64(ends, 1)


def test_draw():
    assert draw(1, "a", 2) == draw(1, "a", 2) < 2**64
    assert len({draw(seed, label) for seed in range(10) for label in "abc"}) == 30


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda graph: path(graph, route(graph, 1), "h1", "h1", 1, 1), "both 'h1'"),
        (lambda graph: path(graph, route(graph, 1), "h1", "h99", 1, 1), "'h99'"),
        (lambda graph: path(graph, Router({}, Hashed(1)), "h1", "h2", 1, 1), "no rule for 10.0.0.2"),
        (lambda graph: buckets.flows(route(graph, 1)), "route with spread=Buckets"),
    ],
)
def test_refused(call, message):
    with pytest.raises(TopologyError, match=message):
        call(GRAPHS["preset fattree-k4"])


def test_a_loop_is_an_error():
    graph = GRAPHS["preset dumbbell-10m"]
    to_middle = Router({switch: {"10.0.0.3": (3,)} for switch in ("s1", "s2")}, Hashed(1))
    with pytest.raises(TopologyError, match="loops"):
        path(graph, to_middle, "h1", "h3", 1, 1)


@pytest.mark.parametrize(("spread", "most"), [(Hashed, 256), (Buckets, 16)])
def test_too_many_next_hops(spread, most):
    route(wire(["s1", "s2"], [("s1", "s2")] * most), 1, spread=spread)
    with pytest.raises(TopologyError, match=f"value {most + 1} is above {most}"):
        route(wire(["s1", "s2"], [("s1", "s2")] * (most + 1)), 1, spread=spread)
