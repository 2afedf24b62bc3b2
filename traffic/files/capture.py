# SPDX-License-Identifier: Apache-2.0
"""A capture of packets (pcap, pcapng) as flows: one for each direction of a 5-tuple that carries payload.

A flow starts with its SYN, or with its first payload, and counts payload by sequence numbers, so retransmissions count once. A
SYN after payload begins another flow. UDP flows count the payload of each datagram. Lengths are those of the IP headers, so
packets may be cut short in the capture. Later fragments and packets that are neither TCP nor UDP are not used. The file is read
packet by packet; memory grows with the flows alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from ipaddress import ip_address
from pathlib import Path

from dc_gym.traffic.files import fault
from dc_gym.traffic.files.model import FileFlow, FileFlows, FlowReader
from dc_gym.traffic.flows import MOST_FLOWS

NS_PER_S = 10**9
PCAP = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
"""The ns of the smaller part of a time, by the magic number of a pcap."""
SECTION, BYTE_ORDER = 0x0A0D0D0A, 0x1A2B3C4D
INTERFACE, PACKET = 1, 6
RESOLUTION, OFFSET = 9, 14
"""Options of an interface of pcapng: the unit of times, and the seconds to add to them."""
MOST_BYTES = 1 << 24
"""A larger packet or block is a broken file."""
ETHERNET, VLANS, IP = 1, (0x8100, 0x88A8), (0x0800, 0x86DD)
LINKS = {0: 4, 12: 0, 101: 0, 108: 4, 113: 16, 228: 0, 229: 0, 276: 20}
"""The bytes before the IP header, by the numbers of link types: loopback, raw IP and Linux' cooked captures."""
TCP, UDP, SYN, ACK = 6, 17, 2, 16
Packet = tuple[int, int, bytes]
"""Time in ns, link type, data."""
Key = tuple[int, bytes, bytes, int, int]
"""Protocol, addresses, ports."""


def recognizes(head: bytes) -> bool:
    """Returns True for pcap and pcapng of either byte order."""
    return _byte_order(head) is not None


def _byte_order(head: bytes) -> str | None:
    """Returns the byte order of a capture, as in `struct`; None if it is no capture."""
    for order in "<>" if len(head) >= 12 else "":
        first, _, third = struct.unpack_from(f"{order}3I", head)
        if first in PCAP or (first == SECTION and third == BYTE_ORDER):
            return order
    return None


def read(path: Path) -> FileFlows:
    """Returns the flows of a file."""
    flows, unread, packets = _Flows(path), 0, 0
    with path.open("rb") as file:
        for t_ns, link, data in _packets(path, file):
            packets += 1
            if link != ETHERNET and link not in LINKS:
                raise fault(path, None, f"its packets are of link type {link}; capture Ethernet or IP")
            try:
                unread += not flows.add(t_ns, _ip(link, data))
            except (struct.error, IndexError):  # less was captured than the headers
                unread += 1
    done = sorted(flows.done(), key=lambda flow: flow.start_ns)
    if not done:
        raise fault(path, None, f"none of its {packets} packets has payload of TCP or UDP; give another capture")
    first_ns = done[0].start_ns
    for flow in done:
        flow.start_ns -= first_ns
    return FileFlows(done, (f"{unread} of {packets} packets, which are not of TCP or UDP",) if unread else ())


class _Cut(Exception):
    """The file ends too early, or states a size that is not possible."""


def _take(file: BufferedReader, size: int) -> bytes:
    data = file.read(size) if 0 <= size <= MOST_BYTES else b""
    if len(data) < size or size < 0:
        raise _Cut
    return data


def _packets(path: Path, file: BufferedReader) -> Iterator[Packet]:
    head = file.peek(12)
    pcapng = head[:4] == SECTION.to_bytes(4, "big")
    number = 0
    try:
        for packet in _of_pcapng(file) if pcapng else _of_pcap(file, _byte_order(head) or "<"):
            number += 1
            yield packet
    except (_Cut, struct.error, IndexError):
        why = f"it is cut or broken behind packet {number}; write the whole packets anew, as by tcpdump -r FILE -w NEW"
        raise fault(path, None, why) from None


def _of_pcap(file: BufferedReader, order: str) -> Iterator[Packet]:
    magic, *_, link = struct.unpack(f"{order}I2H4I", _take(file, 24))
    while header := file.read(16):
        seconds, part, size, _ = struct.unpack(f"{order}4I", header)
        yield seconds * NS_PER_S + part * PCAP[magic], link & 0xFFFF, _take(file, size)


def _of_pcapng(file: BufferedReader) -> Iterator[Packet]:
    order, interfaces = "<", list[tuple[int, int, int]]()
    while header := file.read(12):
        if header[:4] == SECTION.to_bytes(4, "big"):
            order, interfaces = _byte_order(header) or "<", []
        kind, size, first = struct.unpack(f"{order}3I", header)
        body = _take(file, size - 12)[:-4] if size >= 16 else b""
        if size % 4 or size < 12:
            raise _Cut
        if kind == INTERFACE:
            interfaces.append((first & 0xFFFF if order == "<" else first >> 16, *_clock(order, body[4:])))
        elif kind == PACKET:
            if first >= len(interfaces):
                raise _Cut
            link, per_second, offset_ns = interfaces[first]
            high, low, captured = struct.unpack_from(f"{order}3I", body)
            if captured > len(body) - 16:
                raise _Cut
            yield (high << 32 | low) * NS_PER_S // per_second + offset_ns, link, body[16 : 16 + captured]


def _clock(order: str, options: bytes) -> tuple[int, int]:
    """Returns the units of an interface's times in a second, and the ns to add to them."""
    per_second, offset_ns, at = 10**6, 0, 0
    while at + 4 <= len(options):
        code, size = struct.unpack_from(f"{order}HH", options, at)
        value = options[at + 4 : at + 4 + size]
        if code == RESOLUTION:
            per_second = 2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
        elif code == OFFSET:
            offset_ns = struct.unpack(f"{order}q", value)[0] * NS_PER_S
        at += 4 + size + -size % 4
    return per_second, offset_ns


def _ip(link: int, data: bytes) -> bytes:
    """Returns a packet from its IP header on; nothing if it has none."""
    if link != ETHERNET:
        return data[LINKS[link] :]
    at, kind = 14, int.from_bytes(data[12:14], "big")
    while kind in VLANS:
        at, kind = at + 4, int.from_bytes(data[at + 2 : at + 4], "big")
    return data[at:] if kind in IP else b""


@dataclass(slots=True)
class _Flow:
    start_ns: int | None = None
    size_bytes: int = 0
    first_seq: int | None = None
    next_seq: int | None = None
    """TCP: the sequence numbers of the first payload, and behind the last."""

    def more(self, t_ns: int, payload: int) -> None:
        if payload > 0:
            self.start_ns = t_ns if self.start_ns is None else self.start_ns
            self.size_bytes += payload


class _Flows:
    """The flows of a capture while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[Key, _Flow] = {}
        self._ended: list[tuple[Key, _Flow]] = []

    def add(self, t_ns: int, ip: bytes) -> bool:
        """Adds a packet. Returns False if it is not used."""
        if ip[:1] and ip[0] >> 4 == 4:
            at, size, protocol, addresses = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big"), ip[9], (ip[12:16], ip[16:20])
            fragment = int.from_bytes(ip[6:8], "big") & 0x1FFF
        elif ip[:1] and ip[0] >> 4 == 6:
            at, size, protocol, addresses = 40, 40 + int.from_bytes(ip[4:6], "big"), ip[6], (ip[8:24], ip[24:40])
            fragment = 0
        else:
            return False
        if protocol not in (TCP, UDP) or fragment:
            return False
        ports, rest = struct.unpack_from(">HH", ip, at), (size or len(ip)) - at  # 0: a packet before its segmentation
        key = (protocol, *addresses, *ports)
        if protocol == UDP:
            self._flow(key).more(t_ns, rest - 8)
        else:
            seq, offset, flags = struct.unpack_from(">I4xBB", ip, at + 4)
            self._segment(key, t_ns, seq, flags, rest - (offset >> 4) * 4)
        return True

    def _flow(self, key: Key) -> _Flow:
        if key not in self._open and len(self._open) + len(self._ended) >= 2 * MOST_FLOWS:  # each way of a connection is one
            raise fault(self._path, None, f"it has more than {MOST_FLOWS} flows; give a shorter capture")
        return self._open.setdefault(key, _Flow())

    def _segment(self, key: Key, t_ns: int, seq: int, flags: int, payload: int) -> None:
        flow = self._flow(key)
        if flags & SYN:
            seq += 1
            if flow.size_bytes and seq != flow.first_seq:  # no late copy
                self._ended.append((key, self._open.pop(key)))
                flow = self._flow(key)
            flow.first_seq, flow.next_seq = seq, seq + flow.size_bytes
            if not flags & ACK and flow.start_ns is None:
                flow.start_ns = t_ns
        if flow.next_seq is None:
            flow.first_seq = flow.next_seq = seq
        new = (seq + payload - flow.next_seq) & 0xFFFFFFFF
        if payload > 0 and new < 1 << 31:
            flow.more(t_ns, new)
            flow.next_seq += new

    def done(self) -> Iterator[FileFlow]:
        """Yields the flows with payload."""
        for (_, source, destination, *_), flow in (*self._ended, *self._open.items()):
            if flow.start_ns is not None and flow.size_bytes:
                yield FileFlow(str(ip_address(source)), str(ip_address(destination)), flow.start_ns, flow.size_bytes)


READER = FlowReader("capture", "a capture of packets (pcap, pcapng)", recognizes, read)
