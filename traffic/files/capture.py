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
INTERFACE, PACKET, RESOLUTION = 1, 6, 9
"""Blocks of pcapng, and the option of an interface with the unit of times."""
MOST_BYTES = 1 << 24
"""A larger packet or block is a broken file."""
ETHERNET, VLANS, IP = 1, (0x8100, 0x88A8), (0x0800, 0x86DD)
LINKS = {0: 4, 12: 0, 101: 0, 113: 16, 228: 0, 229: 0, 276: 20}
"""The bytes before the IP header, by the numbers of link types: loopback, raw IP and Linux' cooked captures."""
TCP, UDP, SYN, ACK = 6, 17, 2, 16
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
        head = file.peek(12)
        blocks = _of_pcapng(file) if head[:4] == SECTION.to_bytes(4, "big") else _of_pcap(file, _byte_order(head) or "<")
        try:
            for t_ns, link, data in blocks:
                packets += 1
                if link != ETHERNET and link not in LINKS:
                    raise fault(path, None, f"its packets are of link type {link}; capture Ethernet or IP")
                unread += not flows.add(t_ns, _ip(link, data))
        except (EOFError, struct.error, LookupError):
            why = f"it is cut or broken behind packet {packets}; write the whole packets anew, as by tcpdump -r FILE -w NEW"
            raise fault(path, None, why) from None
    done = sorted(flows.done(), key=lambda flow: flow.start_ns)
    if not done:
        raise fault(path, None, f"none of its {packets} packets has payload of TCP or UDP; give another capture")
    first_ns = done[0].start_ns
    for flow in done:
        flow.start_ns -= first_ns
    not_used = [f"{unread} of {packets} packets, which are not of TCP or UDP"] if unread else []
    not_used += [f"the transport of {flows.udp} flows over UDP"] if flows.udp else []
    return FileFlows(done, tuple(not_used))


def _take(file: BufferedReader, size: int) -> bytes:
    data = file.read(size) if 0 <= size <= MOST_BYTES else b""
    if len(data) < size or size < 0:
        raise EOFError
    return data


def _of_pcap(file: BufferedReader, order: str) -> Iterator[tuple[int, int, bytes]]:
    """Yields time, link type and data of each packet."""
    magic, *_, link = struct.unpack(f"{order}I2H4I", _take(file, 24))
    while header := file.read(16):
        seconds, part, size, _ = struct.unpack(f"{order}4I", header)
        yield seconds * NS_PER_S + part * PCAP[magic], link & 0xFFFF, _take(file, size)


def _of_pcapng(file: BufferedReader) -> Iterator[tuple[int, int, bytes]]:
    order, interfaces = "<", list[tuple[int, int]]()
    while header := file.read(12):
        if header[:4] == SECTION.to_bytes(4, "big"):
            order, interfaces = _byte_order(header) or "<", []
        kind, size, number = struct.unpack(f"{order}3I", header)
        body = _take(file, size - 12)
        if kind == INTERFACE:
            link = struct.unpack(f"{order}HH", header[8:])[0]
            interfaces.append((link, _ticks_per_second(order, body[4:-4])))
        elif kind == PACKET:
            link, per_second = interfaces[number]
            high, low, captured = struct.unpack_from(f"{order}3I", body)
            if captured > len(body) - 20:
                raise EOFError
            yield (high << 32 | low) * NS_PER_S // per_second, link, body[16 : 16 + captured]


def _ticks_per_second(order: str, options: bytes) -> int:
    while len(options) > 4:
        code, size = struct.unpack_from(f"{order}HH", options)
        if code == RESOLUTION:
            return int(2 ** (options[4] & 0x7F) if options[4] & 0x80 else 10 ** options[4])
        options = options[4 + size + -size % 4 :]
    return 10**6


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
    next_seq: int = 0
    """TCP: the sequence numbers of the first payload, and behind the last."""


class _Flows:
    """The flows of a capture while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[Key, _Flow] = {}
        self._ended: list[tuple[Key, _Flow]] = []
        self.udp = 0
        """The number of flows over UDP that are done."""

    def add(self, t_ns: int, ip: bytes) -> bool:
        """Adds a packet. Returns False if it is not used."""
        version = ip[0] >> 4 if len(ip) >= 20 else 0
        if version == 4:
            at, size, protocol, addresses = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big"), ip[9], (ip[12:16], ip[16:20])
        elif version == 6:
            at, size, protocol, addresses = 40, 40 + int.from_bytes(ip[4:6], "big"), ip[6], (ip[8:24], ip[24:40])
        else:
            return False
        fragment = version == 4 and int.from_bytes(ip[6:8], "big") & 0x1FFF
        if protocol not in (TCP, UDP) or fragment or len(ip) < at + (14 if protocol == TCP else 8):
            return False
        key, rest = (protocol, *addresses, *struct.unpack_from(">HH", ip, at)), (size or len(ip)) - at
        if key not in self._open and len(self._open) + len(self._ended) >= 2 * MOST_FLOWS:  # each way of a connection is one
            raise fault(self._path, None, f"it has more than {MOST_FLOWS} flows; give a shorter capture")
        flow = self._open.setdefault(key, _Flow())
        if protocol == UDP:
            _grow(flow, t_ns, rest - 8)
        else:
            seq, offset, flags = struct.unpack_from(">I4xBB", ip, at + 4)
            self._add_segment(key, t_ns, seq + bool(flags & SYN), flags, rest - (offset >> 4) * 4)
        return True

    def _add_segment(self, key: Key, t_ns: int, seq: int, flags: int, payload: int) -> None:
        flow = self._open[key]
        if flags & SYN and flow.size_bytes and seq != flow.first_seq:  # no late copy
            self._ended.append((key, flow))
            flow = self._open[key] = _Flow()
        if flow.first_seq is None or (flags & SYN and not flow.size_bytes):
            flow.first_seq = flow.next_seq = seq
        if flags & (SYN | ACK) == SYN and flow.start_ns is None:
            flow.start_ns = t_ns
        new = (seq + payload - flow.next_seq) & 0xFFFFFFFF
        if payload > 0 and new < 1 << 31:
            _grow(flow, t_ns, new)
            flow.next_seq += new

    def done(self) -> Iterator[FileFlow]:
        """Yields the flows with payload."""
        for (protocol, source, destination, *_), flow in (*self._ended, *self._open.items()):
            if flow.start_ns is not None and flow.size_bytes:
                self.udp += protocol == UDP
                yield FileFlow(str(ip_address(source)), str(ip_address(destination)), flow.start_ns, flow.size_bytes)


def _grow(flow: _Flow, t_ns: int, payload: int) -> None:
    if payload > 0:
        flow.start_ns = t_ns if flow.start_ns is None else flow.start_ns
        flow.size_bytes += payload


READER = FlowReader("capture", "a capture of packets (pcap, pcapng)", recognizes, read)
