# SPDX-License-Identifier: Apache-2.0
"""The program that test_marking_changes.py runs in a lab: `python -m marking_changes_guest FOLDER`.

A line of FOLDER/jobs.jsonl is {"changes", "seed", "qdisc"}, the last `port` or `red`. FOLDER/answers.jsonl says: `arrived` frames
by number in their order, `marked` (1 for a frame with CE), `settings` (the number of the setting of each frame),
`unlike` (changes after which the kernel says another setting), and `filled` frames that the empty queue took at the end.

A port sends frames with ECT at line rate from a queue that never empties. At each frame time the port's marking is changed by the
request of the actuator `marking`, the kernel is asked what it has now, and one numbered frame is sent.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Literal

from dc_gym.base.clock import sleep_until
from dc_gym.base.units import PPM
from dc_gym.ctrl import actuators
from dc_gym.run.plan.actuation import Request, request_of
from dc_gym.topologies.graph import Marking, Port, Queue
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.rtnl import (
    NLMSG_HDR,
    RTM_GETQDISC,
    RTM_NEWQDISC,
    TCMSG,
    NetlinkRequest,
    NetlinkSocket,
    attributes,
)

LINE_BPS = 10**9
FRAME_BYTES = 1000
FRAME_NS = FRAME_BYTES * 8 * 10**9 // LINE_BPS
QUEUED = 64
"""Frames at the port all the time."""
LIMIT_BYTES = 200 * FRAME_BYTES
MIDDLE_BYTES = (QUEUED - 2) * FRAME_BYTES
"""The bytes that a frame finds queued: of the others one is being sent, and one has just left."""
SETTINGS = (
    (LIMIT_BYTES, LIMIT_BYTES, PPM),
    (FRAME_BYTES, FRAME_BYTES, PPM),
    (MIDDLE_BYTES // 2, MIDDLE_BYTES * 3 // 2, PPM),
)
"""Kmin, Kmax, Pmax: no frame is marked, each frame is, and one in two."""
ETHERTYPE_IP, ECT, CE = 0x0800, 0b10, 0b11
HEADER = bytes([0xFF] * 6) + bytes.fromhex("02000000000a") + ETHERTYPE_IP.to_bytes(2, "big")
IP = struct.Struct("!BBHHHBBH4s4s")
NUMBER = struct.Struct("!I")
NUMBER_AT = len(HEADER) + IP.size
TOS_AT = len(HEADER) + 1
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
LEAD_NS = 1_000_000
READ_EVERY = 500


def frame(number: int) -> bytes:
    """Returns a numbered frame with ECT(0)."""
    size = FRAME_BYTES - len(HEADER)
    ip = IP.pack(0x45, ECT, size, 0, 0, 64, 253, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    return (HEADER + ip + NUMBER.pack(number)).ljust(FRAME_BYTES, b"\0")


class ChangedPort:
    """One end of a cable with the queue that is changed, and the other end."""

    def __init__(self, netlink: NetlinkSocket, qdisc: Literal["port", "red"]) -> None:
        self._netlink = netlink
        netlink.batch([cables.create(cables.CableEnd("a"), cables.CableEnd("b"), LINE_BPS, 0)])
        ends = {name: device.ifindex for name, device in cables.devices(netlink).items()}
        netlink.batch([cables.set_up(ifindex, name) for name, ifindex in ends.items()])
        cables.settle(netlink, ends.values())
        self._ifindex = ends["a"]
        port = Port("s1", "s1-eth1", Queue(LIMIT_BYTES, qdisc, Marking("step", k_bytes=MIDDLE_BYTES)))
        netlink.batch([tc.set_queue(self._ifindex, port.queue, "a")])
        actuator = actuators.find("marking")
        assert actuator is not None
        self._request: Request = request_of(qdisc, actuator.attributes(None, port, None), actuator.quantities)  # type: ignore[arg-type]
        self.sender = self._socket("a", 0, SO_SNDBUFFORCE)
        self.receiver = self._socket("b", ETHERTYPE_IP, SO_RCVBUFFORCE)

    @staticmethod
    def _socket(ifname: str, protocol: int, option: int) -> socket.socket:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
        sock.bind((ifname, protocol))
        sock.setsockopt(socket.SOL_SOCKET, option, 1 << 28)
        return sock

    def change(self, setting: tuple[int, int, int]) -> None:
        body = bytearray(self._request.message[NLMSG_HDR.size :])
        TCMSG.pack_into(body, 0, 0, self._ifindex, tc.HANDLE, tc.TC_H_ROOT, 0)
        for field in self._request.writes:
            raw = min(setting[field["value"]] * field["multiplier"] // field["divisor"], (1 << 8 * field["width"]) - 1)
            at = field["offset"] - NLMSG_HDR.size
            body[at : at + field["width"]] = raw.to_bytes(field["width"], "little")
        self._netlink.batch([NetlinkRequest(RTM_NEWQDISC, 0, bytes(body), "change the marking")])

    def fill(self) -> int:
        """Sends frames at one moment until the queue refuses one. Returns how many it took, with the one that leaves at once."""
        for taken in range(2 * LIMIT_BYTES // FRAME_BYTES):
            try:
                self.sender.send(frame(taken))
            except OSError:  # ENOBUFS
                return taken
        return 2 * LIMIT_BYTES // FRAME_BYTES

    def setting(self) -> tuple[int, ...]:
        """Returns what the kernel says that the port has."""
        for payload in self._netlink.dump(RTM_GETQDISC, TCMSG.pack(0, 0, 0, 0, 0)):
            _family, ifindex, _handle, parent, _info = TCMSG.unpack_from(payload)
            if ifindex == self._ifindex and parent == tc.TC_H_ROOT:
                options = attributes(attributes(payload[TCMSG.size :])[tc.TCA_OPTIONS])
                values = [0, 0, 0]
                for field in self._request.reads:
                    raw = int.from_bytes(options[field["attribute"]][field["offset"] :][: field["width"]], "little")
                    values[field["value"]] = -(-raw * field["divisor"] // field["multiplier"])
                return tuple(values)
        raise AssertionError("the port has no queue")


def run(changes: int, seed: int, qdisc: Literal["port", "red"]) -> dict[str, object]:
    drawn = random.Random(seed)
    settings = [0] * QUEUED + [drawn.randrange(len(SETTINGS)) for _ in range(changes)]
    arrived: list[int] = []
    marked: list[int] = []
    unlike = 0

    with NetlinkSocket() as netlink:
        port = ChangedPort(netlink, qdisc)

        def read(count: int) -> None:
            for _ in range(count):
                data = port.receiver.recv(FRAME_BYTES)
                arrived.append(NUMBER.unpack_from(data, NUMBER_AT)[0])
                marked.append(int(data[TOS_AT] & CE == CE))

        start_ns = time.monotonic_ns() + LEAD_NS
        sleep_until(start_ns)
        for number in range(QUEUED):
            port.sender.send(frame(number))
        for number in range(QUEUED, QUEUED + changes):
            sleep_until(start_ns + (number - QUEUED + 1) * FRAME_NS)
            setting = SETTINGS[settings[number]]
            port.change(setting)
            unlike += port.setting() != setting
            port.sender.send(frame(number))
            if number % READ_EVERY == 0:
                read(number - QUEUED - len(arrived))
        end_ns = start_ns + (changes + 4 * QUEUED) * FRAME_NS
        sleep_until(end_ns)
        read_all(port.receiver, arrived, marked)
        (drops,) = (counters.drops for counters in tc.queue_counters(netlink).values() if counters.tx_packets)
        port.change(SETTINGS[0])
        taken = port.fill()
    return {
        "arrived": arrived,
        "marked": marked,
        "settings": settings,
        "unlike": unlike,
        "drops": drops,
        "filled": taken,
    }


def read_all(receiver: socket.socket, arrived: list[int], marked: list[int]) -> None:
    """Reads the frames that have arrived and were not yet read."""
    receiver.setblocking(False)
    try:
        while True:
            data = receiver.recv(FRAME_BYTES)
            arrived.append(NUMBER.unpack_from(data, NUMBER_AT)[0])
            marked.append(int(data[TOS_AT] & CE == CE))
    except BlockingIOError:
        return


def main(folder: Path) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    job = json.loads((folder / "jobs.jsonl").read_text())
    (folder / "answers.jsonl").write_text(json.dumps(run(job["changes"], job["seed"], job["qdisc"])))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
