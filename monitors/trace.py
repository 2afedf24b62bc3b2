# SPDX-License-Identifier: Apache-2.0
"""Reads qmon's trace: every sweep of a run, one after the other (docs/protocols.md).

The counters in it are absolute. The counts of a run are the differences to the first sweep, which happens at t0.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError
from dc_gym.monitors.state_matrix import NAME_LEN, Header, parse_header, parse_names

__all__ = ["QueueTrace", "read_trace"]


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


def _map(path: Path) -> mmap.mmap:
    """Maps the bytes of a file."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise ProtocolError(f"{path}: the file is empty; is it a trace?") from None
    except OSError as error:
        hint = f"a trace that was not finished is called {path.name}.partial"
        raise ProtocolError(f"{path}: open: {error.strerror}; {hint}") from None


def _names_end(header: Header) -> int:
    return max(header.off_row_names + header.rows * NAME_LEN, header.off_col_names + header.cols * NAME_LEN)


def read_trace(path: str | Path) -> QueueTrace:
    """Maps a trace file."""
    path = Path(path)
    buffer = _map(path)
    header = parse_header(buffer, 0, str(path))
    if not _names_end(header) <= header.off_cells <= len(buffer):
        raise ProtocolError(f"{path}: off_cells {header.off_cells} cannot be in {len(buffer)} bytes; it is damaged")
    record = np.dtype([("t_ns", "<u8"), ("cells", "<u8", (header.rows, header.cols))])
    count, rest = divmod(len(buffer) - header.off_cells, record.itemsize)
    if rest:
        raise ProtocolError(f"{path}: {rest} bytes are left over after {count} sweeps of {record.itemsize}; it was cut off")
    sweeps = np.frombuffer(buffer, record, count, header.off_cells) if count else np.empty(0, record)
    return QueueTrace(
        rows=parse_names(buffer, header.off_row_names, header.rows, str(path)),
        columns=parse_names(buffer, header.off_col_names, header.cols, str(path)),
        interval_ns=header.interval_ns,
        t0_ns=header.t0_ns,
        t_ns=sweeps["t_ns"].astype(np.int64),
        cells=sweeps["cells"],
    )
