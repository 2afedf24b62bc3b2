# SPDX-License-Identifier: Apache-2.0
"""Mininet's Topo as a graph: all of its settings are kept or refused, none is ignored."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dc_gym import spec
from dc_gym.base.amount import Amount
from dc_gym.base.errors import SpecError, TopologyError
from dc_gym.topologies.ecmp import path, route
from dc_gym.topologies.presets import TopologySpec, build

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_racks.py"
LINKS = {"rate_bps": 10**9, "delay_ns": 1000, "buffer_bytes": 10**6}
HEAD = "from mininet.topo import Topo\nfrom mininet.link import TCLink\nclass Mine(Topo):\n    def build(self, **args):\n"


def made(folder, *lines, head=HEAD, **keys):
    file = folder / "my.py"
    file.write_text(head + "".join(f"        {line}\n" for line in lines))
    ecn = keys.pop("ecn", False)
    return build(TopologySpec.of(kind="mininet", file=file, **LINKS | keys), ecn)


PAIR = ("self.addHost('h1'); self.addHost('h2'); self.addSwitch('s1')", "self.addLink('h2', 's1')")


def test_the_example():
    graph = build(TopologySpec.of(kind="mininet", file=EXAMPLE, args=(("hosts", 3),), **LINKS))
    assert [host.address for host in graph.hosts] == [f"10.0.0.{number}" for number in range(1, 7)]
    assert graph.neighbours("s1") == ("h1", "h2", "h3", "s2")
    middle = graph.cable_of("s1-eth4")
    assert (middle.rate_bps, middle.delay_ns, middle.a.queue.limit_bytes) == (10**8, 50_000, 200 * 1514)
    assert (graph.cable_of("h1-eth0").rate_bps, graph.port("s1-eth1").queue.limit_bytes) == (10**9, 10**6)


def test_options_of_links(tmp_path):
    options = "bw=2.5, delay='1.5ms', jitter='10us', loss=0.1, max_queue_size=50, cls=TCLink, use_htb=None"
    graph = made(tmp_path, *PAIR, f"self.addLink('h1', 's1', {options})")
    link = graph.cable_of("h1-eth0")
    assert (link.rate_bps, link.delay_ns) == (2_500_000, 1_500_000)
    assert (link.impairment.jitter_ns, link.impairment.loss_ppb) == (10_000, 1_000_000)
    assert (link.a.queue.limit_bytes, link.b.queue.limit_bytes) == (50 * 1514, 50 * 1514)
    assert graph.cable_of("h2-eth0").delay_ns == 1000  # the spec's


def test_what_asks_for_a_cable_is_accepted(tmp_path):
    head = "from mininet.link import Link, TCULink\nfrom mininet.node import Host, OVSBridge, OVSKernelSwitch\n" + HEAD
    graph = made(
        tmp_path,
        "self.addHost('h1', cls=Host); self.addSwitch('s1', cls=OVSKernelSwitch); self.addSwitch('s2', cls=OVSBridge)",
        "self.addLink('h1', 's1', bw=10, use_htb=True); self.addLink('s1', 's2', cls=TCULink, bw=5, use_tbf=True)",
        "self.addLink('s2', self.addHost('h2'), cls=Link)",
        head=head,
    )
    assert [cable.rate_bps for cable in graph.cables] == [10**7, 5 * 10**6, 10**9]


@pytest.mark.parametrize(("depth", "layers"), [
    (1, ["edge", "edge"]),
    (2, ["core", "edge", "edge"]),
    (3, ["core", "agg", "agg", "edge", "edge"]),
    (4, ["core", "core", "core", "agg", "agg", "edge", "edge"]),
])  # fmt: skip
def test_layers_follow_from_the_distance_to_the_hosts(tmp_path, depth, layers):
    """Two chains of switches, which meet in one at the top, if there is more than the edge."""
    tops = "for side in 'ab': self.addLink(f's{side}1', self.addHost(f'h{side}'))"
    chain = f"for side in 'ab': [self.addLink(f's{{side}}{{n}}', f's{{side}}{{n + 1}}') for n in range(1, {max(1, depth - 1)})]"
    switches = f"[self.addSwitch(f's{{side}}{{n}}') for n in range({max(1, depth - 1)}, 0, -1) for side in 'ab']"
    top = "self.addLink('sa1', 'sb1')" if depth == 1 else (
        f"top = self.addSwitch('top'); [self.addLink(top, f's{{side}}{depth - 1}') for side in 'ab']"
    )  # fmt: skip
    graph = made(tmp_path, switches, tops, chain, top)
    layer_by_name = {switch.name: switch.layer for switch in graph.switches}
    assert [
        layer_by_name[name]
        for name in (["top"] if depth > 1 else []) + [f"s{side}{n}" for n in range(max(1, depth - 1), 0, -1) for side in "ab"]
    ] == layers


def test_a_file_is_a_spec_by_itself(tmp_path):
    links = "self.addLink(self.addHost('h1'), self.addSwitch('s1'), bw=10, delay='5ms'); self.addLink('s1', self.addHost('h2'))"
    (tmp_path / "mine.py").write_text(f"{HEAD}        {links}\n")
    mininet_spec = spec.load(tmp_path / "mine.py", ["topology.rate=20Mbit/s", "time.duration=2s"])
    first, second = mininet_spec.graph().cables
    assert (mininet_spec.name, mininet_spec.controller.name, mininet_spec.workload.kind) == ("mine", "cubic", "pairs")
    assert (first.rate_bps, first.delay_ns, second.rate_bps, second.delay_ns) == (10**7, 5_000_000, 2 * 10**7, 0)
    assert second.a.queue.limit_bytes == 1000 * 1514, "as Mininet's"
    assert spec.from_dict(mininet_spec.to_dict(), tmp_path) == mininet_spec
    with pytest.raises(SpecError, match=r"none\.py: cannot read it|none\.py.*no such file"):
        spec.load(tmp_path / "none.py")


def test_names_ports_and_addresses_are_kept(tmp_path):
    lines = (
        "self.addHost('Left', ip='10.3.0.1/8', mac='02:00:00:00:00:aa'); self.addHost('right')",
        "self.addSwitch('rackOne'); self.addSwitch('top')",
        "self.addLink('Left', 'rackOne', port2=7); self.addLink('rackOne', 'top'); self.addLink('top', 'right')",
    )
    graph = made(tmp_path, *lines)
    assert (graph.host("Left").address, graph.host("Left").mac) == ("10.3.0.1", "02:00:00:00:00:aa")
    assert graph.host("right").address == "10.0.0.2" and graph.peer("Left-eth0").ifname == "rackOne-eth7"
    assert {switch.name: switch.layer for switch in graph.switches} == {"rackOne": "edge", "top": "edge"}
    assert path(graph, route(graph, 1), "Left", "right", 1, 1) == ["Left-eth0", "rackOne-eth2", "top-eth2"]


def test_a_switch_without_hosts_is_a_core_and_a_host_with_two_links_has_two_planes(tmp_path):
    lines = (
        "for name in ('h1', 'h2'): self.addHost(name)",
        "for name in ('s1', 's2', 's3'): self.addSwitch(name)",
        "for host in ('h1', 'h2'):",
        "    for switch in ('s1', 's2'): self.addLink(host, switch)",
        "for switch in ('s1', 's2'): self.addLink(switch, 's3')",
    )
    graph = made(tmp_path, *lines)
    assert [switch.layer for switch in graph.switches] == ["edge", "edge", "core"]
    assert [len(host.nics) for host in graph.hosts] == [2, 2]
    assert path(graph, route(graph, 1), "h1", "h2", 1, 1, plane=1) == ["h1-eth1", "s2-eth2"]


BAD = {
    "an unknown option": (("self.addLink('h1', 's1', bandwidth=5)",), "link h1-s1: option bandwidth = 5 is not supported"),
    "a queue": (("self.addLink('h1', 's1', enable_red=True)",), "option enable_red = True is not supported"),
    "a class of switch": (("self.addSwitch('s9', cls=str)",), "cls <class 'str'> is not supported; here it is what OVSSwitch is"),
    "a class of host": (("self.addHost('h9', cls=str)",), "cls <class 'str'> is not supported; here it is what Host is"),
    "marking": (("self.addLink('h1', 's1', bw=5, enable_ecn=True)",), "queues and marking are keys of [topology]"),
    "one direction": (("self.addLink('h1', 's1', params1={'bw': 5})",), "option params1"),
    "a class of link": (("self.addLink('h1', 's1', cls=str)",), "cls <class 'str'> is not supported"),
    "bw of 0": (("self.addLink('h1', 's1', bw=0)",), "bw 0 is not a number above 0"),
    "a delay without a unit": (("self.addLink('h1', 's1', delay='5')",), "delay '5' is not a time with a unit"),
    "a loss above all": (("self.addLink('h1', 's1', loss=101)",), "loss_ppb of a link: value 1010000000"),
    "two hosts joined": (("self.addLink('h1', 's1'); self.addLink('h1', 'h2')",), "is a host; put a switch between them"),
    "an option of a host": (("self.addHost('h3', cpu=.5)",), "host h3: option cpu = 0.5 is not supported"),
    "an address elsewhere": (("self.addHost('h3', ip='192.168.0.1')",), "host h3: ip '192.168.0.1' is not in 10.0.0.0/8"),
    "an option of a switch": (("self.addSwitch('s2', dpid='1')",), "switch s2: option dpid = '1' is not supported"),
    "a name": (
        ("self.addSwitch('s-2'); self.addLink('s1', 's-2'); self.addLink('h1', 's1')",),
        "'s-2' is not a letter followed by",
    ),
    "not connected": (("self.addSwitch('s2'); self.addLink('h1', 's2')",), "cannot be reached from"),
    "a host without a link": ((), "cables of host h1"),
}


@pytest.mark.parametrize(("lines", "words"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_honoured_is_refused(tmp_path, lines, words):
    with pytest.raises(TopologyError) as excinfo:
        made(tmp_path, *PAIR, *lines)
    assert words in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_mistakes_in_the_file_have_its_line(tmp_path):
    with pytest.raises(SpecError, match=r"my.py:6: NameError: name 'nothing' is not defined"):
        made(tmp_path, "self.addHost('h1')", "nothing()")
    with pytest.raises(SpecError, match=r"my.py:5: KeyError: 'depth'"):
        made(tmp_path, "args['depth']")
    with pytest.raises(SpecError, match=r"my.py:5: Exception"):
        made(tmp_path, "raise Exception")


def test_which_class(tmp_path):
    two = HEAD.replace("Mine", "One") + "        pass\n" + HEAD
    with pytest.raises(TopologyError, match=r"2 .*\(One, Mine\).*name one"):
        made(tmp_path, *PAIR, head=two)
    assert len(made(tmp_path, *PAIR, "self.addLink('h1', 's1')", head=two, class_name="Mine").hosts) == 2
    with pytest.raises(TopologyError, match=r"'Other'.*: One, Mine"):
        made(tmp_path, *PAIR, head=two, class_name="Other")
    with pytest.raises(TopologyError, match=r" 0 .*\(none\)"):
        made(tmp_path, head="")


def test_arguments_buffers_in_bdps_and_scale(tmp_path):
    lines = ("for n in range(args['hosts']): self.addLink(self.addHost(f'h{n}'), 's1' if n else self.addSwitch('s1'), bw=100)",)
    keys = {"args": (("hosts", 5),), "buffer_bytes": Amount(Fraction(2), "bdp"), "scale": 10}
    graph = made(tmp_path, *lines, **keys)
    rtt_ns = 2 * (121_120 + 5_280) + 4 * 1000
    assert len(graph.hosts) == 5 and {cable.rate_bps for cable in graph.cables} == {10**7}
    assert {port.queue.limit_bytes for port in graph.ports()} == {2 * rtt_ns * 10**8 // (8 * 10**9)}


def test_all_that_links_lack_is_said_at_once(tmp_path):
    lines = (*PAIR, "self.addLink('h1', 's1', bw=10)")
    nothing = dict.fromkeys(LINKS)
    with pytest.raises(TopologyError) as excinfo:
        made(tmp_path, *lines, **nothing, ecn=True)
    assert str(excinfo.value) == (
        "missing: topology.rate (bw of h2-s1), topology.buffer (max_queue_size of h1-s1, h2-s1), topology.k_bytes;"
        " give them in [topology] or in the Topo"
    )
    with pytest.raises(TopologyError, match=r"^missing: topology\.k_bytes; .*\[topology\]$"):
        made(tmp_path, *lines, ecn=True)


def test_a_delay_that_nobody_gives_is_none(tmp_path):
    graph = made(tmp_path, *PAIR, "self.addLink('h1', 's1', delay='1ms')", **LINKS | {"delay_ns": None})
    assert (graph.cable_of("h1-eth0").delay_ns, graph.cable_of("h2-eth0").delay_ns) == (1_000_000, 0)
