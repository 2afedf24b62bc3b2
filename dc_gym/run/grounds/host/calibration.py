# SPDX-License-Identifier: Apache-2.0
"""Link calibration: measures each direction of each link on the idle network, before the traffic.

A single full frame gives the delay: from send() to the kernel's time stamp at the other end, less its serialization. A train of
full frames gives the rate, by its median gap. It also gives the pacing error: the difference of the gaps from the line's gaps.
Frames have an EtherType that nobody listens to (IEEE 802's local experimental one), and each crosses only one link. Each frame
has a number, so that a frame that comes too late for its try does not count for the next try.
"""

from __future__ import annotations

import socket
import statistics
import struct
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise
from typing import Any

from dc_gym.base.readable import quantity
from dc_gym.base.units import FRAME_BYTES
from dc_gym.topologies.graph import Cable, Graph, Port
from dc_gym.topologies.realize.fabric import Fabric, netns_path
from dc_gym.topologies.realize.rtnl import entered

ETHERTYPE = 0x88B5
HEAD = struct.Struct(">HI")  # EtherType and number of a frame
HEAD_AT = 12
ALL_PROTOCOLS = 3
SO_TIMESTAMPNS = 35
TIMESPEC = struct.Struct("=qq")
LONE_FRAMES, TRAIN_FRAMES = 5, 24
LEFT_OUT = 4  # first frames of a train that are left out: a token bucket sends them as a burst
RATE_TOLERANCE = 0.02
DELAY_TOLERANCE = 0.1
"""Tolerance, as a share of the delay with its serialization.

The time of one full frame is tolerated too, since no queue is known better than that.
"""
WAIT_S = 1.0
"""The time to wait for frames, beside the time of the link and its queue."""
TRIES = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurement of one direction of a link, named by the port that sends."""

    port: str
    asked_rate_bps: int
    asked_delay_ns: int
    rate_bps: int
    delay_ns: int
    pacing_error_ns: int
    """90th percentile of the difference between a gap in a train and the serialization time."""

    @property
    def frame_ns(self) -> int:
        return FRAME_BYTES * 8 * 10**9 // self.asked_rate_bps

    def row(self) -> dict[str, Any]:
        """Returns the row for the manifest's `calibration`: each quantity as [asked, found]."""
        return {
            "port": self.port,
            "how": "measured",
            "rate_bps": [self.asked_rate_bps, self.rate_bps],
            "delay_ns": [self.asked_delay_ns, self.delay_ns],
            "pacing_error_ns": [0, self.pacing_error_ns],
        }

    def faults(self) -> list[str]:
        """Returns sentences about all quantities that differ from the request by more than the tolerances."""
        sentences = []
        if abs(self.rate_bps - self.asked_rate_bps) > RATE_TOLERANCE * self.asked_rate_bps:
            sentences.append(
                f"{self.port}: rate {quantity(self.rate_bps, 'bps')} measured, {quantity(self.asked_rate_bps, 'bps')} asked"
            )
        allowed = max(self.frame_ns, DELAY_TOLERANCE * (self.frame_ns + self.asked_delay_ns))
        if abs(self.delay_ns - self.asked_delay_ns) > allowed:
            sentences.append(
                f"{self.port}: delay {quantity(self.delay_ns, 'ns')} measured, {quantity(self.asked_delay_ns, 'ns')} asked"
            )
        if self.pacing_error_ns > self.frame_ns:
            sentences.append(
                f"{self.port}: gaps between frames are {quantity(self.pacing_error_ns, 'ns')} off, more than a frame's time"
            )
        return sentences


def longest_s(graph: Graph) -> float:
    """Returns the time that measuring all links takes at most."""
    train_bits = TRAIN_FRAMES * FRAME_BYTES * 8
    each_s = (WAIT_S + cable.delay_ns / 1e9 + train_bits / cable.rate_bps for cable in graph.cables)
    return 2 * TRIES * (LONE_FRAMES + 1) * sum(each_s)


def measure(fabric: Fabric) -> list[Measured]:
    """Measures every direction of every link, one after the other."""
    measurements, numbers = [], count()
    for cable in fabric.graph.cables:
        for sender, receiver in ((cable.a, cable.b), (cable.b, cable.a)):
            with _tap(fabric, sender) as source, _tap(fabric, receiver) as sink:
                measurements.append(_tried(cable, sender, source, sink, numbers))
    return measurements


def _tried(cable: Cable, sender: Port, source: socket.socket, sink: socket.socket, numbers: Iterator[int]) -> Measured:
    """Measures a link, and repeats it if necessary: a stall of the machine is not the link's fault."""
    for _ in range(TRIES - 1):
        measured = _measure(cable, sender, source, sink, numbers)
        if not measured.faults():
            return measured
    return _measure(cable, sender, source, sink, numbers)


def _measure(cable: Cable, sender: Port, source: socket.socket, sink: socket.socket, numbers: Iterator[int]) -> Measured:
    frame_ns = FRAME_BYTES * 8 * 10**9 // cable.rate_bps
    wait_s = WAIT_S + (cable.delay_ns + TRAIN_FRAMES * frame_ns) / 1e9
    lone = [_one_way_ns(source, sink, number, wait_s) - frame_ns for number in islice(numbers, LONE_FRAMES)]
    train = list(islice(numbers, max(LEFT_OUT + 4, min(TRAIN_FRAMES, sender.queue.limit_bytes // FRAME_BYTES))))
    for number in train:
        source.send(_frame(number))
    times = _arrivals(sink, train, wait_s)[LEFT_OUT:]
    gaps = [later - sooner for sooner, later in pairwise(times)]
    gap_ns = statistics.median(gaps) if gaps else 0
    return Measured(
        port=sender.ifname,
        asked_rate_bps=cable.rate_bps,
        asked_delay_ns=cable.delay_ns,
        rate_bps=int(FRAME_BYTES * 8 * 10**9 / gap_ns) if gap_ns > 0 else 0,
        delay_ns=int(statistics.median(lone)),
        pacing_error_ns=percentile_90([abs(gap - frame_ns) for gap in gaps]),
    )


def percentile_90(values: Sequence[int]) -> int:
    return sorted(values)[len(values) * 9 // 10] if values else 0


def _tap(fabric: Fabric, port: Port) -> socket.socket:
    """Opens a packet socket at a port. It sees frames before a switch takes them."""
    hosts = {host.name for host in fabric.graph.hosts}
    with entered(netns_path(port.node) if port.node in hosts else None):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    tap.bind((port.ifname, ALL_PROTOCOLS))
    return tap


def _frame(number: int) -> bytes:
    head = bytes.fromhex("02ffffffffff02fffffffffe") + HEAD.pack(ETHERTYPE, number)
    return head.ljust(FRAME_BYTES, b"\0")


def _one_way_ns(source: socket.socket, sink: socket.socket, number: int, wait_s: float) -> int:
    sent = time.time_ns()
    source.send(_frame(number))
    arrived = _arrivals(sink, [number], wait_s)
    return arrived[0] - sent if arrived else int(wait_s * 1e9)


def _arrivals(sink: socket.socket, numbers: Collection[int], wait_s: float = WAIT_S) -> list[int]:
    """Returns the kernel's arrival times of the frames with these numbers, as far as they arrive."""
    heads = {HEAD.pack(ETHERTYPE, number) for number in numbers}
    times: list[int] = []
    deadline = time.monotonic() + wait_s
    while len(times) < len(heads) and (left := deadline - time.monotonic()) > 0:
        sink.settimeout(left)
        try:
            data, ancillary, _flags, address = sink.recvmsg(64, 128)
        except TimeoutError:
            break
        is_expected = data[HEAD_AT : HEAD_AT + HEAD.size] in heads and address[2] != socket.PACKET_OUTGOING
        for level, kind, stamp in ancillary if is_expected else ():
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, nanoseconds = TIMESPEC.unpack(stamp)
                times.append(seconds * 10**9 + nanoseconds)
    return times
