# SPDX-License-Identifier: Apache-2.0
"""The program that fabric_lab.py runs in a lab: `python -m fabric_guest FOLDER`.

It reads FOLDER/jobs.jsonl, one job per line, and writes FOLDER/answers.jsonl, one answer per line. A network is made when a job
first names it. Every port of a job gets its rate, its delay and a new queue.

    {"net": NAME, "ports": [fields of FabricPort, ...], "schedule": rows of linkprobe, "repeat": N}
      -> {"probe": linkprobe's answer to the last of N repetitions, "devices": [counters of each port, ...], "pauses": sent,
          "trims": [frames that each port trimmed and the bytes that it cut off, ...],
          "memory_kb": [the kernel's memory after each repetition, ...]}
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fabric_nets import NETS, FabricNet, FabricPort

from dc_gym.benchmarks.checks.links_guest import (
    PROBE,
    End,
    add_address,
    add_bridge,
    add_neighbour,
    answer_jobs,
    delete_queue,
    forward_to,
    ip,
    join,
    mac_of,
    netns_path,
    play,
)
from dc_gym.topologies.graph import from_plain
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.rtnl import NetlinkSocket, add_namespaces

DEVICE_COUNTERS = (
    *("tx_packets", "rx_packets", "lost_packets", "flight_packets"),
    *("pauses_sent", "pauses_received", "pauses_in_flight"),
)
KERNEL_MEMORY = ("Slab", "KernelStack", "PageTables")


class Network:
    """A FabricNet that has been built."""

    def __init__(self, name: str, net: FabricNet) -> None:
        self.net, self._name = net, name
        nodes = [self._of(node) for node in self._plain_nodes()]
        add_namespaces([netns_path(node) for node in nodes])
        self._sockets = {node: NetlinkSocket(netns_path(node)) for node in nodes}
        wires = [join(self._sockets, self._of(a), self._of(b), index) for index, (a, b) in enumerate(net.wires)]
        self.ports: list[End] = [end for wire in wires for end in wire]
        self._hosts = [self.ports[net.host_port(host)] for host in range(net.hosts)]
        self._join_switches()
        self._address_hosts()
        self._probe = self._start_probe()
        self._queued = False

    def _of(self, node: str) -> str:
        return f"{self._name}-{node}"

    def _plain_nodes(self) -> list[str]:
        return [*(f"h{number}" for number in range(self.net.hosts)), *(f"s{number}" for number in range(self.net.switches))]

    def _join_switches(self) -> None:
        for number in range(self.net.switches):
            switch = f"s{number}"
            sock = self._sockets[self._of(switch)]
            add_bridge(sock, self._of(switch), [self.ports[port] for port in self.net.ports_of(switch)])
            sock.batch(
                [
                    forward_to(self.ports[self.net.routes[switch, host]], mac_of(end.node, end.ifname))
                    for host, end in enumerate(self._hosts)
                ]
            )

    def _address_hosts(self) -> None:
        for host, end in enumerate(self._hosts):
            others = [add_neighbour(end, 1 + number, other) for number, other in enumerate(self._hosts) if other != end]
            self._sockets[end.node].batch([add_address(end, 1 + host), *others])

    def _start_probe(self) -> subprocess.Popen[str]:
        hosts = ",".join(netns_path(end.node) for end in self._hosts)
        addresses = ",".join(ip(1 + host) for host in range(self.net.hosts))
        ports = ",".join(f"{netns_path(end.node)}:{end.ifname}" for end in self.ports)
        argv = [str(PROBE), "--address", addresses, "--receiver", hosts, "--senders", hosts, "--ports", ports]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def configure(self, ports: Sequence[FabricPort]) -> None:
        """Sets rate and delay of each port, and a new queue. Old queues go first, and with them the pools."""
        if self._queued:
            for end in self.ports:
                self._sockets[end.node].batch([delete_queue(end)])
        for end, port in zip(self.ports, ports, strict=True):
            change = cables.change(end.ifindex, end.ifname, port.rate_bps, port.delay_ns)
            requests = [change, tc.set_queue(end.ifindex, port.queue, end.ifname)]
            if port.queue.kind == "port":
                requests.append(tc.seed_draws(end.ifindex, end.ifname, port.seed))
            self._sockets[end.node].batch(requests)
        self._queued = True

    def check(self, ports: Sequence[FabricPort]) -> None:
        """Raises FabricError where a queue is not what was requested."""
        for node, sock in self._sockets.items():
            here = [(end, port) for end, port in zip(self.ports, ports, strict=True) if end.node == node]
            tc.check_queues(sock, {end.ifindex: (end.ifname, port.queue) for end, port in here})

    def play(self, schedule: str) -> str:
        return play(self._probe, schedule)

    def devices(self) -> list[dict[str, int]]:
        """Returns the counters of the device of each port."""
        devices = {node: cables.devices(sock) for node, sock in self._sockets.items()}
        counters = [asdict(devices[end.node][end.ifname]) for end in self.ports]
        return [{counter: device[counter] for counter in DEVICE_COUNTERS} for device in counters]

    def trims(self) -> list[tuple[int, int]]:
        """Returns the frames that each port has trimmed, and the bytes that it has cut off, since it has its queue."""
        queues = {node: tc.queue_counters(sock) for node, sock in self._sockets.items()}
        counted = [queues[end.node][end.ifindex] for end in self.ports]
        return [(queue.trimmed_packets, queue.trimmed_bytes) for queue in counted]


def kernel_memory_kb() -> int:
    """Returns the memory that the kernel has for itself."""
    lines = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    return sum(int(words[1]) for words in lines if words[0].rstrip(":") in KERNEL_MEMORY)


def _pauses(devices: list[dict[str, int]]) -> int:
    return sum(device["pauses_sent"] for device in devices)


def _run(network: Network, job: dict[str, Any]) -> dict[str, Any]:
    ports = from_plain(tuple[FabricPort, ...], job["ports"], "ports")
    network.configure(ports)
    network.check(ports)
    before = network.devices()
    memory = []
    for _ in range(job["repeat"]):
        probe = network.play(job["schedule"])
        memory.append(kernel_memory_kb())
    now = network.devices()
    pauses = _pauses(now) - _pauses(before)
    return {"probe": probe, "devices": now, "pauses": pauses, "trims": network.trims(), "memory_kb": memory}


if __name__ == "__main__":
    answer_jobs(Path(sys.argv[1]), lambda name: Network(name, NETS[name]), _run)
