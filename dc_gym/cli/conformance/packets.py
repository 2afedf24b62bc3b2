# SPDX-License-Identifier: Apache-2.0
"""Converts TCP segments and ICMP errors to bytes on a TUN device, and back.

Numbers are live: absolute sequence numbers, real ports. Options follow RFC 9293, 7323 (timestamps), 2018 (SACK), 7413 (Fast
Open), 2385 (MD5) and 9768 (Accurate ECN).
"""

from __future__ import annotations

import array
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dc_gym.cli.conformance.script import TcpOption

__all__ = [
    "ECN_BITS",
    "FLAG_BITS",
    "Segment",
    "decode",
    "decode_options",
    "encode",
    "encode_icmp",
    "encode_options",
    "icmp_numbers",
]

FLAG_BITS = {"F": 0x01, "S": 0x02, "R": 0x04, "P": 0x08, ".": 0x10, "U": 0x20, "E": 0x40, "W": 0x80, "A": 0x100}
ECN_BITS = {"noecn": 0, "ect1": 1, "ect0": 2, "ce": 3}
ICMP_TYPES = {4: {"unreachable": 3}, 6: {"unreachable": 1, "packet_too_big": 2}}
ICMP_CODES = {
    4: {
        "net_unreachable": 0, "host_unreachable": 1, "protocol_unreachable": 2, "port_unreachable": 3, "frag_needed": 4,
        "source_route_failed": 5, "net_unknown": 6, "host_unknown": 7, "source_host_isolated": 8, "net_prohibited": 9,
        "host_prohibited": 10, "net_unreachable_for_tos": 11, "host_unreachable_for_tos": 12, "packet_filtered": 13,
        "precedence_violation": 14, "precedence_cutoff": 15,
    },
    6: {
        "net_unreachable": 0, "admin_prohibited": 1, "host_unreachable": 3, "address_unreachable": 3, "port_unreachable": 4,
    },
}  # fmt: skip
"""Codes of unreachable, as linux/icmp.h and linux/icmpv6.h number them."""
TCP, ICMP, ICMP6 = 6, 1, 58
TTL = 255
FAST_OPEN_MAGIC = b"\xf9\x89"
ACCECN_ORDERS = {172: ("e0b", "ceb", "e1b"), 174: ("e1b", "ceb", "e0b")}


@dataclass(frozen=True, slots=True)
class Segment:
    """A TCP segment in its IP packet."""

    src: bytes
    dst: bytes
    src_port: int
    dst_port: int
    seq: int
    ack: int
    flags: int
    """FLAG_BITS. Higher bits are the reserved ones."""
    window: int
    urgent: int
    options: bytes
    payload: bytes
    tos: int


def encode(segment: Segment) -> bytes:
    """Returns the IP packet, with checksums."""
    offset = 5 + len(segment.options) // 4
    header = struct.pack(
        "!HHIIHHHH",
        segment.src_port,
        segment.dst_port,
        segment.seq & 0xFFFFFFFF,
        segment.ack & 0xFFFFFFFF,
        offset << 12 | segment.flags,
        segment.window,
        0,
        segment.urgent,
    )
    body = header + segment.options + segment.payload
    check = _checksum(_pseudo_header(segment.src, segment.dst, TCP, len(body)) + body)
    return _ip_header(segment.src, segment.dst, TCP, len(body), segment.tos) + body[:16] + check + body[18:]


def icmp_numbers(kind: str, code: str | None, address_bytes: int) -> tuple[int, int]:
    """Returns type and code by their names. Raises KeyError for an unknown one."""
    version = 4 if address_bytes == 4 else 6
    return ICMP_TYPES[version][kind], ICMP_CODES[version][code] if code is not None else 0


def encode_icmp(kind: str, code: str | None, mtu: int, src: bytes, dst: bytes, seq: int, ports: tuple[int, int]) -> bytes:
    """Returns an ICMP error from `src` about a segment that `dst` sent from ports[0] to ports[1]."""
    version = 4 if len(src) == 4 else 6
    kind_number, number = icmp_numbers(kind, code, len(src))
    echoed = _ip_header(dst, src, TCP, 20, 0) + struct.pack("!HHI", *ports, seq & 0xFFFFFFFF) + bytes(12)
    rest = struct.pack("!HH", 0, mtu) if version == 4 else struct.pack("!I", mtu)
    body = struct.pack("!BBH", kind_number, number, 0) + rest + echoed
    protocol = ICMP if version == 4 else ICMP6
    check = _checksum((_pseudo_header(src, dst, ICMP6, len(body)) if version == 6 else b"") + body)
    return _ip_header(src, dst, protocol, len(body), 0) + body[:2] + check + body[4:]


def decode(packet: bytes) -> Segment | None:
    """Returns the TCP segment in an IP packet, or None if there is none."""
    if packet[0] >> 4 == 4:
        header, protocol, tos = (packet[0] & 15) * 4, packet[9], packet[1]
        src, dst, total = packet[12:16], packet[16:20], int.from_bytes(packet[2:4], "big")
    else:
        header, protocol, tos = 40, packet[6], int.from_bytes(packet[:2], "big") >> 4 & 255
        src, dst, total = packet[8:24], packet[24:40], 40 + int.from_bytes(packet[4:6], "big")
    body = packet[header : total or len(packet)]
    if protocol != TCP or len(body) < 20:
        return None
    src_port, dst_port, seq, ack, word, window, _, urgent = struct.unpack_from("!HHIIHHHH", body)
    end = (word >> 12) * 4
    return Segment(src, dst, src_port, dst_port, seq, ack, word & 0xFFF, window, urgent, body[20:end], body[end:], tos)


def encode_options(options: Sequence[TcpOption]) -> bytes:
    """Returns the options as they were written, without padding: a script writes each nop."""
    data = b"".join(map(_encode_option, options))
    if len(data) % 4 or len(data) > 40:
        raise ValueError(f"TCP options of {len(data)} bytes: must be a multiple of 4 and at most 40")
    return data


def decode_options(data: bytes) -> Iterator[TcpOption]:
    """Yields the options one by one, with cookies and digests in hexadecimal."""
    while data:
        kind = data[0]
        if kind == 0:
            yield TcpOption("eol")
            data = data[1:]
            continue
        if kind == 1:
            yield TcpOption("nop")
            data = data[1:]
            continue
        length = data[1] if len(data) > 1 else 0
        if length < 2 or length > len(data):
            raise ValueError(f"TCP option {kind} has length {length}")
        yield _decode_option(kind, data[2:length])
        data = data[length:]


def _encode_option(option: TcpOption) -> bytes:
    values = option.values
    match option.kind:
        case "eol":
            return b"\0"
        case "nop":
            return b"\1"
        case "mss":
            return struct.pack("!BBH", 2, 4, *values)
        case "wscale":
            return struct.pack("!BBB", 3, 3, *values)
        case "sackOK":
            return b"\4\2"
        case "sack":
            blocks = b"".join(struct.pack("!II", left & 0xFFFFFFFF, right & 0xFFFFFFFF) for left, right in values)
            return bytes((5, 2 + len(blocks))) + blocks
        case "TS":
            return struct.pack("!BBII", 8, 10, *(value & 0xFFFFFFFF for value in values))
        case "FO":
            return _with_length(34, bytes.fromhex(values[0]))
        case "FOEXP":
            return _with_length(254, FAST_OPEN_MAGIC + bytes.fromhex(values[0]))
        case "md5":
            return _with_length(19, bytes.fromhex(values[0]))
        case "ECN":
            first = values[0][0] if values else "e0b"
            kind = 174 if first == "e1b" else 172
            return _with_length(kind, b"".join((value & 0xFFFFFF).to_bytes(3, "big") for _, value in values))
    raise ValueError(f"TCP option {option.kind} is unknown")


def _with_length(kind: int, data: bytes) -> bytes:
    return bytes((kind, 2 + len(data))) + data


def _decode_option(kind: int, data: bytes) -> TcpOption:
    number = int.from_bytes(data, "big")
    if kind == 2:
        return TcpOption("mss", (number,))
    if kind == 3:
        return TcpOption("wscale", (number,))
    if kind == 4:
        return TcpOption("sackOK")
    if kind == 5:
        return TcpOption("sack", tuple(struct.iter_unpack("!II", data)))
    if kind == 8:
        return TcpOption("TS", struct.unpack("!II", data))
    if kind == 34:
        return TcpOption("FO", (data.hex(),))
    if kind == 254 and data[:2] == FAST_OPEN_MAGIC:
        return TcpOption("FOEXP", (data[2:].hex(),))
    if kind == 19:
        return TcpOption("md5", (data.hex(),))
    if kind in ACCECN_ORDERS:
        counters = [int.from_bytes(data[start : start + 3], "big") for start in range(0, len(data), 3)]
        return TcpOption("ECN", tuple(zip(ACCECN_ORDERS[kind], counters, strict=False)))
    return TcpOption(f"option {kind}", (data.hex(),))


def _ip_header(src: bytes, dst: bytes, protocol: int, length: int, tos: int) -> bytes:
    if len(src) == 16:
        return struct.pack("!IHBB", 6 << 28 | tos << 20, length, protocol, TTL) + src + dst
    header = struct.pack("!BBHHHBBH", 0x45, tos, 20 + length, 0, 0, TTL, protocol, 0) + src + dst
    return header[:10] + _checksum(header) + header[12:]


def _pseudo_header(src: bytes, dst: bytes, protocol: int, length: int) -> bytes:
    if len(src) == 16:
        return src + dst + struct.pack("!II", length, protocol)
    return src + dst + struct.pack("!BBH", 0, protocol, length)


def _checksum(data: bytes) -> bytes:
    """Returns the checksum of RFC 1071."""
    words = array.array("H", data + b"\0" * (len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, sys.byteorder)
