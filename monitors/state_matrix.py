# SPDX-License-Identifier: Apache-2.0
"""The state matrix: the present state of every queue and flow of the network, and an agent's commands, in shared memory.

    with StateMatrix.attach("run/matrix") as matrix:
        sweep = matrix.read()
        backlog = sweep.cells[:, matrix.columns.index("backlog_bytes")]

    with StateMatrix.over(channel.region) as matrix:  # a lab's
        number = matrix.commands.send(values)

The layout is `state_matrix.h`. `read()` copies one complete sweep. `cells`, `flows` and the commands are the live memory without
a copy: while the writer is at work, their rows may belong to two sweeps. The loads of the sequence number have the order that the
processor gives them. This is enough on x86, whose loads stay in order, and wherever the writer is paused meanwhile (virtual
clock).
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError

__all__ = [
    *("COLUMNS", "COMMANDS", "COMMAND_ROW", "FLOW", "HEADER", "MAX_VALUES", "NAME_LEN"),
    *("Commands", "FlowStatus", "Header", "StateMatrix", "Sweep"),
    *("parse_header", "parse_names"),
]

Buffer = bytes | bytearray | memoryview | mmap.mmap
MAGIC = b"DCGYMSM1"
VERSION_MAJOR = 2
NAME_LEN = 32
MAX_ROWS = 65536
MAX_COLS = 256
MAX_VALUES = 4
"""The largest number of values of an actuator."""
MOST = 2.0**63
"""Above it a command's value counts as this."""
LAST_COMMAND = 2**64 - 2
"""The largest number of a command. Only a damaged region has it."""
MAX_ACTUATORS = 8
"""The largest number of actuators of a port."""
READ_TRIES = 1000
"""The number of attempts of `read()` to find a sweep that is not being written."""

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version_major", "<u2"),
        ("version_minor", "<u2"),
        ("header_len", "<u4"),
        ("rows", "<u4"),
        ("cols", "<u4"),
        ("off_row_names", "<u8"),
        ("off_col_names", "<u8"),
        ("off_cells", "<u8"),
        ("off_activity", "<u8"),
        ("total_len", "<u8"),
        ("interval_ns", "<u8"),
        ("t0_ns", "<u8"),
        ("t_ns", "<u8"),
        ("generation", "<u8"),
        ("seq", "<u8"),
        ("writer_pid", "<u4"),
        ("reserved0", "<u4"),
        ("off_flows", "<u8"),
        ("off_commands", "<u8"),
        ("flow_rows", "<u4"),
        ("command_rows", "<u4"),
        ("reserved", "u1", 120),
    ]
)
"""`struct sm_header`; a test compares the offsets of this and the next three with C's."""

FLOW_FIELDS = (
    (
        "received_bytes",
        "<u8",
        "payload in order at the receiver's socket, read by the application or not; `udp`: payload that arrived, whatever was"
        " lost before. It never decreases. Written at t0 + k x publish while the flow is under way, and at its end: then all of a"
        " flow that is done. For a stopped flow, and for `udp`, it rises after the end until the data under way has arrived",
    ),
    (
        "acked_bytes",
        "<u8",
        "payload acknowledged at the sender: less than was received, by what the ACKs under way will add; `udp`: handed to the"
        " socket. Written, like all fields below but times and status, at t0 + k x publish; final when the sender's socket"
        " closes, up to a round trip after the last byte arrived",
    ),
    ("start_ns", "<i8", "as in `flows.bin`; written at once"),
    ("end_ns", "<i8", "as in `flows.bin` (that of a failed flow stays -1); written at once"),
    ("srtt_us", "<u4", "TCP_INFO of the sender, or the NIC's as in `samples.bin`; 0: no sample, and `udp`"),
    ("min_rtt_us", "<u4", "likewise"),
    ("cwnd_packets", "<u4", "likewise"),
    ("retransmits", "<u4", "likewise"),
    ("status", "<u4", "as in `flows.bin`; written at once"),
    ("cnps", "<u4", "CNPs that the flow's NIC received; 0 without a NIC"),
    ("rate_bps", "<u8", "`tcpi_delivery_rate`, or the NIC's rate in force; 0: no sample, and `udp`"),
)
"""The fields of a flow's row: name, type, and meaning in Markdown (docs/protocols.md)."""

FLOW = np.dtype([(name, kind) for name, kind, _ in FLOW_FIELDS])
"""`struct sm_flow`."""

COMMANDS = np.dtype(
    [(name, "<u8") for name in ("seq", "ack", "applied_ns", "timeouts", "end", "setter")] + [("reserved", "<u8", 2)]
)
"""`struct sm_commands`; its `COMMAND_ROW` records follow."""

COMMAND_ROW = np.dtype(
    [
        ("wanted", "<u8", MAX_VALUES),
        ("in_force", "<u8", MAX_VALUES),
        ("acked", "<u8"),
        ("row", "<u4"),
        ("n_values", "<u4"),
        ("actuator", "S16"),
    ]
)
"""`struct sm_command`: an actuator at a port or flow."""

COLUMNS = (
    *("backlog_bytes", "backlog_packets", "tx_bytes", "tx_packets", "drops", "marks", "requeues", "active_flows"),
    *("ce_bytes", "queue_byte_ns", "busy_ns", "longest_bytes"),
    *("paused_ns", "charged_bytes", "pauses"),
)
"""`SM_COLUMNS`: the values that the sweepers write for each row."""

MAX_FLOWS = 1 << 20
"""The largest number of flows that tgen accepts."""


class FlowStatus(IntEnum):
    """`status` of a flow."""

    WAITING = 0
    RUNNING = 1
    DONE = 2
    STOPPED = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class Header:
    """The part of the header that does not change while the writer runs."""

    rows: int
    cols: int
    off_row_names: int
    off_col_names: int
    off_cells: int
    off_activity: int
    total_len: int
    interval_ns: int
    t0_ns: int
    writer_pid: int
    off_flows: int
    off_commands: int
    flow_rows: int
    command_rows: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """One complete sweep."""

    t_ns: int
    """CLOCK_MONOTONIC of the sweep. 0 before the first sweep."""
    generation: int
    """Number of sweeps published so far, including this one."""
    cells: npt.NDArray[np.uint64]
    """Copied values, as [rows, cols]."""


def _fault(header: Header) -> str | None:
    """Describes the fault of the sizes and offsets that region and trace share; None if there is none."""
    if not 0 < header.rows <= MAX_ROWS or not 0 < header.cols <= MAX_COLS:
        return f"{header.rows} rows and {header.cols} columns"
    if header.flow_rows > MAX_FLOWS or header.command_rows > MAX_ACTUATORS * (header.rows + header.flow_rows):
        return f"{header.flow_rows} flows and {header.command_rows} rows of actuators on {header.rows} rows"
    for name, offset, count in (
        ("off_row_names", header.off_row_names, header.rows),
        ("off_col_names", header.off_col_names, header.cols),
    ):
        if offset < HEADER.itemsize or offset + count * NAME_LEN > header.total_len:
            return f"{name} {offset}"
    return None


def parse_header(buffer: Buffer, offset: int, label: str) -> Header:
    """Returns the header at `offset`, checked. `label` names the source in errors."""
    room = len(buffer) - offset
    if room < HEADER.itemsize:
        raise ProtocolError(f"{label}: {room} bytes are too short for a header of {HEADER.itemsize}; is it a state matrix?")
    raw = np.frombuffer(bytes(buffer[offset : offset + HEADER.itemsize]), dtype=HEADER)[0]
    magic, major, minor = bytes(raw["magic"]), int(raw["version_major"]), int(raw["version_minor"])
    if magic != MAGIC:
        raise ProtocolError(f"{label}: magic {magic!r} is not {MAGIC!r}; is it a state matrix, and has qmon said ready?")
    if major != VERSION_MAJOR:
        raise ProtocolError(
            f"{label}: version {major}.{minor}, but this reader knows {VERSION_MAJOR}.x; use parts of one release"
        )
    if raw["header_len"] < HEADER.itemsize:
        raise ProtocolError(f"{label}: header_len is {raw['header_len']}, less than {HEADER.itemsize}; it is damaged")
    header = Header(*(int(raw[name]) for name in Header.__dataclass_fields__))
    fault = _fault(header)
    if fault:
        raise ProtocolError(f"{label}: {fault} cannot be in {header.total_len} bytes; it is damaged")
    return header


def parse_names(buffer: Buffer, offset: int, count: int, label: str) -> tuple[str, ...]:
    """Returns `count` NUL-padded names."""
    raw = bytes(buffer[offset : offset + count * NAME_LEN])
    fields = [raw[i : i + NAME_LEN].split(b"\0", 1)[0] for i in range(0, len(raw), NAME_LEN)]
    try:
        return tuple(field.decode("ascii") for field in fields)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{label}: a name is not ASCII: {error.object!r}; it is damaged") from None


def _check_cells(header: Header, room: int, label: str) -> None:
    """Checks the parts that only the shared region has."""
    ends = {
        "off_cells": header.off_cells + header.rows * header.cols * 8,
        "off_activity": header.off_activity + header.rows * 8,
    }
    if header.total_len > room:
        raise ProtocolError(f"{label}: total_len is {header.total_len}, but only {room} bytes are there; was it cut off?")
    if header.flow_rows:
        ends["off_flows"] = header.off_flows + header.flow_rows * FLOW.itemsize
    if header.command_rows:
        ends["off_commands"] = header.off_commands + COMMANDS.itemsize + header.command_rows * COMMAND_ROW.itemsize
    for name, end in ends.items():
        offset = getattr(header, name)
        if offset < HEADER.itemsize or offset % 8 or end > header.total_len:
            raise ProtocolError(f"{label}: {name} is {offset}, which cannot be in {header.total_len} bytes; it is damaged")


class Commands:
    """An agent's control of its actuators, in the order of the actuators file. Only one writer may use it at a time.

    The values of all rows are one flat array: the first row's values, then the second row's, and so on.
    """

    head: npt.NDArray[np.void]
    """One `COMMANDS` record, live."""
    rows: npt.NDArray[np.void]
    """`COMMAND_ROW` records, live. They follow the head."""
    layout: tuple[tuple[int, bytes, int], ...]
    """The rows as they were at the start: row of the matrix, actuator, number of values."""
    size: int
    """The number of values of all rows."""

    def __init__(self, head: npt.NDArray[np.void], rows: npt.NDArray[np.void]) -> None:
        self.head, self.rows = head, rows
        self._seq, self._ack = head["seq"], head["ack"]
        self._applied_ns, self._timeouts, self._end = head["applied_ns"], head["timeouts"], head["end"]
        first = rows.copy()
        self.layout = tuple(first[["row", "actuator", "n_values"]].tolist())
        counts = first["n_values"].tolist()
        if max(counts) > MAX_VALUES:
            raise ProtocolError(f"command: an actuator has {max(counts)} values, and the most are {MAX_VALUES}; it is damaged")
        self.size = sum(counts)
        self._blocks = tuple(_blocks(rows, counts))

    def send(self, values: npt.ArrayLike) -> int:
        """Requests these values and returns the command's number.

        The command has been carried out once `ack` has that number. A value below its lower bound (NaN and negative numbers
        included) becomes that bound; one above its upper bound becomes the upper bound.
        """
        wanted = np.asarray(values)
        if wanted.shape != (self.size,):
            raise ProtocolError(f"command: values of shape {wanted.shape} where {self.size} are set; give one for each")
        if not self._seq.flags.writeable:
            raise ProtocolError("command: the state matrix is mapped read-only; attach to it with writable=True")
        # An odd number: an agent began a command and died before it was finished. This one takes its place.
        number = int(self._seq[0]) // 2 * 2 % LAST_COMMAND
        self._seq[0] = number + 1
        for span, to, _ in self._blocks:
            values = wanted[span] if to.ndim == 1 else wanted[span].reshape(to.shape)
            np.minimum(np.fmax(values, 0), MOST, out=to, casting="unsafe")
        self._seq[0] = number + 2
        return number + 2

    def end(self, code: int) -> None:
        """Ends the episode under way on a real clock, at its next step, with this code of `dc_gym.run.plan.plan`."""
        self._end[0] = code

    @property
    def seq(self) -> int:
        """The number of the last command. It is odd while the command is being written."""
        return int(self._seq[0])

    @property
    def ack(self) -> int:
        """The number of the last command that all rows have carried out."""
        return int(self._ack[0])

    @property
    def applied_ns(self) -> int:
        """CLOCK_MONOTONIC at which that command was carried out. 0: none yet in this episode."""
        return int(self._applied_ns[0])

    @property
    def timeouts(self) -> int:
        """The number of commands to one host that were given up or sent again."""
        return int(self._timeouts[0])

    @property
    def wanted(self) -> npt.NDArray[np.uint64]:
        """A copy of the values of the last command."""
        return _joined([wanted for _, wanted, _ in self._blocks])

    @property
    def in_force(self) -> npt.NDArray[np.uint64]:
        """A copy of the values that the kernel reported at the last sweep."""
        return _joined([in_force for _, _, in_force in self._blocks])


Values = npt.NDArray[np.uint64]


def _blocks(rows: npt.NDArray[np.void], counts: list[int]) -> Iterator[tuple[slice, Values, Values]]:
    """Yields neighbouring rows with equally many values: their place among all values, and their values wanted and in force."""
    first, offset = 0, 0
    for end in range(1, len(counts) + 1):
        if end < len(counts) and counts[end] == counts[first]:
            continue
        values = counts[first]
        size = (end - first) * values
        columns = 0 if values == 1 else slice(values)  # a column is one array, and faster
        yield slice(offset, offset + size), rows["wanted"][first:end, columns], rows["in_force"][first:end, columns]
        first, offset = end, offset + size


def _joined(blocks: list[Values]) -> Values:
    return blocks[0].flatten() if len(blocks) == 1 else np.concatenate([block.ravel() for block in blocks])


class StateMatrix:
    """A mapped state matrix. Close it, or use it as a context manager. It may be closed twice."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    interval_ns: int
    writer_pid: int
    cells: npt.NDArray[np.uint64]
    """Live values as [rows, columns], read-only. Their memory stays mapped as long as an array refers to it."""
    flows: npt.NDArray[np.void]
    """`FLOW` records by flow number, live and read-only. Empty if the traffic generator does not publish flows."""

    def __init__(
        self, fd: int, offset: int = 0, length: int | None = None, *, what: str | None = None, writable: bool = False
    ) -> None:
        """Maps the region at `offset` of the open file `fd`, which may be closed afterwards.

        Args:
            fd: a file or device that can be mapped.
            offset: where the region begins; any multiple of 8.
            length: number of bytes to map after offset; None: up to the end of the file.
            what: name of the region in errors.
            writable: True if commands can be sent. The file must be open for writing.
        """
        what = what or f"state matrix (descriptor {fd}, offset {offset})"
        if offset < 0 or offset % 8:
            raise ProtocolError(f"{what}: the offset is not a multiple of 8")
        room = os.fstat(fd).st_size - offset if length is None else length
        if room < HEADER.itemsize:
            hint = "is it a state matrix? (a device needs `length`)"
            raise ProtocolError(f"{what}: {room} bytes are too short for a header of {HEADER.itemsize}; {hint}")
        skip = offset % mmap.ALLOCATIONGRANULARITY
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        try:
            self._map: mmap.mmap | None = mmap.mmap(fd, skip + room, mmap.MAP_SHARED, protection, offset=offset - skip)
        except (OSError, ValueError, OverflowError) as error:  # beyond the file's end, or beyond memory
            raise ProtocolError(f"{what}: {room} bytes cannot be mapped: {error}") from None
        try:
            self._view(self._map, skip, room, what)
        except BaseException:
            self.close()
            raise

    @classmethod
    def over(cls, buffer: Buffer, *, what: str = "state matrix") -> StateMatrix:
        """Uses memory that is already mapped. The code that mapped it unmaps it. Commands can be sent if it is writable."""
        matrix = cls.__new__(cls)
        matrix._map = None
        matrix._view(buffer, 0, len(buffer), what)
        return matrix

    @classmethod
    def attach(cls, path: str | Path, *, writable: bool = False) -> StateMatrix:
        """Maps the region in a file."""
        try:
            fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise ProtocolError(f"{path}: open: {error.strerror}; is qmon running, with --matrix?") from None
        try:
            return cls(fd, what=str(path), writable=writable)
        finally:
            os.close(fd)

    def _view(self, region: Buffer, base: int, room: int, label: str) -> None:
        self._what = label
        self._open = True
        header = parse_header(region, base, label)
        _check_cells(header, room, label)
        self.rows = parse_names(region, base + header.off_row_names, header.rows, label)
        self.columns = parse_names(region, base + header.off_col_names, header.cols, label)
        self.interval_ns, self.writer_pid = header.interval_ns, header.writer_pid

        def part(dtype: npt.DTypeLike, count: int, offset: int) -> npt.NDArray[Any]:
            return np.frombuffer(region, dtype, count, base + offset) if count else np.empty(0, dtype)

        self._live = part(HEADER, 1, 0)
        self._seq, self._t_ns, self._generation = self._live["seq"], self._live["t_ns"], self._live["generation"]
        self.cells = part("<u8", header.rows * header.cols, header.off_cells).reshape(header.rows, header.cols)
        self.flows = part(FLOW, header.flow_rows, header.off_flows)
        self.cells.flags.writeable = self.flows.flags.writeable = False
        self._commands: Commands | None = None
        if header.command_rows:
            head = part(COMMANDS, 1, header.off_commands)
            self._commands = Commands(head, part(COMMAND_ROW, header.command_rows, header.off_commands + COMMANDS.itemsize))

    @property
    def t0_ns(self) -> int:
        """CLOCK_MONOTONIC at which the traffic starts. If there are several episodes, it belongs to the present one."""
        return int(self._live["t0_ns"][0])

    @property
    def t_ns(self) -> int:
        """CLOCK_MONOTONIC of the last sweep."""
        return int(self._t_ns[0])

    @property
    def live(self) -> dict[str, npt.NDArray[np.void]]:
        """The header and the head of the commands in the live memory, as arrays of one record."""
        return {"header": self._live, "commands": self.commands.head}

    @property
    def commands(self) -> Commands:
        """The commands of an agent, and the values in force."""
        if not self._open or self._commands is None:
            raise ProtocolError(f"{self._what}: nothing can be set in it; is agentd running, and not qmon?")
        return self._commands

    def read(self) -> Sweep:
        """Copies the last complete sweep. Before the first one, it has generation 0 and zeros."""
        if not self._open:
            raise ProtocolError(f"{self._what}: read after close")
        for attempt in range(READ_TRIES):
            before = int(self._seq[0])
            if before % 2 == 0:
                sweep = Sweep(int(self._t_ns[0]), int(self._generation[0]), self.cells.copy())
                if int(self._seq[0]) == before:
                    return sweep
            if attempt >= 10:
                time.sleep(0.0001)  # the writer may be waiting for this processor
        raise ProtocolError(
            f"{self._what}: no complete sweep in {READ_TRIES} tries, seq is {int(self._seq[0])}; "
            f"is the writer (pid {self.writer_pid}) alive?"
        )

    def close(self) -> None:
        region, self._map, self._open = self._map, None, False
        for name in ("_live", "_seq", "_t_ns", "_generation", "_commands", "cells", "flows"):
            self.__dict__.pop(name, None)
        if region is None:
            return
        try:
            region.close()
        except BufferError:
            pass  # somebody still holds `cells`; the mapping is removed with the last reference

    def __enter__(self) -> StateMatrix:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
