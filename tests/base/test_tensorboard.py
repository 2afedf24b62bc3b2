# SPDX-License-Identifier: Apache-2.0
"""Event files of TensorBoard, byte by byte: the checksum of its standard's example, and a record as TensorFlow writes it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from dc_gym.base import tensorboard
from dc_gym.base.tensorboard import Events, crc32c, event, record


def test_the_checksum_is_castagnoli_s() -> None:
    assert crc32c(b"123456789") == 0xE3069283 and crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


def records(content: bytes) -> list[bytes]:
    """Returns the data of all records; their checksums must be right."""
    payloads = []
    while content:
        (length,) = struct.unpack_from("<Q", content)
        data = content[12 : 12 + length]
        assert record(data) == content[: 16 + length]
        payloads.append(data)
        content = content[16 + length :]
    return payloads


def test_a_file_has_its_version_and_then_numbers(tmp_path: Path) -> None:
    for _ in range(2):  # a second beginning replaces the first
        events = Events(tmp_path / "events")
        events.add(300, {"train/reward": 0.5, "train/error": 2.0})
    first, *rest = records((tmp_path / "events" / tensorboard.NAME).read_bytes())
    assert first[:1] == b"\x09" and first[9:] == b"\x1a\x0dbrain.Event:2"
    for data, (tag, value) in zip(rest, (("train/reward", 0.5), ("train/error", 2.0)), strict=True):
        timeless = event(tag, value, 300, 0)
        assert (data[:1], data[9:]) == (timeless[:1], timeless[9:]), "all but the wall time"
    assert rest[0][9:] == b"\x10\xac\x02" + b"\x2a\x15" + b"\x0a\x13" + b"\x0a\x0ctrain/reward" + b"\x15" + struct.pack("<f", 0.5)


def test_tensorboard_itself_reads_it(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    Events(tmp_path).add(7, {"train/reward": 0.25})
    accumulator = loader.EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert [(scalar.step, scalar.value) for scalar in accumulator.Scalars("train/reward")] == [(7, 0.25)]
