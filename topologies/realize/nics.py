# SPDX-License-Identifier: Apache-2.0
"""The internal pair of each NIC: two veth devices in the host's namespace, with fq on the first; it is the ring (docs/nic.md).

Tokens wait in the ring, one for each flow, each until its departure time. So fq must not drop tokens however many flows there are
and however low their rates, must not keep one flow behind another, and must be on time to the nanosecond.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from dc_gym.base.errors import FabricError
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.rtnl import (
    IFINFOMSG,
    LINKS,
    NLA_F_NESTED,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    QDISCS,
    RTM_NEWLINK,
    RTM_NEWQDISC,
    TCMSG,
    NetlinkRequest,
    NetlinkSocket,
    attr_text,
    attr_u32,
    attribute,
    attributes,
    nested,
)

if TYPE_CHECKING:  # imports Mininet
    from dc_gym.topologies.realize.fabric import Fabric

IFF_NOARP = 0x80
VETH_INFO_PEER = 1
TCA_FQ_RATE_ENABLE, TCA_FQ_ORPHAN_MASK, TCA_FQ_TIMER_SLACK, TCA_FQ_HORIZON, TCA_FQ_HORIZON_DROP = 5, 10, 13, 14, 15
TOKENS = 1 << 20
FQ = {
    tc.TCA_FQ_PLIMIT: TOKENS,
    tc.TCA_FQ_FLOW_PLIMIT: TOKENS,
    TCA_FQ_ORPHAN_MASK: 0xFFFFFFFF,  # each token is a flow of its own: its hash is random, and every bit of it counts
    TCA_FQ_TIMER_SLACK: 0,
    TCA_FQ_HORIZON: 4_000_000_000,  # us
    TCA_FQ_RATE_ENABLE: 0,  # the NIC alone paces where it caps the host's TCP
}
"""The settings requested of fq, by attribute."""


@dataclass(frozen=True, slots=True)
class NicDevices:
    """The devices of one NIC: the host's cable end, and both ends of its internal pair."""

    host: str
    wire: str
    ring: str
    tail: str
    line_bps: int

    @property
    def name(self) -> str:
        return self.wire


def devices(graph: Graph) -> list[NicDevices]:
    """Returns the NICs of a network: one at each port of each host."""
    return [
        NicDevices(host.name, port.ifname, f"nic{2 * plane}", f"nic{2 * plane + 1}", graph.cable_of(port).rate_bps)
        for host in graph.hosts
        for plane, port in enumerate(graph.ports_of(host.name))
    ]


def make(fabric: Fabric, caps: bool = False, ring_classes: int = 0) -> None:
    """Makes the NICs of a network. Raises FabricError unless all of them read back as requested.

    With `caps`, the NIC gives the segments of the host's TCP their departure times, and the fq of the wire holds them until then
    as the ring's does. While a port is paused in one of `ring_classes`, a bit each, its ring stands still.
    """
    for host, nics in groupby(devices(fabric.graph), lambda nic: nic.host):
        sock, host_nics = fabric.socket_of(host), list(nics)
        sock.batch([_pair(nic, fabric.graph.mtu_bytes) for nic in host_nics])
        numbers = _numbers(sock)
        queues = [name for nic in host_nics for name in ((nic.ring, nic.wire) if caps else (nic.ring,))]
        sock.batch([_fq(numbers[name], f"{host}: {name}") for name in queues])
        sock.batch([cables.set_up(numbers[name], name) for nic in host_nics for name in (nic.ring, nic.tail)])
        if ring_classes:
            sock.batch([cables.stop_ring(numbers[nic.wire], nic.wire, numbers[nic.ring], ring_classes) for nic in host_nics])
        cables.settle(sock, [numbers[name] for nic in host_nics for name in (nic.ring, nic.tail)])
        _check(sock, {numbers[name]: f"{host}: {name}" for name in queues})


def _pair(nic: NicDevices, mtu_bytes: int) -> NetlinkRequest:
    mtu = attr_u32(cables.IFLA_MTU, mtu_bytes)
    ends = IFINFOMSG.pack(0, 0, 0, IFF_NOARP, IFF_NOARP)
    peer = attribute(VETH_INFO_PEER | NLA_F_NESTED, ends + attr_text(cables.IFLA_IFNAME, nic.tail) + mtu)
    info = nested(cables.IFLA_LINKINFO, attr_text(cables.IFLA_INFO_KIND, "veth"), nested(cables.IFLA_INFO_DATA, peer))
    body = ends + attr_text(cables.IFLA_IFNAME, nic.ring) + mtu + info
    purpose = f"{nic.host}: create the pair {nic.ring}, {nic.tail} of a NIC (the kernel needs CONFIG_VETH)"
    return NetlinkRequest(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, purpose)


def _numbers(sock: NetlinkSocket) -> dict[str, int]:
    ifindexes = {}
    for payload in sock.listed(LINKS):
        name = attributes(payload[IFINFOMSG.size :])[cables.IFLA_IFNAME]
        ifindexes[name.rstrip(b"\0").decode()] = IFINFOMSG.unpack_from(payload)[2]
    return ifindexes


def _fq(ifindex: int, name: str) -> NetlinkRequest:
    options = [*(attr_u32(kind, value) for kind, value in FQ.items()), attribute(TCA_FQ_HORIZON_DROP, b"\0")]
    body = TCMSG.pack(0, ifindex, tc.HANDLE, tc.TC_H_ROOT, 0) + attr_text(tc.TCA_KIND, "fq")
    body += nested(tc.TCA_OPTIONS, *options)
    return NetlinkRequest(
        RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body, f"{name}: set queue fq (the kernel needs CONFIG_NET_SCH_FQ)"
    )


def _check(sock: NetlinkSocket, rings: dict[int, str]) -> None:
    """Raises FabricError unless each ring has the fq that was requested."""
    roots = {}
    for payload in sock.listed(QDISCS):
        _family, ifindex, _handle, parent, _info = TCMSG.unpack_from(payload)
        if parent == tc.TC_H_ROOT:
            roots[ifindex] = attributes(payload[TCMSG.size :])
    for ifindex, name in rings.items():
        kind = roots.get(ifindex, {}).get(tc.TCA_KIND, b"none").rstrip(b"\0").decode()
        if kind != "fq":
            raise FabricError(f"{name}: asked for queue fq, read back {kind}")
        options = attributes(roots[ifindex][tc.TCA_OPTIONS])
        for attr, requested in FQ.items():
            read = struct.unpack_from("=I", options[attr])[0]
            if read != requested:
                raise FabricError(f"{name}: asked fq for {requested} as attribute {attr}, read back {read}")
