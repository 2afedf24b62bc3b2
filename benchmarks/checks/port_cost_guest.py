# SPDX-License-Identifier: Apache-2.0
"""The program that `dcgym bench port-cost` runs in a lab: `python -m dc_gym.benchmarks.checks.port_cost_guest FOLDER`.

FOLDER/job.json is {"trials": [trial, ...], "bursts", "frames"}. A trial is {"sides": [{"net": NAME of COST_NETS, "ports": [fields
of OraclePort, ...]}, ...], "order": [number of a side, ...]}. The first port is the host's; a port with "stock" has a stock
queue. For each trial all queues are made anew, a burst passes each side, and the host is asked for a step. Then for each number
in `order` `bursts` bursts of `frames` frames pass that side, and the host is asked for a step. So all that happens
between two steps is the passage of frames. FOLDER/answer.json has the counters of all sides, trial by trial.

A burst is one call of sendmmsg(2) on a packet socket, at one instant of virtual time. The receiver's socket has room for one
frame, so that all others end there.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

from dc_gym.base.clock import sleep_until
from dc_gym.benchmarks.checks.links_guest import RECEIVER, Net, Network, ip, netns_path
from dc_gym.run.grounds.guest.echo import checksum
from dc_gym.run.grounds.guest.site import LAB_DEVICE, LAB_IOC_STEP
from dc_gym.topologies.realize.rtnl import entered
from dc_gym.topologies.telemetry import MOST_HOPS
from dc_gym.traffic.flows import RDMA_PORT

COST_NETS = {"first": Net(1, MOST_HOPS), "second": Net(1, MOST_HOPS), "no switch": Net(1, 0)}
FRAME_BYTES = 1000
ECT0 = 2
ETHERTYPE_IP = bytes([8, 0])
IP_UDP = struct.Struct("!BBHHHBBH4s4sHHHH")
ASKS = bytes([2, 1, 8])  # LAB_INT_VERSION, LAB_INT_WRITE, LAB_INT_FLAG of kernel/drivers/lab_int.h
RECORDS_AT = 32  # of the count of records in the UDP payload: LAB_INT_AT less the headers
SMALLEST_ROOM = 1
SO_SNDBUFFORCE = 32
IOVEC, MMSGHDR = struct.Struct("@PN"), struct.Struct("@PIPNPNi0PI0P")
"""struct mmsghdr: name and its length, parts and their number, control and its length, flags; then the number of bytes sent."""


def frame(source: bytes, target: bytes) -> bytes:
    """Returns a frame of a NIC that is ECN-capable and asks for telemetry."""
    size = FRAME_BYTES - 14
    fields = [0x45, ECT0, size, 0, 0, 64, socket.IPPROTO_UDP, 0, socket.inet_aton(ip(1)), socket.inet_aton(ip(RECEIVER))]
    udp = (RDMA_PORT, RDMA_PORT, size - 20, 0)
    fields[7] = checksum(IP_UDP.pack(*fields, *udp)[:20])
    return (target + source + ETHERTYPE_IP + IP_UDP.pack(*fields, *udp) + ASKS).ljust(FRAME_BYTES, b"\0")


class Passage:
    """A network, its sender of bursts, and its receiver."""

    def __init__(self, name: str, net: Net, frames: int) -> None:
        self.network = Network(name, net)
        first, last = self.network.wires[0][0], self.network.wires[-1][1]
        with entered(netns_path(first.node)):
            self._sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._sender.bind((first.ifname, 0))
        self._sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 28)
        with entered(netns_path(last.node)):
            self._receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALLEST_ROOM)
        self._receiver.bind(("", RDMA_PORT))
        self._receiver.setblocking(False)
        self._frame = ctypes.create_string_buffer(frame(self.network.mac(first), self.network.mac(last)))
        self._part = ctypes.create_string_buffer(IOVEC.pack(ctypes.addressof(self._frame), FRAME_BYTES))
        message = MMSGHDR.pack(0, 0, ctypes.addressof(self._part), 1, 0, 0, 0, 0)
        self._frames, self._messages = frames, ctypes.create_string_buffer(message * frames)
        self._pause_ns = self.sent = 0
        self._send = ctypes.CDLL(None, use_errno=True).sendmmsg

    def configure(self, ports: list[dict[str, Any]]) -> None:
        """Makes all queues anew."""
        self.network.configure(ports, False)
        self.sent = 0
        self._pause_ns = 2 * self._frames * FRAME_BYTES * 8 * 10**9 // min(port["rate_bps"] for port in ports)

    def burst(self) -> None:
        """Sends all frames at once, and sleeps twice the time that they take. Raises OSError if one is refused."""
        until_ns = time.monotonic_ns() + self._pause_ns
        sent = self._send(self._sender.fileno(), self._messages, self._frames, 0)
        if sent != self._frames:
            raise OSError(ctypes.get_errno(), f"sendmmsg: {sent} of {self._frames} frames were sent")
        self.sent += sent
        sleep_until(until_ns)

    def records(self) -> int:
        """Returns the number of records in the frame that the receiver has, and forgets it. Raises OSError if it has none."""
        data = self._receiver.recv(FRAME_BYTES)
        return int.from_bytes(data[RECORDS_AT : RECORDS_AT + 2], "big")


def run(lab: int, trial: dict[str, Any], passages: dict[str, Passage], bursts: int) -> list[dict[str, int]]:
    """Runs one trial. Returns for each side the records in its first frame, and the marks, drops and packet-hops of its
    switches."""
    sides = [passages[side["net"]] for side in trial["sides"]]
    for side, passage in zip(trial["sides"], sides, strict=True):
        passage.configure(side["ports"])
        passage.burst()
    _step(lab)
    for side in trial["order"]:
        for _ in range(bursts):
            sides[side].burst()
        _step(lab)
    return [_counters(passage) for passage in sides]


def _step(lab: int) -> None:
    fcntl.ioctl(lab, LAB_IOC_STEP, bytes(8))


def _counters(passage: Passage) -> dict[str, int]:
    switches = passage.network.counters()[1:]
    marks, drops = sum(switch.marks for switch in switches), sum(switch.drops for switch in switches)
    return {"records": passage.records(), "marks": marks, "drops": drops, "hops": passage.sent * len(switches)}


def main(folder: Path) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    job = json.loads((folder / "job.json").read_text())
    gc.disable()
    lab = os.open(LAB_DEVICE, os.O_RDWR)
    passages = {name: Passage(f"c{number}", net, job["frames"]) for number, (name, net) in enumerate(COST_NETS.items())}
    answers = [run(lab, trial, passages, job["bursts"]) for trial in job["trials"]]
    (folder / "answer.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
