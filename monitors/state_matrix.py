# SPDX-License-Identifier: Apache-2.0
"""Reader of the state matrix: what every queue of the network looks like now, in shared memory (layout: `state_matrix.h`).

    with StateMatrix.attach("run/matrix") as matrix:
        sweep = matrix.read()
        backlog = sweep.cells[:, matrix.columns.index("backlog_bytes")]

`read()` copies one complete sweep. `cells` is the live memory without a copy: while the writer is at work its rows may
belong to two sweeps. The loads of the sequence number are ordered as the processor orders them: enough on x86, whose loads
stay in order, and wherever the writer stands still meanwhile (virtual clock).
"""

from __future__ import annotations

import mmap
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from dc_gym.errors import ProtocolError

__all__ = ["HEADER", "NAME_LEN", "Header", "StateMatrix", "Sweep", "parse_header", "parse_names"]

MAGIC = b"DCGYMSM1"
VERSION_MAJOR = 1
NAME_LEN = 32
MAX_ROWS = 65536
MAX_COLS = 256
READ_TRIES = 1000
"""Attempts of `read()` to find a sweep that is not being written."""

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
"""`struct sm_header`; a test compares the offsets with those of C."""


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


@dataclass(frozen=True, slots=True)
class Sweep:
    """One complete sweep."""

    t_ns: int
    """CLOCK_MONOTONIC; 0 as long as there was no sweep."""
    generation: int
    """Sweeps published so far, with this one."""
    cells: npt.NDArray[np.uint64]
    """[rows, cols], a copy."""


def _fault(header: Header) -> str | None:
    """What is wrong with the sizes and offsets that region and trace share, if anything."""
    if not 0 < header.rows <= MAX_ROWS or not 0 < header.cols <= MAX_COLS:
        return f"{header.rows} rows and {header.cols} columns"
    for name, offset, count in (
        ("off_row_names", header.off_row_names, header.rows),
        ("off_col_names", header.off_col_names, header.cols),
    ):
        if offset < HEADER.itemsize or offset + count * NAME_LEN > header.total_len:
            return f"{name} {offset}"
    return None


def parse_header(buffer: bytes | mmap.mmap, offset: int, what: str) -> Header:
    """The header at `offset`, checked; `what` names the source in errors."""
    room = len(buffer) - offset
    if room < HEADER.itemsize:
        raise ProtocolError(f"{what}: {room} bytes are too short for a header of {HEADER.itemsize}; is it a state matrix?")
    raw = np.frombuffer(buffer[offset : offset + HEADER.itemsize], dtype=HEADER)[0]
    magic, major, minor = bytes(raw["magic"]), int(raw["version_major"]), int(raw["version_minor"])
    if magic != MAGIC:
        raise ProtocolError(f"{what}: magic {magic!r} is not {MAGIC!r}; is it a state matrix, and has qmon said ready?")
    if major != VERSION_MAJOR:
        raise ProtocolError(f"{what}: version {major}.{minor}, but this reader knows {VERSION_MAJOR}.x; use parts of one release")
    if raw["header_len"] < HEADER.itemsize:
        raise ProtocolError(f"{what}: header_len is {raw['header_len']}, less than {HEADER.itemsize}; it is damaged")
    header = Header(*(int(raw[name]) for name in Header.__dataclass_fields__))
    fault = _fault(header)
    if fault:
        raise ProtocolError(f"{what}: {fault} cannot be in {header.total_len} bytes; it is damaged")
    return header


def parse_names(buffer: bytes | mmap.mmap, offset: int, count: int, what: str) -> tuple[str, ...]:
    """`count` NUL-padded names."""
    raw = bytes(buffer[offset : offset + count * NAME_LEN])
    fields = [raw[i : i + NAME_LEN].split(b"\0", 1)[0] for i in range(0, len(raw), NAME_LEN)]
    try:
        return tuple(field.decode("ascii") for field in fields)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{what}: a name is not ASCII: {error.object!r}; it is damaged") from None


def _check_cells(header: Header, room: int, what: str) -> None:
    """The parts that only the shared region has."""
    ends = {
        "off_cells": header.off_cells + header.rows * header.cols * 8,
        "off_activity": header.off_activity + header.rows * 8,
    }
    if header.total_len > room:
        raise ProtocolError(f"{what}: total_len is {header.total_len}, but only {room} bytes are there; was it cut off?")
    for name, end in ends.items():
        offset = getattr(header, name)
        if offset < HEADER.itemsize or offset % 8 or end > header.total_len:
            raise ProtocolError(f"{what}: {name} is {offset}, which cannot be in {header.total_len} bytes; it is damaged")


class StateMatrix:
    """A mapped state matrix. Close it, or use it as a context manager; closing twice is fine."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    interval_ns: int
    t0_ns: int
    writer_pid: int
    cells: npt.NDArray[np.uint64]
    """[rows, columns], live and read-only. Its memory stays mapped as long as an array refers to it."""

    def __init__(self, fd: int, offset: int = 0, length: int | None = None, *, what: str | None = None) -> None:
        """Map the region at `offset` of the open file `fd`, which may be closed afterwards.

        Args:
            fd: a file or device that can be mapped.
            offset: where the region begins; any multiple of 8.
            length: how much there is to map after offset; None: up to the end of the file.
            what: what errors call it.
        """
        what = what or f"state matrix (descriptor {fd}, offset {offset})"
        if offset < 0 or offset % 8:
            raise ProtocolError(f"{what}: the offset is not a multiple of 8")
        room = os.fstat(fd).st_size - offset if length is None else length
        if room < HEADER.itemsize:
            hint = "is it a state matrix? (a device needs `length`)"
            raise ProtocolError(f"{what}: {room} bytes are too short for a header of {HEADER.itemsize}; {hint}")
        skip = offset % mmap.ALLOCATIONGRANULARITY
        self._what = what
        self._map: mmap.mmap | None = mmap.mmap(fd, skip + room, mmap.MAP_SHARED, mmap.PROT_READ, offset=offset - skip)
        try:
            self._view(self._map, skip, room)
        except BaseException:
            self.close()
            raise

    @classmethod
    def attach(cls, path: str | Path) -> StateMatrix:
        """Map the region in a file."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ProtocolError(f"{path}: open: {error.strerror}; is qmon running, with --matrix?") from None
        try:
            return cls(fd, what=str(path))
        finally:
            os.close(fd)

    def _view(self, region: mmap.mmap, base: int, room: int) -> None:
        header = parse_header(region, base, self._what)
        _check_cells(header, room, self._what)
        self.rows = parse_names(region, base + header.off_row_names, header.rows, self._what)
        self.columns = parse_names(region, base + header.off_col_names, header.cols, self._what)
        self.interval_ns, self.t0_ns, self.writer_pid = header.interval_ns, header.t0_ns, header.writer_pid
        self._live = np.frombuffer(region, dtype=HEADER, count=1, offset=base)
        self._seq = self._live["seq"]
        flat = np.frombuffer(region, dtype="<u8", count=header.rows * header.cols, offset=base + header.off_cells)
        self.cells = flat.reshape(header.rows, header.cols)

    def read(self) -> Sweep:
        """Copy the last complete sweep (before the first one: generation 0 and zeros)."""
        if self._map is None:
            raise ProtocolError(f"{self._what}: read after close")
        for attempt in range(READ_TRIES):
            before = int(self._seq[0])
            if before % 2 == 0:
                sweep = Sweep(int(self._live["t_ns"][0]), int(self._live["generation"][0]), self.cells.copy())
                if int(self._seq[0]) == before:
                    return sweep
            if attempt >= 10:
                time.sleep(0.0001)  # the writer may be waiting for this processor
        raise ProtocolError(
            f"{self._what}: no complete sweep in {READ_TRIES} tries, seq is {int(self._seq[0])}; "
            f"is the writer (pid {self.writer_pid}) alive?"
        )

    def close(self) -> None:
        region, self._map = self._map, None
        self.__dict__.pop("_live", None)
        self.__dict__.pop("_seq", None)
        self.__dict__.pop("cells", None)
        if region is None:
            return
        try:
            region.close()
        except BufferError:
            pass  # somebody still holds `cells`: the mapping goes with the last reference

    def __enter__(self) -> StateMatrix:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
