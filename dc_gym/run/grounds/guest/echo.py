# SPDX-License-Identifier: Apache-2.0
"""One ICMP echo request and its reply (RFC 792), so that `pingall` needs no program. Linux only; needs root in the ground."""

from __future__ import annotations

import os
import socket
import struct
import time

HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence number
REQUEST, REPLY = 8, 0
PAYLOAD = bytes(56)


def answers(address: str, sequence: int, patience_s: float) -> bool:
    """Sends an echo request from this thread's network namespace. Returns whether the reply came within `patience_s`.

    A request that cannot be sent, as over an interface that is down, has no reply.
    """
    process_id = os.getpid() & 0xFFFF
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        try:
            sock.sendto(request(process_id, sequence & 0xFFFF), (address, 0))
        except OSError:
            return False
        deadline = time.monotonic() + patience_s
        while (left_s := deadline - time.monotonic()) > 0:
            sock.settimeout(left_s)
            try:
                packet = sock.recv(2048)
            except TimeoutError:
                return False
            header = packet[(packet[0] & 0xF) * 4 :][: HEADER.size]
            kind, _, _, identifier, number = HEADER.unpack(header)
            if (kind, identifier, number) == (REPLY, process_id, sequence & 0xFFFF):
                return True
    return False


def request(identifier: int, sequence: int) -> bytes:
    """Returns an echo request with its checksum."""
    bare = HEADER.pack(REQUEST, 0, 0, identifier, sequence) + PAYLOAD
    return HEADER.pack(REQUEST, 0, checksum(bare), identifier, sequence) + PAYLOAD


def checksum(data: bytes) -> int:
    """Returns the Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(int(word) for (word,) in struct.iter_unpack("!H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
