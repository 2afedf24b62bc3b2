# SPDX-License-Identifier: Apache-2.0
"""The fabric in a lab: every pair communicates over the path of the router, nodes have shells, wrong settings are detected."""

import json
from itertools import permutations

import pytest

from dc_gym.base.errors import FabricError
from dc_gym.topologies.ecmp import path, route
from dc_gym.topologies.graph import NO_MARKING, Marking, Queue
from dc_gym.topologies.links import LinkRule
from dc_gym.topologies.marking import iroko_thesis
from dc_gym.topologies.paths import one_way_ns
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.rtnl import attribute, attributes

REACH = """
sockets = {}
for host in graph.hosts:
    with entered(netns_path(host.name)):
        for plane, nic in enumerate(host.nics):
            sock = sockets[host.name, plane] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind((nic.address, 9000))
            sock.settimeout(1)
for a in graph.hosts:
    for b in graph.hosts:
        for plane in range(min(len(a.nics), len(b.nics)) if a is not b else 0):
            sockets[a.name, plane].sendto(a.name.encode(), (b.nics[plane].address, 9000))
            text, (address, port) = sockets[b.name, plane].recvfrom(100)
            assert (text.decode(), address) == (a.name, a.nics[plane].address), (a, b, text)
print(json.dumps({name: device.tx_packets for name, device in fabric.devices().items()}))
"""
SMALL = ("dumbbell-10m", "dctcp-10g", "fattree-k4", "parkinglot-1g", "acc24a", "acc24")


@pytest.mark.lab
@pytest.mark.parametrize("preset", [*SMALL, *(pytest.param(name, marks=pytest.mark.long) for name in ("rlcc64", "fdcc64"))])
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "daemons"])
def test_every_pair_is_reached_over_the_path_that_routing_says(in_fabric, preset, direct):
    counted = json.loads(in_fabric({"preset": preset}, REACH, direct=direct))
    graph = build(TopologySpec.of(preset=preset))
    router = route(graph, 1)
    expected = dict.fromkeys(counted, 0)
    for a, b in permutations(graph.hosts, 2):
        for plane in range(min(len(a.nics), len(b.nics))):
            for port in path(graph, router, a.name, b.name, 9000, 9000, "udp", plane):
                expected[port] += 1
    assert counted == expected


ONE_WAY = """
def tap(host, plane):
    "Sees each frame when it starts to leave, or has arrived."
    with entered(netns_path(host)):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        sock.bind((f"{host}-eth{plane}", 3))
    sock.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
    return sock

def stamp(tap, length):
    while True:
        data, extra, _, _ = tap.recvmsg(2000, 100)
        if len(data) == length:
            seconds, ns = struct.unpack("=qq", extra[0][2])
            return seconds * 10**9 + ns

def sender(host, plane):
    with entered(netns_path(host)):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((graph.host(host).nics[plane].address, 9000))
    return sock

def measure(src, dst, plane, length):
    "Between sending and arrival this program only waits: a failing system call or a look at the clock would take time."
    senders[src, plane].sendto(bytes(length - 42), (graph.host(dst).nics[plane].address, 9000))
    arrived = stamp(taps[dst, plane], length)
    return arrived - stamp(taps[src, plane], length)

import struct
ends = {(host, job[2]) for job in frames for host in job[:2]}
taps, senders = {end: tap(*end) for end in ends}, {end: sender(*end) for end in ends}
for job in frames:
    measure(*job)  # so that Open vSwitch has its flows, and the kernel stamps frames
ovs.freeze()
time.sleep(0.1)  # until the daemons are at rest
print(json.dumps([measure(*job) for job in frames]))
ovs.thaw()
"""


@pytest.mark.lab
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "daemons"])
def test_a_paths_time_is_that_of_its_links(in_fabric, direct):
    """Frames of several lengths take each link's serialization and delay and no more, in both planes."""
    links = [
        {"between": ["s1", "s5"], "rate_bps": 10**10, "delay_ns": 1234},
        {"between": ["h3", "leaf"], "rate_bps": 333_333_333},
    ]
    pairs = [("h1", "h2"), ("h1", "h13"), ("h24", "h3"), ("h3", "h14")]
    frames = [(src, dst, plane, length) for src, dst in pairs for plane in (0, 1) for length in (60, 777, 1514)]
    rules = tuple(LinkRule.of(between=tuple(link.pop("between")), **link) for link in links)
    params = {"preset": "acc24", "links": rules}
    graph = build(TopologySpec.of(**params))
    router = route(graph, 1)
    times_ns = json.loads(in_fabric(params, f"frames = {frames}\n{ONE_WAY}", direct=direct))
    for (src, dst, plane, length), measured in zip(frames, times_ns, strict=True):
        crossed = path(graph, router, src, dst, 9000, 9000, "udp", plane)
        assert measured == one_way_ns(graph, crossed, length), (src, dst, plane, length)


@pytest.mark.lab
def test_mininet_nodes_have_a_shell_when_asked(in_fabric):
    body = """
from dc_gym.topologies.realize.mininet_view import mininet_of
net = mininet_of(graph)
assert all(node.shell is None for node in net.hosts + net.switches)
print(net["h1"].cmd("ip -color=never -br addr show h1-eth0").split())
print(net["h1"].cmd("hostname").split())
print(net["h2"].IP(), net["h2"].popen("hostname", "-I").communicate()[0].decode().strip())
print([node.name for node in net.hosts if node.shell])
import subprocess
listed = subprocess.run([*programs.argv("ovs-vsctl"), "list-ports", "s1"], capture_output=True, text=True, check=True)
print(listed.stdout.split())
"""
    text = in_fabric({"preset": "dumbbell-10m"}, body)
    assert "['h1']\n" in text
    assert "10.0.0.1/8" in text and "10.0.0.2 10.0.0.2" in text and "['h1', 'h2']" in text
    assert "['s1-eth1', 's1-eth2', 's1-eth3']" in text


@pytest.mark.lab
def test_the_fabric_is_read_back_and_a_difference_is_an_error(in_fabric):
    body = """
from dc_gym.base.errors import FabricError
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.graph import Queue
sock = fabric.socket_of("s1")
index = fabric.devices()["s1-eth3"].ifindex
fabric.verify()
for request in (cables.change(index, "s1-eth3", rate_bps=123), tc.set_queue(index, Queue(5000, "port"), "s1-eth3")):
    sock.batch([request])
    try: fabric.verify()
    except FabricError as error: print(error)
    sock.batch([cables.change(index, "s1-eth3", rate_bps=10**7)])
try: sock.batch([cables.change(index, "s1-eth3", rate_bps=0)])
except FabricError as error: print(error)
print(sorted(fabric.losses(fabric.devices())))
"""
    lines = in_fabric({"preset": "dumbbell-10m"}, body).splitlines()
    assert lines[0] == "s1-eth3: asked for rate 10000000, read back 123"
    assert lines[1] == "s1-eth3: asked for limit 400000, read back 5000"
    assert lines[2].startswith("s1-eth3: change the cable: Numerical result out of range: rate is not in")
    assert lines[3] == "[]"


@pytest.mark.lab
def test_both_kinds_of_marking_are_set_and_read_back(in_fabric):
    body = "fabric.verify(); print('verified', {port.queue.marking.kind for port in graph.switch_ports()})"
    assert "verified {'step'}" in in_fabric({"preset": "dumbbell-10m", "marking": "step"}, body, ecn=True)
    assert "verified {'iroko-thesis'}" in in_fabric({"preset": "dumbbell-1g", "marking": "iroko-thesis"}, body, ecn=True)


def test_iroko_red_is_what_tc_computes():
    """At 10 Mbit/s: what tc (iproute2 6.1) shows for `red limit 400000 min 3000 max 100000 avpkt 1500 burst 23 bandwidth 10Mbit
    probability 0.1 ecn`. At 1 Gbit/s tc asks for ewma 12, which Linux refuses for max 1000000: dc-gym takes 11."""
    slow = tc.slope(iroko_thesis(10**7, 400_000))
    assert (slow.wlog, slow.scell_log, slow.flags) == (8, 19, tc.RED_ECN)
    assert slow.stab[0] == 0 and slow.stab[255] == 31 and list(slow.stab) == sorted(slow.stab)
    assert tc.slope(iroko_thesis(10**9, 4_000_000)).wlog == 11


def test_step_never_averages():
    red = tc.step(3028)
    assert (red.wlog, set(red.stab), red.flags) == (0, {31}, tc.RED_ECN | tc.RED_NODROP)


def test_a_missing_cable_is_named():
    graph = build(TopologySpec.of(preset="dumbbell-10m"))
    with pytest.raises(FabricError, match=r"h1-eth0: .*cable.*none"):
        cables.check_cable(graph.cables[0], {}, graph.mtu_bytes)


def test_attributes_are_read_or_refused():
    import random

    draw = random.Random(3)
    assert attributes(attribute(1, b"abc") + attribute(2, b"")) == {1: b"abc", 2: b""}
    for _ in range(20_000):
        data = draw.randbytes(draw.randrange(40))
        try:
            values = attributes(data)
        except FabricError:
            continue
        assert sum(4 + len(value) for value in values.values()) <= len(data) + 3


def test_queue_kinds_that_do_not_fit_are_refused():
    from dc_gym.base.errors import TopologyError

    with pytest.raises(TopologyError):
        Queue(100_000, "red", NO_MARKING)
    with pytest.raises(TopologyError):
        Queue(100_000, "bfifo", Marking("step", k_bytes=3000))


@pytest.mark.lab
def test_a_batch_names_the_request_that_is_refused(in_fabric):
    body = """
from dc_gym.base.errors import FabricError
sock = fabric.socket_of("s1")
index = fabric.devices()["s1-eth3"].ifindex
good, bad = cables.change(index, "s1-eth3", rate_bps=10**7), cables.change(index, "s1-eth3", rate_bps=0)
for batch in ([good, bad, good], [good, good, bad]):
    try: sock.batch(batch)
    except FabricError as error: print(error)
    sock = rtnl.NetlinkSocket()
sock.batch([good] * 2000)
print("two thousand went")
"""
    text = in_fabric({"preset": "dumbbell-10m"}, "from dc_gym.topologies.realize import cables, rtnl" + body)
    assert text.count("s1-eth3: change the cable: Numerical result out of range") == 2 and "two thousand went" in text
