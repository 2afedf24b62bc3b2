# SPDX-License-Identifier: Apache-2.0
"""Group ports in a lab: each frame leaves by the port that routing says, whatever its protocol, and losses are counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dc_gym.topologies.ecmp import path, route
from dc_gym.topologies.presets import TopologySpec, build

WIDE: dict[str, Any] = {
    "kind": "leafspine", "leaves": 2, "hosts_per_leaf": 1, "spines": 24,
    "rate_bps": 10**9, "delay_ns": 1000, "buffer_bytes": 10**6,
}  # fmt: skip
SEND = """
import random, struct
draw = random.Random(4)
raw, taken = {}, []
for name in ("h1", "h2"):
    with entered(netns_path(name)):
        raw[name] = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for number in range(600):
    protocol = draw.choice(["tcp", "udp", "icmp", "fragment"])
    source, destination = draw.choice([("h1", "h2"), ("h2", "h1")])
    ports = draw.randrange(65536), draw.randrange(65536)
    kind = {"tcp": 6, "icmp": 1}.get(protocol, 17)
    addresses = [socket.inet_aton(graph.host(name).address) for name in (source, destination)]
    offset = 100 if protocol == "fragment" else 0
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + 40, number, offset, 64, kind, 0) + b"".join(addresses)
    before = {name: device.tx_packets for name, device in fabric.devices().items()}
    raw[source].sendto(head + struct.pack("!HH", *ports) + bytes(36), (graph.host(destination).address, 0))
    time.sleep(0.001)
    after = {name: device.tx_packets for name, device in fabric.devices().items()}
    crossed = sorted(name for name in after if after[name] > before[name] and name[0] == "s")
    taken.append([protocol, source, destination, *ports, crossed])
print(json.dumps(taken))
"""


@pytest.mark.lab
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "daemons"])
def test_every_frame_leaves_by_the_port_that_routing_says(in_fabric: Callable[..., str], direct: bool) -> None:
    graph = build(TopologySpec.of(**WIDE))
    router, uplinks = route(graph, 1), set()
    for protocol, source, destination, *ports, taken in json.loads(in_fabric(WIDE, SEND, direct=direct).splitlines()[-1]):
        kind, hashed_ports = ("udp", (0, 0)) if protocol == "fragment" else (protocol, ports)  # a fragment has no ports
        way = path(graph, router, source, destination, *hashed_ports, kind)
        assert taken == sorted(name for name in way if name.startswith("s")), (protocol, ports)
        uplinks.add(way[1])
    assert len(uplinks) == 48


LOST = """
from dc_gym.base.errors import FabricError
from dc_gym.topologies.ecmp import Group
from dc_gym.topologies.realize import group_ports
root, indexes = fabric.socket_of(""), {name: device.ifindex for name, device in fabric.devices().items()}
(group,) = [group for group in groups if group.switch == "s1"]
for members in ((), (99,) * 2, (1,) * 257):
    try:
        numbers = {f"s1-eth{n}": 4711 if n == 99 else 1 for n in members}
        root.batch([group_ports.create(Group("s1", 0x8000 + 7, members, 1), numbers)])
    except FabricError as error:
        print("refused", error)
try: group_ports.check(root, [Group("s1", group.number, group.members, group.seed + 1)], indexes)
except FabricError as error: print("differs", error)
import subprocess
for number in group.members:
    subprocess.run(["ip", "link", "set", f"s1-eth{number}", "down"], check=True)
with entered(netns_path("h1")):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(50):
    sock.sendto(b"x", (graph.host("h2").address, 1000 + port))
time.sleep(0.01)
print("lost", fabric.losses(fabric.devices()))
"""


@pytest.mark.lab
def test_what_a_group_cannot_be_and_cannot_send_is_told(in_fabric: Callable[..., str]) -> None:
    lines = in_fabric(WIDE, LOST, direct=True).splitlines()
    log = [line for line in lines if line.startswith(("refused", "differs", "lost"))]
    assert len(log) == 5, log
    assert "1 .. 256 members" in log[0] and "member 4711 is not an Ethernet device" in log[1] and "1 .. 256 members" in log[2]
    assert "other members or another seed" in log[3]
    assert "'group': 50" in log[4]
