# SPDX-License-Identifier: Apache-2.0
"""Reads qmon's trace: every sweep of a run, one after the other (docs/protocols.md).

The counters in it are absolute. The counts of a run are the differences to the first sweep, which happens at t0.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError
from dc_gym.monitors.state_matrix import NAME_LEN, Header, parse_header, parse_names

__all__ = ["QueueTrace", "TraceFile", "open_trace", "read_trace"]


@dataclass(frozen=True, slots=True)
class QueueTrace:
    """All sweeps of a trace file."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    interval_ns: int
    t0_ns: int
    t_ns: npt.NDArray[np.int64]
    """CLOCK_MONOTONIC of each sweep, as [sweeps]."""
    cells: npt.NDArray[np.uint64]
    """Values as [sweeps, rows, columns], read-only and backed by the file."""

    def column(self, name: str) -> npt.NDArray[np.uint64]:
        """Returns one column as [sweeps, rows]."""
        if name not in self.columns:
            raise ProtocolError(f"trace: no column {name!r}; there are {', '.join(self.columns)}")
        return self.cells[:, :, self.columns.index(name)]


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace whose sweeps are read in pieces, because all of them may be larger than memory."""

    path: Path
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    interval_ns: int
    t0_ns: int
    sweeps: int
    _begin: int

    @property
    def record(self) -> np.dtype[np.void]:
        """A sweep as it lies in the file."""
        return np.dtype([("t_ns", "<u8"), ("cells", "<u8", (len(self.rows), len(self.columns)))])

    def pieces(self, cells: int) -> Iterator[QueueTrace]:
        """Yields all sweeps, at least one and about so many rows at a time."""
        at_once = max(1, cells // max(1, len(self.rows)))
        with self.path.open("rb") as file:
            file.seek(self._begin)
            for first_sweep in range(0, self.sweeps, at_once):
                read = np.fromfile(file, self.record, min(at_once, self.sweeps - first_sweep))
                yield self.trace(read)

    def trace(self, sweeps: npt.NDArray[np.void]) -> QueueTrace:
        """Returns some of its sweeps."""
        t_ns = sweeps["t_ns"].astype(np.int64)
        return QueueTrace(self.rows, self.columns, self.interval_ns, self.t0_ns, t_ns, sweeps["cells"])


def _map(path: Path) -> mmap.mmap:
    """Maps the bytes of a file."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise ProtocolError(f"{path}: the file is empty; is it a trace?") from None
    except FileNotFoundError as error:
        hint = f"a trace that was not finished is called {path.name}.partial"
        raise ProtocolError(f"{path}: open: {error.strerror}; {hint}") from None


def _names_end(header: Header) -> int:
    return max(header.off_row_names + header.rows * NAME_LEN, header.off_col_names + header.cols * NAME_LEN)


def read_trace(path: str | Path) -> QueueTrace:
    """Maps a trace file."""
    file = open_trace(path)
    sweeps = np.frombuffer(_map(file.path), file.record, file.sweeps, file._begin) if file.sweeps else np.empty(0, file.record)
    return file.trace(sweeps)


def open_trace(path: str | Path) -> TraceFile:
    """Reads the head of a trace file, and checks its length."""
    path = Path(path)
    buffer = _map(path)
    header = parse_header(buffer, 0, str(path))
    if not _names_end(header) <= header.off_cells <= len(buffer):
        raise ProtocolError(f"{path}: off_cells {header.off_cells} cannot be in {len(buffer)} bytes; it is damaged")
    rows = parse_names(buffer, header.off_row_names, header.rows, str(path))
    columns = parse_names(buffer, header.off_col_names, header.cols, str(path))
    file = TraceFile(path, rows, columns, header.interval_ns, header.t0_ns, 0, header.off_cells)
    count, rest = divmod(len(buffer) - header.off_cells, file.record.itemsize)
    if rest:
        raise ProtocolError(f"{path}: {rest} bytes are left over after {count} sweeps of {file.record.itemsize}; it was cut off")
    return replace(file, sweeps=count)
