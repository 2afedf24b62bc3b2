# SPDX-License-Identifier: Apache-2.0
"""Reads back with pyroute2 what the fabric's netlink batches made. pyroute2 shares no code with topologies/realize/rtnl.py.

pyroute2 has no RED. It has CHOKe, whose attributes begin with RED's (linux/pkt_sched.h), so CHOKe's reader serves.
"""

import json
import struct

import pytest
from pyroute2.netlink.rtnl.tcmsg.common import red_eval_P

from dc_gym.topologies.graph import PPM
from dc_gym.topologies.presets import TopologySpec, build

NUD_PERMANENT = 128
RED_ECN, RED_NODROP = 1, 8

READ = """
from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import tcmsg

tcmsg.plugins["red"] = tcmsg.plugins["choke"]

def plain(value):
    "Returns a message as dicts of its attributes and numbers."
    if not isinstance(value, dict):
        return value.hex() if isinstance(value, bytes) else value
    found = {name: plain(each) for name, each in value.items() if name not in ("attrs", "header")}
    return found | {name: plain(each) for name, each in value.get("attrs", ())}

def read():
    "Returns links, addresses, neighbours and root qdiscs of the current namespace, each by the name of its device."
    found = {}
    with IPRoute() as ip:
        for link in ip.get_links():
            found[link["index"]] = {"link": plain(link), "addresses": [], "neighbours": []}
        for each in ip.get_addr(family=socket.AF_INET):
            found[each["index"]]["addresses"].append(plain(each))
        for each in ip.get_neighbours(family=socket.AF_INET):
            found[each["ifindex"]]["neighbours"].append(plain(each))
        for each in ip.get_qdiscs():
            if each["parent"] == 0xFFFFFFFF:
                found[each["index"]]["qdisc"] = plain(each)
    return {each["link"]["IFLA_IFNAME"]: each for each in found.values()}

out = read()
for host in graph.hosts:
    with entered(netns_path(host.name)):
        out |= read()
print(json.dumps(out, default=str))
"""


@pytest.mark.lab
@pytest.mark.parametrize(
    "topology",
    [
        pytest.param({"preset": "dctcp-10g"}, id="port"),
        pytest.param({"preset": "dctcp-10g", "qdisc": "stock"}, id="step"),
        pytest.param({"preset": "dumbbell-1g", "marking": "iroko-thesis"}, id="red"),
    ],
)
def test_another_client_reads_what_was_asked_for(in_fabric, topology):
    devices = json.loads(in_fabric(topology, READ).splitlines()[-1])
    graph = build(TopologySpec.of(**topology))
    for cable in graph.cables:
        for port in (cable.a, cable.b):
            device = devices[port.ifname]
            assert (device["link"]["IFLA_OPERSTATE"], device["link"]["IFLA_MTU"]) == ("UP", 1500)
            assert device["link"]["IFLA_LINKINFO"]["IFLA_INFO_KIND"] == "cable"
            assert_queue(device["qdisc"], port.queue)
    for host in graph.hosts:
        device = devices[f"{host.name}-eth0"]
        assert device["link"]["IFLA_ADDRESS"] == host.mac
        assert [(entry["IFA_LOCAL"], entry["prefixlen"]) for entry in device["addresses"]] == [(host.address, 8)]
        others = {(other.address, other.mac, NUD_PERMANENT) for other in graph.hosts if other is not host}
        assert {(entry["NDA_DST"], entry["NDA_LLADDR"], entry["state"]) for entry in device["neighbours"]} == others


def assert_queue(qdisc, queue):
    assert qdisc["TCA_KIND"] == queue.kind
    if queue.kind == "bfifo":
        assert int.from_bytes(bytes.fromhex(qdisc["TCA_OPTIONS"].replace(":", "")), "little") == queue.limit_bytes
        return
    if queue.kind == "port":  # which the other client does not know
        options = bytes.fromhex(qdisc["TCA_OPTIONS"].replace(":", ""))
        assert queue.marking.kind == "none"
        limit, marking = struct.pack("<HHI", 8, 2, queue.limit_bytes), struct.pack("<HH4I", 20, 3, *[2**32 - 1] * 2, 0, 0)
        assert options.startswith(limit + marking)
        return
    red, marking = qdisc["TCA_OPTIONS"], queue.marking
    low, high = (marking.k_bytes, marking.k_bytes) if marking.kind == "step" else (marking.min_bytes, marking.max_bytes)
    parms = red["TCA_CHOKE_PARMS"]
    assert (parms["limit"], parms["qth_min"], parms["qth_max"]) == (queue.limit_bytes, low, high)
    if marking.kind == "step":
        assert (red["TCA_CHOKE_MAX_P"], parms["flags"]) == (2**32 - 1, RED_ECN | RED_NODROP)
    else:
        assert (red["TCA_CHOKE_MAX_P"], parms["flags"]) == (round(marking.probability_ppm / PPM * 2**32), RED_ECN)
        assert parms["Plog"] == red_eval_P(low, high, marking.probability_ppm / PPM)
