# SPDX-License-Identifier: Apache-2.0
"""A strict reader of pcapng files with one interface, for tests: it was written from the format's draft, not from capd."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

SECTION, INTERFACE, STATISTICS, PACKET = 0x0A0D0D0A, 1, 5, 6
DIRECTIONS = {1: "in", 2: "out"}


@dataclass(frozen=True)
class Frame:
    t_ns: int
    direction: str
    data: bytes
    length: int


@dataclass(frozen=True)
class Capture:
    interface: str
    link: int
    snap: int
    resolution: int
    frames: tuple[Frame, ...]
    received: int
    lost: int

    def sent(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.direction == "out"]

    def arrived(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.direction == "in"]


def blocks(data: bytes) -> list[tuple[int, bytes]]:
    """Returns type and body of each block. Lengths at both ends must agree."""
    pairs, at = [], 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0 and at + length <= len(data), (at, length)
        assert struct.unpack_from("<I", data, at + length - 4) == (length,), at
        pairs.append((kind, data[at + 8 : at + length - 4]))
        at += length
    return pairs


def options(data: bytes) -> dict[int, bytes]:
    values, at = {}, 0
    while True:
        code, length = struct.unpack_from("<HH", data, at)
        at += 4 + length + -length % 4
        if code == 0:
            assert length == 0 and at == len(data)
            return values
        values[code] = data[at - length - -length % 4 : at - -length % 4]


def read(path: Path) -> Capture:
    (first, section), (second, interface), *rest, (last, statistics) = blocks(path.read_bytes())
    assert (first, second, last) == (SECTION, INTERFACE, STATISTICS)
    assert struct.unpack_from("<IHHq", section) == (0x1A2B3C4D, 1, 0, -1)
    link, reserved, snap = struct.unpack_from("<HHI", interface)
    named = options(interface[8:])
    assert reserved == 0
    counted = options(statistics[12:])
    (received,), (lost,) = struct.unpack("<Q", counted[4]), struct.unpack("<Q", counted[5])
    frames = tuple(_frame(kind, body) for kind, body in rest)
    return Capture(named[2].decode(), link, snap, named[9][0], frames, received, lost)


def _frame(kind: int, body: bytes) -> Frame:
    assert kind == PACKET
    number, high, low, captured, length = struct.unpack_from("<IIIII", body)
    assert number == 0
    padded = captured + -captured % 4
    assert not any(body[20 + captured : 20 + padded])
    (flags,) = struct.unpack("<I", options(body[20 + padded :])[2])
    return Frame(high << 32 | low, DIRECTIONS[flags], body[20 : 20 + captured], length)
