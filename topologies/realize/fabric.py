# SPDX-License-Identifier: Apache-2.0
"""Realizes a Graph: hosts, Open vSwitch's bridges, cables between them, queues on their ports, rules in the switches.

This module runs inside a ground, as root there. It sends everything in batches over netlink and reads it back. Nodes are named
network namespaces. Neighbours are static, IPv6 is off, and there is no controller process.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import cache, partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Self

from dc_gym.topologies.balance import ECMP
from dc_gym.topologies.ecmp import Group
from dc_gym.topologies.graph import NETNS_FOLDER, NO_IMPAIRMENT, PREFIX_BITS, Graph, Host, Nic, Port
from dc_gym.topologies.realize import cables, group_ports, neighbours, tc
from dc_gym.topologies.realize.ovs import Switches
from dc_gym.topologies.realize.ovsdb import Bridge
from dc_gym.topologies.realize.rtnl import (
    CLONE_NEWUTS,
    IFADDRMSG,
    NDMSG,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    QDISCS,
    RTM_NEWADDR,
    RTM_NEWNEIGH,
    Listing,
    NetlinkRequest,
    NetlinkSocket,
    add_namespaces,
    attribute,
    entered,
)
from dc_gym.topologies.realize.system import HERE, System

NETNS_DIR = Path(NETNS_FOLDER)
NAMES_DIR = Path("/run/utsns")
"""The folder with a UTS namespace for each host at which a command has run: `hostname` is the host's name there."""
LOOPBACK = 1
IFA_LOCAL, IFA_ADDRESS = 2, 1
NDA_DST, NDA_LLADDR = 1, 2
NUD_PERMANENT = 0x80
EVERYBODY = 320  # up to this many hosts, each has all others as neighbours; more would cost too much time and memory

# Settings of the first namespace, made before other namespaces exist: they inherit TCP's buffers.
GROUND_SYSCTLS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv4/tcp_rmem": "4096 131072 67108864",
    "net/ipv4/tcp_wmem": "4096 65536 67108864",
    "net/ipv4/tcp_mem": "1048576 1048576 1048576",  # pages; no silent memory pressure: a lab too small reports it and dies
    "net/core/rmem_max": "67108864",
    "net/core/wmem_max": "67108864",
    "net/core/netdev_max_backlog": "1000000",
    "net/ipv4/neigh/default/gc_thresh1": "65536",
    "net/ipv4/neigh/default/gc_thresh2": "65536",
    "net/ipv4/neigh/default/gc_thresh3": "65536",
}


# Counters of /proc/net/netstat and snmp for packets that a host dropped, or a window that it shrank, for lack of buffers or
# memory.
COUNTER_FILES = ("/proc/thread-self/net/netstat", "/proc/thread-self/net/snmp")
LOSS_COUNTERS = (
    "TcpExt.TCPMemoryPressures",
    "TcpExt.PruneCalled",
    "TcpExt.RcvPruned",
    "TcpExt.OfoPruned",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.PFMemallocDrop",
    "TcpExt.TCPRcvQDrop",
    "TcpExt.TCPZeroWindowDrop",
    "TcpExt.ListenOverflows",
    "Udp.RcvbufErrors",
)  # not Udp.SndbufErrors: it also counts drops of the host's own queue, which the queue counts too, and refusals of a full socket

REORDERING = {
    "out_of_order_packets": ("TcpExt.TCPOFOQueue",),
    "reorderings": ("TcpExt.TCPSACKReorder", "TcpExt.TCPTSReorder", "TcpExt.TCPRenoReorder"),
    "retransmits": ("Tcp.RetransSegs",),
    "dsacks": ("TcpExt.TCPDSACKRecv",),
    "undos": ("TcpExt.TCPFullUndo", "TcpExt.TCPPartialUndo", "TcpExt.TCPDSACKUndo", "TcpExt.TCPLossUndo"),
}
"""The counters that each column of the table `reordering` adds up."""


def host_sysctls(ecn: bool) -> dict[str, str]:
    """Returns the settings of every host: no IPv6, ECN as the controller needs it, and no memory of earlier connections."""
    return {
        "net/ipv6/conf/all/disable_ipv6": "1",
        "net/ipv4/tcp_ecn": "1" if ecn else "0",
        "net/ipv4/tcp_no_metrics_save": "1",
    }


class Fabric:
    """The network of a graph while the context is open."""

    SYSCTLS: Mapping[str, str] = GROUND_SYSCTLS
    CHANGES = True
    LINKS = cables.listing(cables.KIND)
    """The request for all devices that are cable ends."""
    """True if links can change while they work."""

    def __init__(
        self,
        graph: Graph,
        rules: Mapping[str, Any],
        ovs: Switches,
        ecn: bool,
        peers: Mapping[str, Collection[str]] | None = None,
        sysctls: Mapping[str, str] | None = None,
        groups: Sequence[Group] = (),
        system: System = HERE,
    ) -> None:
        """`rules` holds each switch's flows in the form that `ovs` takes, which must be running.

        `peers` lists by host the hosts that it communicates with. In a network of more than EVERYBODY hosts it has no other
        neighbours.
        `sysctls` holds settings of every host beyond the fabric's own, by path below /proc/sys.
        `groups` are the group ports of all switches.
        `system` is that in which the network is.
        """
        self.graph = graph
        self._rules = rules
        self._groups = groups
        self._balancing = [group for group in groups if group.balance != ECMP]
        self._ovs = ovs
        self._sysctls = {**host_sysctls(ecn), **(sysctls or {})}
        self._peers = peers if len(graph.hosts) > EVERYBODY else None
        self._stack = ExitStack()
        self._system = system
        self._root = self._stack.enter_context(system.netlinks([None])[0])
        self._sockets: dict[str, NetlinkSocket] = {}
        self.ifindexes: dict[str, int] = {}
        """By the name of a cable's end."""
        self._counting: dict[int, str] = {}  # the ports that count their queues, by ifindex
        self._marking: dict[int, str] = {}  # the ports that mark by draws of their own, by ifindex
        self._softnet_drops = self._dropped_by_softnet()

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def socket_of(self, node: str) -> NetlinkSocket:
        """Returns the fabric's netlink socket in a node's namespace."""
        return self._sockets.get(node, self._root)

    def devices(self) -> dict[str, cables.Device]:
        """Returns every cable end of the network, as the kernel has it now."""
        ends: dict[str, cables.Device] = {}
        for sock in self.asked(self.LINKS):
            ends.update(self.devices_in(sock))
        return ends

    def asked(self, listing: Listing) -> Sequence[NetlinkSocket]:
        """Returns all sockets, after requests for the messages that will be read next from each."""
        sockets = [self._root, *self._sockets.values()]
        for sock in sockets:
            sock.ask(listing)
        return sockets

    def devices_in(self, sock: NetlinkSocket) -> dict[str, cables.Device]:
        """Returns every cable end in the socket's namespace."""
        return cables.devices(sock)

    def verify(self) -> None:
        """Raises FabricError unless every cable and every queue is as in the graph."""
        self._check_cables(self.devices())
        if self._groups:
            group_ports.check(self._root, self._groups, self.ifindexes)
        by_node: dict[str, dict[int, tuple[str, Any]]] = {}
        for port in self.graph.ports():
            node = port.node if port.node in self._sockets else ""
            by_node.setdefault(node, {})[self.ifindexes[port.ifname]] = (port.ifname, port.queue)
        self.asked(QDISCS)
        for node, queues in by_node.items():
            self._check_queues(self.socket_of(node), queues)

    def _check_cables(self, ends: dict[str, cables.Device]) -> None:
        for cable in self.graph.cables:
            cables.check_cable(cable, ends, self.graph.mtu_bytes)

    def _check_queues(self, sock: NetlinkSocket, queues: dict[int, tuple[str, Any]]) -> None:
        tc.check_queues(sock, queues)

    def _queue_settings(self, sock: NetlinkSocket) -> dict[int, tc.QueueSettings]:
        return tc.queue_settings(sock)

    def read_back(self, ends: Mapping[str, cables.Device]) -> dict[str, dict[str, int | str]]:
        """Returns the kernel's settings of every port by name. `ends`: the result of `devices()`.

        They are its cable's rate and delay, and its queue's kind, limit and thresholds.
        """
        queues: dict[str, dict[int, tc.QueueSettings]] = {}
        self.asked(QDISCS)
        for node in ("", *self._sockets):
            queues[node] = self._queue_settings(self.socket_of(node))
        settings: dict[str, dict[str, int | str]] = {}
        for port in self.graph.ports():
            device = ends[port.ifname]
            queue = queues[port.node if port.node in self._sockets else ""][device.ifindex]
            settings[port.ifname] = {"rate_bps": device.rate_bps, "delay_ns": device.delay_ns, **asdict(queue)}
        return settings

    def marks(self) -> dict[str, int]:
        """Returns the packets that each port has marked, by its name."""
        self.asked(QDISCS)
        marks = {node: tc.marks(self.socket_of(node)) for node in ("", *self._sockets)}
        return {
            port.ifname: marks[port.node if port.node in self._sockets else ""].get(self.ifindexes[port.ifname], 0)
            for port in self.graph.ports()
        }

    def seed_draws(self, seed: int) -> None:
        """Gives each port that marks a seed of its own for the draws that decide on marks. Group ports begin anew."""
        from dc_gym.topologies.ecmp import draw

        self._root.batch([tc.seed_draws(ifindex, name, draw(seed, "port", name)) for ifindex, name in self._marking.items()])
        self._root.batch([group_ports.begin(group) for group in self._balancing])

    def count_queues(self, from_ns: int, until_ns: int) -> None:
        """Has the ports count for how long their queues are how long between these times of CLOCK_MONOTONIC."""
        self._root.batch([tc.count_queue(ifindex, name, from_ns, until_ns) for ifindex, name in self._counting.items()])

    def queue_times(self) -> dict[str, tuple[int, list[int]]]:
        """Returns by port the counts of `count_queues()` (tc.queue_times), once that time is over."""
        by_ifindex = tc.queue_times(self._root) if self._counting else {}
        return {self._counting[ifindex]: times for ifindex, times in by_ifindex.items() if ifindex in self._counting}

    def next_hops(self) -> dict[str, list[tuple[int, ...]]]:
        """Returns what the members of each group port that balances have got (group_ports.counts)."""
        return group_ports.counts(self._root) if self._balancing else {}

    def reordering(self) -> dict[str, dict[str, int]]:
        """Returns by host what its TCP has counted of frames out of their order; empty if no group port balances."""
        if not self._balancing:
            return {}
        counted = zip(self.graph.hosts, self._host_counters(), strict=True)
        return {
            host.name: {column: sum(counters.get(name, 0) for name in names) for column, names in REORDERING.items()}
            for host, counters in counted
        }

    def impair(self, seed: int, from_ns: int, lossy: Collection[str] = ()) -> None:
        """Impairs the links that are not perfect from that time of CLOCK_MONOTONIC on. Each direction has a seed of its own.

        Each port of `lossy`, whose cable may become lossy later, has one, too.
        """
        impaired = [
            cable
            for cable in self.graph.cables
            if any(way.impairment != NO_IMPAIRMENT for way in cable.directions())
            or not {cable.a.ifname, cable.b.ifname}.isdisjoint(lossy)
        ]
        for cable in impaired:
            for port in (cable.a, cable.b):
                index, cable_seed = self.ifindexes[port.ifname], cables.seed_of(seed, port.ifname)
                sent = cable.sent_by(port.ifname).impairment
                request = cables.impair(index, port.ifname, sent, cable_seed, from_ns)
                self.socket_of(port.node).batch([request])
        ends = self.devices() if impaired else {}
        for cable in impaired:
            cables.check_impairment(cable, ends)

    def change(self, changes: Mapping[str, Mapping[str, int]]) -> None:
        """Changes cables, each in the direction from a port: quantities of topologies/changes.py by the port's name."""
        for name, values in changes.items():
            arguments = {cables.ARGUMENTS[quantity]: value for quantity, value in values.items()}
            self.socket_of(self.graph.port(name).node).batch([cables.change(self.ifindexes[name], name, **arguments)])

    def restore(self, of_cables: Collection[str], of_queues: Collection[str]) -> None:
        """Undoes the events' changes at these ports: rate, delay and cut of cables, and queues. For losses, see `impair`."""
        for port in self.graph.ports():
            requests, ifindex = [], self.ifindexes[port.ifname]
            if port.ifname in of_cables:
                cable = self.graph.cable_of(port)
                requests.append(cables.change(ifindex, port.ifname, cable.rate_bps, cable.delay_ns, 0, 0))
            if port.ifname in of_queues:
                requests.append(tc.set_queue(ifindex, port.queue, port.ifname))
            if requests:
                self.socket_of(port.node).batch(requests)

    def losses(self, ends: Mapping[str, cables.Device]) -> dict[str, int]:
        """Returns the packets lost outside the queues since the fabric began, by the name of the counter; empty in a valid run.

        `ends`: the result of `devices()`. SNMP counters are summed over the hosts.
        """
        losses = {
            "softnet": self._dropped_by_softnet() - self._softnet_drops,
            "cable": sum(device.lost_packets for device in ends.values()),
            "datapath": self._ovs.misses()[1],
            "group": group_ports.dropped(self._root) if self._groups else 0,
        }
        for counters in self._host_counters():
            for name in LOSS_COUNTERS:
                losses[name] = losses.get(name, 0) + counters.get(name, 0)
        return {name: count for name, count in losses.items() if count}

    def _host_counters(self) -> Iterator[dict[str, int]]:
        """Yields the SNMP counters of each host."""
        for texts in self._system.read(COUNTER_FILES, [netns_path(host.name) for host in self.graph.hosts]):
            counters: dict[str, int] = {}
            for text in texts:
                counters |= _counters(text)
            yield counters

    def _dropped_by_softnet(self) -> int:
        """Returns the packets that the kernel's input queues refused since boot, on all CPUs."""
        ((text,),) = self._system.read(["/proc/net/softnet_stat"], [None])
        return sum(int(line.split()[1], 16) for line in text.splitlines())

    def _build(self) -> None:
        self._system.write_sysctls(self.SYSCTLS)
        self._make_namespaces()
        self._make_cables()
        self.ifindexes = {name: end.ifindex for name, end in self.devices().items()}
        self._set_ways()
        self._configure_hosts()
        self._make_groups()
        self._ovs.add_bridges(self._bridges())
        self._configure_switch_ports()  # after Open vSwitch, which removes the qdisc of each port that it adopts
        for node in ("", *self._sockets):
            ports = self.graph.ports_of(node) if node else self.graph.switch_ports()
            cables.settle(self.socket_of(node), [self.ifindexes[port.ifname] for port in ports])
        self._ovs.lift_flow_limit()
        self._ovs.add_flows({switch.name: self._rules[switch.name] for switch in self.graph.switches})
        self.verify()

    def _make_namespaces(self) -> None:
        self._system.add_namespaces([netns_path(host.name) for host in self.graph.hosts])
        names = [host.name for host in self.graph.hosts]
        for name, sock in zip(names, self._system.netlinks([netns_path(name) for name in names]), strict=True):
            self._sockets[name] = self._stack.enter_context(sock)

    def _make_cables(self) -> None:
        with self._system.namespaces({host.name: netns_path(host.name) for host in self.graph.hosts}) as fds:
            macs = {f"{host.name}-eth{plane}": nic.mac for host in self.graph.hosts for plane, nic in enumerate(host.nics)}

            def end(node: str, ifname: str) -> cables.CableEnd:
                return cables.CableEnd(ifname, macs.get(ifname), fds.get(node))

            self._root.batch(
                [
                    cables.create(
                        end(c.a.node, c.a.ifname), end(c.b.node, c.b.ifname), c.rate_bps, c.delay_ns, self.graph.mtu_bytes
                    )
                    for c in self.graph.cables
                ]
            )

    def _set_ways(self) -> None:
        """Gives cables whose directions differ the rate and delay of the direction from their second end."""
        unlike = [cable.sent_by(cable.b.ifname) for cable in self.graph.cables if cable.back is not None]
        for cable in unlike:
            name = cable.a.ifname
            request = cables.change(self.ifindexes[name], name, cable.rate_bps, cable.delay_ns)
            self.socket_of(cable.a.node).batch([request])

    def _configure_hosts(self) -> None:
        self._system.write_sysctls(self._sysctls, [netns_path(host.name) for host in self.graph.hosts])
        for host in self.graph.hosts:
            requests = [cables.set_up(LOOPBACK, "lo")]
            for plane, port in enumerate(self.graph.ports_of(host.name)):
                ifindex = self.ifindexes[port.ifname]
                requests += [
                    _add_address(ifindex, host.name, host.nics[plane]),
                    *self._queue(ifindex, port),
                    cables.set_up(ifindex, port.ifname),
                    *self._neighbours(host, plane, ifindex),
                ]
            self._sockets[host.name].begin(requests)
        for sock in self._sockets.values():
            sock.finish()

    def keep_neighbours(self, names: Iterable[str]) -> None:
        """Lets hosts, at which commands will run, have their neighbours again when a command has set a device down and up."""
        requests: dict[str, dict[int, neighbours.Requests]] = {}
        for name in names:
            host = self.graph.host(name)
            indexes = {self.ifindexes[port.ifname]: plane for plane, port in enumerate(self.graph.ports_of(name))}
            requests[netns_path(name)] = {
                ifindex: partial(self._neighbours, host, plane, ifindex) for ifindex, plane in indexes.items()
            }
        neighbours.keep(requests)

    def _neighbours(self, host: Host, plane: int, ifindex: int) -> list[NetlinkRequest]:
        other_nics = [other.nics[plane] for other in self._others(host) if plane < len(other.nics)]
        return [_add_neighbour(ifindex, other) for other in other_nics]

    def _others(self, host: Host) -> list[Host]:
        """Returns the host's neighbours."""
        if self._peers is None:
            return [other for other in self.graph.hosts if other is not host]
        return [self.graph.host(name) for name in self._peers.get(host.name, ())]

    def _make_groups(self) -> None:
        if self._groups:
            self._root.batch([group_ports.create(group, self.ifindexes) for group in self._groups])

    def _bridges(self) -> list[Bridge]:
        """Returns the switches, each with its ports and group ports."""
        ports: dict[str, dict[str, int]] = {
            switch.name: {port.ifname: port.number for port in self.graph.ports_of(switch.name)} for switch in self.graph.switches
        }
        for group in self._groups:
            ports[group.switch][group.ifname] = group.number
        return [Bridge(name, f"{number:016x}", bridge_ports) for number, (name, bridge_ports) in enumerate(ports.items(), 1)]

    def _configure_switch_ports(self) -> None:
        requests = []
        for port in self.graph.switch_ports():
            ifindex = self.ifindexes[port.ifname]
            requests += [*self._queue(ifindex, port), cables.set_up(ifindex, port.ifname)]
            if port.queue.kind == "port":
                self._counting[ifindex] = port.ifname
            if port.queue.kind == "port" and port.queue.marking.kind != "none":
                self._marking[ifindex] = port.ifname
        self._root.batch(requests)

    def _queue(self, ifindex: int, port: Port) -> list[NetlinkRequest]:
        """Returns the requests that make a port's queue."""
        return [tc.set_queue(ifindex, port.queue, port.ifname)]


def netns_path(host: str) -> str:
    return str(NETNS_DIR / host)


def name_hosts(names: Iterable[str]) -> None:
    """Gives hosts UTS namespaces, in which `hostname` is their name, unless they have them."""
    NAMES_DIR.mkdir(exist_ok=True)
    new = {name: str(NAMES_DIR / name) for name in names if not (NAMES_DIR / name).exists()}
    add_namespaces(list(new.values()), CLONE_NEWUTS)
    for name, path in new.items():
        with entered(path, CLONE_NEWUTS):
            socket.sethostname(name)


@contextmanager
def at_host(name: str) -> Iterator[None]:
    """Moves the calling thread into a host's namespaces, of its network and its name, while the context is open."""
    name_hosts([name])
    with entered(netns_path(name)), entered(str(NAMES_DIR / name), CLONE_NEWUTS):
        yield


def _add_address(ifindex: int, host: str, nic: Nic) -> NetlinkRequest:
    address = IPv4Address(nic.address).packed
    body = IFADDRMSG.pack(socket.AF_INET, PREFIX_BITS, 0, 0, ifindex)
    body += attribute(IFA_LOCAL, address) + attribute(IFA_ADDRESS, address)
    return NetlinkRequest(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body, f"{host}: add address {nic.address}/{PREFIX_BITS}")


@cache  # every other host of a network asks for it
def _addresses(nic: Nic) -> bytes:
    address, mac = IPv4Address(nic.address).packed, bytes.fromhex(nic.mac.replace(":", ""))
    return attribute(NDA_DST, address) + attribute(NDA_LLADDR, mac)


def _add_neighbour(ifindex: int, other: Nic) -> NetlinkRequest:
    body = NDMSG.pack(socket.AF_INET, ifindex, NUD_PERMANENT, 0, 0) + _addresses(other)
    return NetlinkRequest(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body, f"add neighbour {other.address} at {other.mac}")


def _counters(text: str) -> dict[str, int]:
    """Reads the text of /proc/net/netstat or snmp, which are pairs of lines with names and values, into 'Prefix.Name'."""
    lines = text.splitlines()
    counters = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        prefix = names.split(":")[0]
        for name, value in zip(names.split()[1:], values.split()[1:], strict=True):
            counters[f"{prefix}.{name}"] = int(value)
    return counters
