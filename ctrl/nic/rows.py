# SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
"""The rows of shim.h in Python: the data path's memory, accessed by the ids of its maps."""

from __future__ import annotations

import ctypes
import mmap
import os
from ctypes import Array, Structure, c_uint8, c_uint16, c_uint32, c_uint64
from typing import Any

U8, U16, U32, U64 = c_uint8, c_uint16, c_uint32, c_uint64
CONTEXT_WORDS_MAX, PENDING_TYPES, FRAME_BYTES, TELEMETRY_HOPS, QUEUE_MAX = 64, 8, 74, 5, 256
BPF_MAP_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD = 14, 15
SYSCALL_BPF = 321  # x86-64

_libc = ctypes.CDLL(None, use_errno=True)


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class NicPort(Structure):
    """struct nic_port"""

    _fields_ = [
        *_fields(U32, "wire_ifindex ring_ifindex"),
        *_fields(U64, "line_bps byte_ns free_at busy_until_ns sent_packets sent_bytes dropped_packets host_left host_at queued"),
        ("done_ns", U64 * QUEUE_MAX),
    ]


class Pending(Structure):
    """struct nic_pending"""

    _fields_ = _fields(U32, "count first_ns bytes packets")


class Sender(Structure):
    """struct nic_sender"""

    _fields_ = [
        ("frame", U8 * FRAME_BYTES),
        ("pad", U8 * 6),
        *_fields(U32, "port payload_bytes"),
        *_fields(U64, "message_bytes total_bytes total_packets"),
        *_fields(U32, "message_packets tail_bytes final_bytes kept inflight_bytes pad2"),
        *_fields(U32, "base_rtt_ns line_mbps packet_bytes hops"),
        *_fields(U64, "end next acked high repeat repeat_end repeated repeated_ns recover"),
        ("trimmed", U64 * 8),
        *_fields(U64, "trims due_ns left_ns byte_ns wake_ns timeout_ns"),
        *_fields(U32, "left_bytes burst generation token timer parked retries unasked"),
        *_fields(U64, "asked timer_ns"),
        *_fields(U32, "rate window_bytes next_rate next_window next_probe"),
        ("decided_ns", U64),
        ("state", U32 * CONTEXT_WORDS_MAX),
        ("pending", Pending * PENDING_TYPES),
        *_fields(U32, "ready_types nack_flags draws"),
        ("probe_times", U32 * 3),
        ("int_hop", U64 * TELEMETRY_HOPS),
        ("int_hops", U16),
        ("pad3", U8 * 6),
        *_fields(U32, "probe_wanted probe_number probe_retries"),
        *_fields(U64, "probe_sent_ns probe_until_ns"),
        *_fields(U64, "sent_packets sent_bytes resent_packets"),
        *_fields(U64, "cnps nacks timeouts rtts probes probe_bytes decisions lost_events"),
        *_fields(U32, "rtt_ns least_rtt_ns"),
        ("arrived", U64 * 8),
        ("resent", U64 * 8),
        *_fields(U64, "arrivals latest timed"),
        *_fields(U32, "answered_sent_ns ack_flags entropy_draws recycled"),
        ("recycle", U64),
        ("penalty", U64 * 16),
    ]


class Receiver(Structure):
    """struct nic_receiver"""

    _fields_ = [
        ("frame", U8 * FRAME_BYTES),
        ("cnp_frame", U8 * FRAME_BYTES),
        ("pad", U8 * 4),
        *_fields(U32, "port payload_bytes"),
        *_fields(U64, "message_bytes total_bytes total_packets"),
        *_fields(U32, "message_packets each_message"),
        *_fields(U64, "expected last_cnp_ns last_nack_ns nacked"),
        *_fields(U32, "beyond since_ack sum pad3"),
        *_fields(U64, "received_bytes received_packets marked_packets dropped_packets"),
        *_fields(U64, "messages broken_messages first_ns last_ns"),
        ("window", U64 * 8),
    ]


class MapRows:
    """Gives access to a map's live rows while the context is open."""

    def __init__(self, map_id: int, row: type[Structure]) -> None:
        fd = _bpf(BPF_MAP_GET_FD_BY_ID, map_id.to_bytes(4, "little"))
        try:
            value_bytes, count = _shape(fd)
            if value_bytes != ctypes.sizeof(row):
                raise ValueError(f"map {map_id}: rows of {value_bytes} bytes; {row.__name__} has {ctypes.sizeof(row)}")
            self._memory = mmap.mmap(fd, count * value_bytes)
        finally:
            os.close(fd)
        self.rows: Array[Any] = (row * count).from_buffer(self._memory)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]

    def __len__(self) -> int:
        return len(self.rows)


def _shape(fd: int) -> tuple[int, int]:
    """Returns the bytes of a map's value and the number of values."""
    info = (c_uint32 * 32)()  # struct bpf_map_info: type, id, key_size, value_size, max_entries
    argument = fd.to_bytes(4, "little") + ctypes.sizeof(info).to_bytes(4, "little")
    _bpf(BPF_OBJ_GET_INFO_BY_FD, argument + ctypes.addressof(info).to_bytes(8, "little"))
    return info[3], info[4]


def _bpf(command: int, argument: bytes) -> int:
    buffer = ctypes.create_string_buffer(argument.ljust(128, b"\0"), 128)
    result: int = _libc.syscall(SYSCALL_BPF, command, buffer, len(buffer))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bpf({command}): {os.strerror(error)}")
    return result
