# SPDX-License-Identifier: Apache-2.0
"""Writes numbers over steps to an event file that TensorBoard reads. It needs neither torch nor TensorFlow.

A file is a sequence of TFRecords: the length of the data (64 bits), its masked CRC-32C, the data, and the masked CRC-32C of the
data. The data is a protocol buffer `Event` of TensorFlow: wall time (field 1), step (2), the file's version (3) or a summary (5)
with one value (1): tag (1) and number (2).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from pathlib import Path

from dc_gym.base.files import put

NAME = "events.out.tfevents.0.dcgym"
VERSION = b"brain.Event:2"
POLYNOMIAL = 0x82F63B78  # Castagnoli's, reversed
MASK_DELTA = 0xA282EAD8


def _table() -> tuple[int, ...]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ POLYNOMIAL * (crc & 1)
        table.append(crc)
    return tuple(table)


TABLE = _table()


def crc32c(data: bytes) -> int:
    """Returns the CRC-32C (Castagnoli) of some bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + MASK_DELTA) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """Returns a TFRecord."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def event(tag: str, value: float, step: int, wall_s: float) -> bytes:
    """Returns the Event of one number."""
    number = _bytes(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
    return b"\x09" + struct.pack("<d", wall_s) + b"\x10" + _varint(step) + _bytes(5, _bytes(1, number))


class Events:
    """An event file in a folder. It begins anew, so that one training has one file, also if it goes on later."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / NAME
        head = b"\x09" + struct.pack("<d", time.time()) + _bytes(3, VERSION)
        put(self._path, record(head))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Adds numbers of a step."""
        now = time.time()
        with self._path.open("ab") as file:
            file.write(b"".join(record(event(tag, value, step, now)) for tag, value in values.items()))
