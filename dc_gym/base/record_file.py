# SPDX-License-Identifier: Apache-2.0
"""Writes and reads record files, which the C programs take as input (dc_gym/daemon/record_file.h).

A file is one table after the other. A table is a header and records of one kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError, naming

HEADER = np.dtype([("magic", "S8"), ("version", "<u4"), ("record_size", "<u4"), ("count", "<u8")])
"""`struct record_header`."""
ALIGNMENT = 8
RESERVED = "reserved"


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A kind of record."""

    magic: bytes
    """The first 8 bytes of a table of such records."""
    dtype: np.dtype[Any]
    version: int = 1

    def table(self, rows: Iterable[Mapping[str, Any]]) -> Table:
        """Returns a table with one record for each row of values by field. `reserved` is zero."""
        rows = list(rows)
        records = np.zeros(len(rows), self.dtype)
        for name in self.dtype.names or ():
            if rows and name != RESERVED:
                records[name] = [row[name] for row in rows]
        return Table(self, records)


@dataclass(frozen=True, slots=True)
class Table:
    """Records of one kind."""

    kind: RecordKind
    records: npt.NDArray[Any]

    def bytes(self) -> bytes:
        kind, body = self.kind, self.records.tobytes()
        header = np.array((kind.magic, kind.version, kind.dtype.itemsize, len(self.records)), HEADER)
        return header.tobytes() + body + bytes(-len(body) % ALIGNMENT)


def write(path: Path, *tables: Table) -> None:
    with naming(path):
        path.write_bytes(b"".join(table.bytes() for table in tables))


def read(path: Path, kinds: Sequence[RecordKind]) -> list[Table]:
    """Returns the tables of a file, each of one of these kinds."""
    data, at, tables = path.read_bytes(), 0, []
    known = {(kind.magic, kind.version, kind.dtype.itemsize): kind for kind in kinds}
    while at < len(data):
        if len(data) - at < HEADER.itemsize:
            raise ProtocolError(f"{path}: {len(data) - at} bytes at byte {at} are too few for a table; write it again")
        magic, version, size, count = np.frombuffer(data, HEADER, 1, at)[0].item()
        if (kind := known.get((magic, version, size))) is None:
            label = f"records {magic!r} of version {version} and {size} bytes"
            raise ProtocolError(f"{path}: {label} at byte {at} are not known; name a record file of this release")
        at += HEADER.itemsize
        if count * size > len(data) - at:
            raise ProtocolError(f"{path}: cut off within {count} records {magic!r}; write it again")
        tables.append(Table(kind, np.frombuffer(data, kind.dtype, count, at)))
        at += count * size + -count * size % ALIGNMENT
    return tables
