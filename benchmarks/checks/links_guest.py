# SPDX-License-Identifier: Apache-2.0
"""The program that `dcgym bench links` and tests run in a lab: `python -m dc_gym.benchmarks.checks.links_guest FOLDER`.

It reads FOLDER/jobs.jsonl, one job per line, and writes FOLDER/answers.jsonl, one answer per line. A network is made when a job
first names it. A job gives the rates, delays and queues of its ports, which are set over netlink each time.

    {"net": NAME, "ports": [fields of OraclePort, ...], "schedule": rows of linkprobe}
      -> {"probe": linkprobe's answer, "counters": [...]}, and with
      "drain_ns": N   -> also "drained": the counters N ns later; the first ones are then of a network with traffic
      "cut": true     -> before that the receiver's device goes down, permanently
      "stock": true   -> queues are stock ones, bfifo and RED, instead of `port`
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from dc_gym.base.package import PROGRAMS
from dc_gym.topologies.graph import NETNS_FOLDER, NO_MARKING, Marking, Queue, Telemetry
from dc_gym.topologies.realize import cables, rtnl, tc
from dc_gym.topologies.realize.system import HERE

PROBE = PROGRAMS / "linkprobe"
RTM_DELQDISC = 37
AF_BRIDGE = 7
NUD_NOARP, NUD_PERMANENT, NTF_MASTER, NTF_STICKY = 0x40, 0x80, 4, 0x40
NDA_DST, NDA_LLADDR = 1, 2
IFA_ADDRESS, IFA_LOCAL = 1, 2
IFLA_MASTER = 10
AnyNetwork = TypeVar("AnyNetwork")
RECEIVER = 100
NO_QUEUE = tc.QueueCounters(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Net:
    """Senders at one end, a receiver at the other, bridges between them. Ports are in the order in which frames cross them."""

    senders: int
    bridges: int

    @property
    def ports(self) -> int:
        return self.senders + self.bridges


NETS = {
    "chain1": Net(1, 0),
    "chain2": Net(1, 1),
    "chain4": Net(1, 3),
    "chain7": Net(1, 6),
    "incast4": Net(4, 1),
    "cut1": Net(1, 0),
}


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one port and of the cable behind it, at one moment."""

    tx_packets: int
    tx_bytes: int
    flight_packets: int
    flight_bytes: int
    lost_packets: int
    lost_bytes: int
    rx_packets: int
    """Counted at the other end, as is rx_bytes."""
    rx_bytes: int
    other_drops: int
    """Drops that the devices at both ends count, except lost_packets."""
    backlog_packets: int
    backlog_bytes: int
    drops: int
    marks: int

    def since(self, before: Counters) -> Counters:
        """Subtracts `before` from the totals; queued frames and frames under way stay as they are."""
        totals = ("tx_packets", "tx_bytes", "lost_packets", "lost_bytes", "rx_packets", "rx_bytes", "other_drops")
        return Counters(**{**asdict(self), **{name: getattr(self, name) - getattr(before, name) for name in totals}})


@dataclass(frozen=True, slots=True)
class End:
    """A device in a namespace."""

    node: str
    ifname: str
    ifindex: int


class Network:
    """A Net that has been built."""

    def __init__(self, name: str, net: Net) -> None:
        self.name, self.net = name, net
        self._senders = [f"{name}-h{index}" for index in range(net.senders)]
        self._bridges = [f"{name}-s{index}" for index in range(net.bridges)]
        self._receiver = f"{name}-rx"
        nodes = [*self._senders, *self._bridges, self._receiver]
        rtnl.add_namespaces([netns_path(node) for node in nodes])
        self._sockets = {node: rtnl.NetlinkSocket(netns_path(node)) for node in nodes}
        self.wires = [join(self._sockets, *pair, index) for index, pair in enumerate(self._pairs())]
        self._join_bridges()
        self._address_hosts()
        self._probe: subprocess.Popen[str] | None = None
        self._queued: set[int] = set()  # ports with a queue that this program set

    def _pairs(self) -> Iterator[tuple[str, str]]:
        first = self._bridges[0] if self._bridges else self._receiver
        yield from ((sender, first) for sender in self._senders)
        yield from zip(self._bridges, [*self._bridges[1:], self._receiver], strict=False)

    def _join_bridges(self) -> None:
        for node in self._bridges:
            sock = self._sockets[node]
            add_bridge(sock, node, [end for wire in self.wires for end in wire if end.node == node])
            out = next(wire[0] for wire in self.wires if wire[0].node == node)
            sock.batch([forward_to(out, mac_of(self._receiver, self.wires[-1][1].ifname))])

    def _address_hosts(self) -> None:
        receiver = self.wires[-1][1]
        for number, (sender, _) in enumerate(self.wires[: self.net.senders], 1):
            self._sockets[sender.node].batch([add_address(sender, number), add_neighbour(sender, RECEIVER, receiver)])
            self._sockets[receiver.node].batch([add_neighbour(receiver, number, sender)])
        self._sockets[receiver.node].batch([add_address(receiver, RECEIVER)])

    def _start_probe(self) -> subprocess.Popen[str]:
        senders = ",".join(netns_path(node) for node in self._senders)
        ports = ",".join(f"{netns_path(port.node)}:{port.ifname}" for port, _ in self.wires)
        ends = ("--address", ip(RECEIVER), "--receiver", netns_path(self._receiver))
        argv = [str(PROBE), *ends, "--senders", senders, "--ports", ports]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def configure(self, ports: list[dict[str, Any]], stock: bool) -> None:
        """Sets rate, delay and a new queue for each port. `stock`: queues are bfifo and RED; a port's key "stock" counts, too."""
        for index, ((end, _), port) in enumerate(zip(self.wires, ports, strict=True)):
            queue = _queue(port, stock or port.get("stock", False))
            requests = [delete_queue(end)] if index in self._queued else []
            requests.append(tc.set_queue(end.ifindex, queue, end.ifname))
            if queue.kind == "port":
                requests.append(tc.seed_draws(end.ifindex, end.ifname, port["seed"]))
            requests.append(cables.change(end.ifindex, end.ifname, port["rate_bps"], port["delay_ns"]))
            self._sockets[end.node].batch(requests)
            self._queued.add(index)

    def play(self, schedule: str) -> str:
        """Runs one schedule with linkprobe and returns its answer."""
        self._probe = self._probe or self._start_probe()
        return play(self._probe, schedule)

    @staticmethod
    def mac(end: End) -> bytes:
        """Returns the address of a device."""
        return bytes.fromhex(mac_of(end.node, end.ifname).replace(":", ""))

    def counters(self) -> list[Counters]:
        """Returns the counters of all ports. Raises RuntimeError if any of them changed while they were read."""
        first, second = self.read(), self.read()
        if first != second:
            raise RuntimeError(f"{self.name}: the counters moved while they were read: {first} {second}")
        return first

    def read(self) -> list[Counters]:
        """Returns the counters of all ports since they were made; queues count since they were set."""
        devices = {node: cables.devices(sock) for node, sock in self._sockets.items()}
        queues = {node: tc.queue_counters(sock) for node, sock in self._sockets.items()}
        marks = {node: tc.marks(sock) for node, sock in self._sockets.items()}
        return [
            _counters(
                devices[end.node][end.ifname],
                devices[other.node][other.ifname],
                queues[end.node].get(end.ifindex, NO_QUEUE),
                marks[end.node].get(end.ifindex, 0),
            )
            for end, other in self.wires
        ]

    def cut(self) -> None:
        """Sets the receiver's device down."""
        end = self.wires[-1][1]
        body = rtnl.IFINFOMSG.pack(0, 0, end.ifindex, 0, cables.IFF_UP)
        self._sockets[end.node].batch([rtnl.NetlinkRequest(rtnl.RTM_NEWLINK, 0, body, f"{end.ifname}: set down")])


def join(sockets: dict[str, rtnl.NetlinkSocket], left: str, right: str, index: int) -> tuple[End, End]:
    """Makes a cable between two nodes, whose sockets are given, and sets it up."""
    ends = {left: f"p{index}", right: f"q{index}"}
    with HERE.namespaces({node: netns_path(node) for node in ends}) as fds, rtnl.NetlinkSocket() as sock:
        one, other = (cables.CableEnd(ifname, mac_of(node, ifname), fds[node]) for node, ifname in ends.items())
        sock.batch([cables.create(one, other, 10**10, 0)])
    wire = [End(node, ifname, cables.devices(sockets[node])[ifname].ifindex) for node, ifname in ends.items()]
    for end in wire:
        sockets[end.node].batch([cables.set_up(end.ifindex, end.ifname)])
    return wire[0], wire[1]


def add_bridge(sock: rtnl.NetlinkSocket, node: str, slaves: list[End]) -> None:
    """Makes a bridge of devices."""
    info = rtnl.nested(cables.IFLA_LINKINFO, rtnl.attr_text(cables.IFLA_INFO_KIND, "bridge"))
    body = rtnl.IFINFOMSG.pack(0, 0, 0, cables.IFF_UP, cables.IFF_UP) + rtnl.attr_text(cables.IFLA_IFNAME, "br0") + info
    sock.batch([rtnl.NetlinkRequest(rtnl.RTM_NEWLINK, rtnl.NLM_F_CREATE | rtnl.NLM_F_EXCL, body, f"{node}: add bridge")])
    with rtnl.entered(netns_path(node)):
        bridge = socket.if_nametoindex("br0")
    sock.batch([enslave(end, bridge) for end in slaves])


def play(probe: subprocess.Popen[str], schedule: str) -> str:
    """Runs one schedule with linkprobe and returns its answer."""
    assert probe.stdin is not None and probe.stdout is not None
    probe.stdin.write(schedule + "run\n")
    probe.stdin.flush()
    lines: list[str] = []
    for line in probe.stdout:
        if line == "end\n":
            return "".join(lines)
        lines.append(line)
    raise RuntimeError(f"linkprobe ended with status {probe.wait()}")


def netns_path(node: str) -> str:
    return f"{NETNS_FOLDER}/{node}"


def ip(number: int) -> str:
    return f"10.0.0.{number}"


def mac_of(node: str, ifname: str) -> str:
    return "02:" + hashlib.blake2b(f"{node}/{ifname}".encode(), digest_size=5).digest().hex(":")


def enslave(end: End, bridge: int) -> rtnl.NetlinkRequest:
    body = rtnl.IFINFOMSG.pack(0, 0, end.ifindex, 0, 0) + rtnl.attr_u32(IFLA_MASTER, bridge)
    return rtnl.NetlinkRequest(rtnl.RTM_NEWLINK, 0, body, f"{end.ifname}: join the bridge")


def forward_to(end: End, mac: str) -> rtnl.NetlinkRequest:
    """Teaches the bridge a host's port; otherwise it would flood. The host's own frames do not change the entry."""
    body = rtnl.NDMSG.pack(AF_BRIDGE, end.ifindex, NUD_NOARP, NTF_MASTER | NTF_STICKY, 0)
    body += rtnl.attribute(NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))
    return rtnl.NetlinkRequest(rtnl.RTM_NEWNEIGH, rtnl.NLM_F_CREATE, body, f"{end.ifname}: forward to {mac}")


def add_address(end: End, number: int) -> rtnl.NetlinkRequest:
    value = socket.inet_aton(ip(number))
    body = rtnl.IFADDRMSG.pack(socket.AF_INET, 24, 0, 0, end.ifindex)
    body += rtnl.attribute(IFA_LOCAL, value) + rtnl.attribute(IFA_ADDRESS, value)
    return rtnl.NetlinkRequest(rtnl.RTM_NEWADDR, rtnl.NLM_F_CREATE, body, f"{end.ifname}: add address {ip(number)}")


def add_neighbour(end: End, number: int, other: End) -> rtnl.NetlinkRequest:
    mac = bytes.fromhex(mac_of(other.node, other.ifname).replace(":", ""))
    body = rtnl.NDMSG.pack(socket.AF_INET, end.ifindex, NUD_PERMANENT, 0, 0)
    body += rtnl.attribute(NDA_DST, socket.inet_aton(ip(number))) + rtnl.attribute(NDA_LLADDR, mac)
    return rtnl.NetlinkRequest(rtnl.RTM_NEWNEIGH, rtnl.NLM_F_CREATE, body, f"{end.ifname}: add neighbour {ip(number)}")


def delete_queue(end: End) -> rtnl.NetlinkRequest:
    body = rtnl.TCMSG.pack(0, end.ifindex, tc.HANDLE, tc.TC_H_ROOT, 0)
    return rtnl.NetlinkRequest(RTM_DELQDISC, 0, body, f"{end.ifname}: delete the queue")


def _queue(port: dict[str, Any], stock: bool) -> Queue:
    marks, limit_bytes = _marking(port), port["limit_bytes"]
    if stock:
        return Queue(limit_bytes, "bfifo" if marks.kind == "none" else "red", marks)
    telemetry = None if port["int_rate"] is None else telemetry_of(port["int_rate"], port["rate_bps"])
    return Queue(limit_bytes, "port", marks, telemetry=telemetry)


def _marking(port: dict[str, Any]) -> Marking:
    kmin, kmax = port["mark_bytes"], port["kmax_bytes"]
    if kmin is None:
        return NO_MARKING
    if kmax is None:
        return Marking("step", k_bytes=kmin, at=port["marks_at"])
    return Marking("red-instant", min_bytes=kmin, max_bytes=kmax, probability_ppm=port["pmax_ppm"], at=port["marks_at"])


def telemetry_of(index: int, rate_bps: int) -> Telemetry:
    """Returns units that differ from port to port, so that no field can stand for another."""
    return Telemetry(index, time_ns=1 + index, sent_bytes=max(1, 128 * rate_bps // 25_000_000_000), queue_bytes=80 + index)


def _counters(near: cables.Device, far: cables.Device, queue: tc.QueueCounters, marks: int) -> Counters:
    totals = {name: getattr(near, name) for name in ("tx_packets", "tx_bytes", "lost_packets", "lost_bytes")}
    return Counters(
        **totals,
        flight_packets=near.flight_packets,
        flight_bytes=near.flight_bytes,
        rx_packets=far.rx_packets,
        rx_bytes=far.rx_bytes,
        other_drops=near.tx_dropped + near.rx_dropped - near.lost_packets + far.rx_dropped + far.tx_dropped - far.lost_packets,
        backlog_packets=queue.backlog_packets,
        backlog_bytes=queue.backlog_bytes,
        drops=queue.drops,
        marks=marks,
    )


def _run(network: Network, job: dict[str, Any]) -> dict[str, Any]:
    network.configure(job["ports"], job.get("stock", False))
    before = network.counters()
    answer: dict[str, Any] = {"probe": network.play(job["schedule"])}
    answer["counters"] = [asdict(now.since(then)) for now, then in zip(network.counters(), before, strict=True)]
    if "drain_ns" in job:
        if job.get("cut"):
            network.cut()
        network.play(f"{job['drain_ns']},0,0,0,0\n")
        answer["drained"] = [asdict(now.since(then)) for now, then in zip(network.counters(), before, strict=True)]
    return answer


def answer_jobs(folder: Path, network: Callable[[str], AnyNetwork], run: Callable[[AnyNetwork, dict[str, Any]], Any]) -> None:
    """Answers each line of FOLDER/jobs.jsonl with a line of FOLDER/answers.jsonl. A network is made when a job first names it."""
    networks: dict[str, AnyNetwork] = {}
    with (folder / "jobs.jsonl").open() as jobs, (folder / "answers.jsonl").open("w") as answers:
        for line in jobs:
            job = json.loads(line)
            name = job["net"]
            if name not in networks:
                networks[name] = network(name)
            answers.write(json.dumps(run(networks[name], job)) + "\n")


if __name__ == "__main__":
    answer_jobs(Path(sys.argv[1]), lambda name: Network(name, NETS[name]), _run)
