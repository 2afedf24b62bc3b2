# SPDX-License-Identifier: Apache-2.0
"""A Fabric whose links are made of stock qdiscs, for kernels without the cable driver: on the host ground.

A port is one end of a veth pair. Its root is a token bucket (tbf) of the link's rate, with the port's queue inside. The other
ends of a link's two pairs lie in the namespace WIRES. They forward to each other through a netem of the link's rate and delay:

    port A: queue in tbf -- veth -- wire: netem -- veth -- port B          and the same back

A host under a central agent has the agent's tbf as its root. It is made at line rate and is the port's queue like any other.

tbf decides when a frame may start. netem serializes and delays it, and frees it from its sender's socket, as a cable does. The
remaining error of tbf is its burst: a frame can leave the queue early, to be serialized by netem, so the queue is too short by up
to burst_bytes(). Timers and softirqs add latency, which calibration measures.

With `links` "tbf" there is no wire: only veth pairs and tbf, as Mininet's links without delay are. docs/host.md shows the faults
of this mode (who owns a packet; no serialization). The mode exists so that this can be shown.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.base.units import FRAME_BYTES
from dc_gym.topologies.graph import NO_IMPAIRMENT, Cable, Graph, Port
from dc_gym.topologies.realize import cables, shapers, tc
from dc_gym.topologies.realize.cables import (
    IFLA_ADDRESS,
    IFLA_IFNAME,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
    Described,
    Device,
)
from dc_gym.topologies.realize.fabric import Fabric, netns_path
from dc_gym.topologies.realize.ovs import Switches
from dc_gym.topologies.realize.rtnl import (
    IFINFOMSG,
    NLM_F_CREATE,
    NLM_F_EXCL,
    RTM_NEWLINK,
    NetlinkRequest,
    NetlinkSocket,
    attr_text,
    attr_u32,
    attribute,
    nested,
)

WIRES = "wires+"  # '+' is in no host's name
WIRE_SYSCTLS = {"net/ipv6/conf/all/disable_ipv6": "1"}  # a wire sends no packets of its own
VETH_INFO_PEER = 1
IFLA_NET_NS_FD, IFLA_GSO_MAX_SEGS = cables.IFLA_NET_NS_FD, cables.IFLA_GSO_MAX_SEGS
BURST = 2 * FRAME_BYTES
LATENESS_NS = 20_000
"""Delay of timers, in ns, after which tbf can still catch up. Its burst is the link's bytes in that time, or BURST."""
STATS = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
UP = cables.IFF_UP | cables.IFF_LOWER_UP


def burst_bytes(rate_bps: int) -> int:
    return max(BURST, rate_bps * LATENESS_NS // (8 * 10**9))


def check(graph: Graph, links: str) -> None:
    """Raises UsageError where links of qdiscs cannot realize the graph."""
    if links == "tbf" and any(cable.delay_ns for cable in graph.cables):
        raise UsageError('host.links = "tbf" makes links without delay: set topology.delay=0ns, or take other links')
    if any(port.queue.kind == "port" for port in graph.ports()):
        raise UsageError('topology.qdisc = "port" comes with the cable: build it (docs/host.md), or give "stock"')
    if any(cable.back is not None for cable in graph.cables):
        raise UsageError("links whose directions differ need a cable: build it (docs/host.md), or take the lab")
    if any(cable.impairment != NO_IMPAIRMENT for cable in graph.cables):
        raise UsageError("loss, jitter and reordering by seed need a cable: build it (docs/host.md), or take the lab")


class QdiscFabric(Fabric):
    """The network of a graph on veth, tbf and netem."""

    CHANGES = False
    LINKS = cables.listing("veth")

    def __init__(
        self,
        graph: Graph,
        rules: Mapping[str, Any],
        ovs: Switches,
        ecn: bool,
        peers: Mapping[str, Collection[str]] | None = None,
        sysctls: Mapping[str, str] | None = None,
        links: str = "netem",
    ) -> None:
        super().__init__(graph, rules, ovs, ecn, peers, sysctls)
        self._links = links
        self._cable_of = {port.ifname: cable for cable in graph.cables for port in (cable.a, cable.b)}
        self._wire_of = {
            port.ifname: f"w{number}{side}"
            for number, cable in enumerate(graph.cables)
            for side, port in (("a", cable.a), ("b", cable.b))
        }
        self._wires: NetlinkSocket | None = None

    def devices_in(self, sock: NetlinkSocket) -> dict[str, Device]:
        """Returns the veth ends that are ports, with the packets that their wires hold and lost."""
        veth_ends = veths(sock)
        ports = {name: link for name, link in veth_ends.items() if name in self._cable_of}
        if self._wires is None or not ports:
            return {name: _device(link, self._cable_of[name]) for name, link in ports.items()}
        wires = {link.ifname: link for link in veths(self._wires).values()}
        held = tc.queue_counters(self._wires)
        return {name: self._with_wire(link, wires, held) for name, link in ports.items()}

    def _with_wire(self, link: Described, wires: Mapping[str, Described], held: Mapping[int, tc.QueueCounters]) -> Device:
        cable = self._cable_of[link.ifname]
        far = wires[self._wire_of[self.graph.peer(_port(cable, link.ifname)).ifname]]
        queue = held[far.ifindex]
        return _device(link, cable, queue.backlog_packets, queue.backlog_bytes, queue.drops)

    def _make_cables(self) -> None:
        with ExitStack() as stack:
            names = [host.name for host in self.graph.hosts]
            if self._links == "netem":
                self._system.add_namespaces([netns_path(WIRES)])
                self._system.write_sysctls(WIRE_SYSCTLS, [netns_path(WIRES)])
                self._wires = self._stack.enter_context(NetlinkSocket(netns_path(WIRES)))
                names.append(WIRES)
            fds = {name: os.open(netns_path(name), os.O_RDONLY) for name in names}
            for fd in fds.values():
                stack.callback(os.close, fd)
            macs = {f"{host.name}-eth{plane}": nic.mac for host in self.graph.hosts for plane, nic in enumerate(host.nics)}

            def end(port: Port) -> cables.CableEnd:
                return cables.CableEnd(port.ifname, macs.get(port.ifname), fds.get(port.node))

            if self._wires is None:
                self._root.batch([pair(end(cable.a), end(cable.b)) for cable in self.graph.cables])
            else:
                ports = [port for cable in self.graph.cables for port in (cable.a, cable.b)]
                wire = {port.ifname: cables.CableEnd(self._wire_of[port.ifname], None, fds[WIRES]) for port in ports}
                self._root.batch([pair(end(port), wire[port.ifname]) for port in ports])
                self._connect_wires(self._wires)

    def _connect_wires(self, sock: NetlinkSocket) -> None:
        """Forwards frames that come in at one end of a wire to the other end, through a netem."""
        veth_ends = veths(sock)
        requests = []
        for cable in self.graph.cables:
            a, b = (veth_ends[self._wire_of[port.ifname]] for port in (cable.a, cable.b))
            for near, far in ((a, b), (b, a)):
                requests += [
                    shapers.set_netem(far.ifindex, cable.rate_bps, cable.delay_ns, far.ifname),
                    *shapers.redirect(near.ifindex, far.ifindex, near.ifname),
                    cables.set_up(near.ifindex, near.ifname),
                ]
        sock.batch(requests)

    def _queue(self, ifindex: int, port: Port) -> list[NetlinkRequest]:
        if port.queue.kind == "tbf":  # an agent's: it both limits the rate and holds the queue
            return [tc.set_queue(ifindex, port.queue, port.ifname)]
        rate_bps = self._cable_of[port.ifname].rate_bps
        return shapers.set_limited_queue(ifindex, port.queue, rate_bps, burst_bytes(rate_bps), port.ifname)

    def _check_queues(self, sock: NetlinkSocket, queues: dict[int, tuple[str, Any]]) -> None:
        rates = {ifindex: (name, self._cable_of[name].rate_bps) for ifindex, (name, _) in queues.items()}
        shapers.check_rates(sock, rates)
        inside = {ifindex: named for ifindex, named in queues.items() if named[1].kind != "tbf"}
        tc.check_queues(sock, inside, parent=shapers.TBF_CLASS)
        tc.check_queues(sock, {ifindex: named for ifindex, named in queues.items() if ifindex not in inside})

    def _queue_settings(self, sock: NetlinkSocket) -> dict[int, tc.QueueSettings]:
        return tc.queue_settings(sock) | tc.queue_settings(sock, parent=shapers.TBF_CLASS)


def veths(sock: NetlinkSocket) -> dict[str, Described]:
    return {veth.ifname: veth for veth in cables.all_of_kind(sock, "veth")}


def pair(a: cables.CableEnd, b: cables.CableEnd) -> NetlinkRequest:
    peer = attribute(VETH_INFO_PEER, IFINFOMSG.pack(0, 0, 0, 0, 0) + _end(b))
    info = nested(IFLA_LINKINFO, attr_text(IFLA_INFO_KIND, "veth"), nested(IFLA_INFO_DATA, peer))
    body = IFINFOMSG.pack(0, 0, 0, 0, 0) + _end(a) + info
    return NetlinkRequest(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"create veth pair {a.ifname} to {b.ifname}")


def _end(end: cables.CableEnd) -> bytes:
    body = attr_text(IFLA_IFNAME, end.ifname) + attr_u32(IFLA_GSO_MAX_SEGS, 1)
    if end.mac is not None:
        body += attribute(IFLA_ADDRESS, bytes.fromhex(end.mac.replace(":", "")))
    return body + (attr_u32(IFLA_NET_NS_FD, end.netns_fd) if end.netns_fd is not None else b"")


def _device(veth: Described, cable: Cable, flight_packets: int = 0, flight_bytes: int = 0, lost: int = 0) -> Device:
    stats = dict(zip(STATS, cables.STATS64.unpack_from(veth.link[cables.IFLA_STATS64]), strict=False))
    return Device(
        ifindex=veth.ifindex,
        ifname=veth.ifname,
        up=veth.flags & UP == UP,
        rate_bps=cable.rate_bps,
        delay_ns=cable.delay_ns,
        gso_max_segs=int.from_bytes(veth.link[IFLA_GSO_MAX_SEGS], "little"),
        mtu=int.from_bytes(veth.link[cables.IFLA_MTU], "little"),
        rx_packets=stats["rx_packets"],
        tx_packets=stats["tx_packets"],
        rx_bytes=stats["rx_bytes"],
        tx_bytes=stats["tx_bytes"],
        rx_dropped=stats["rx_dropped"],
        tx_dropped=stats["tx_dropped"],
        flight_packets=flight_packets,
        flight_bytes=flight_bytes,
        lost_packets=lost,
        lost_bytes=0,
        impairment=cable.impairment,
        seed=0,
        impaired_from_ns=0,
        dropped_packets=0,
        dropped_bytes=0,
        reordered_packets=0,
    )


def _port(cable: Cable, ifname: str) -> Port:
    return cable.a if cable.a.ifname == ifname else cable.b
