# SPDX-License-Identifier: Apache-2.0
"""The tables of a run in its folder, as Parquet files. They are read when they are asked for, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dc_gym.results import parquet
from dc_gym.results.tables import TABLES, Names, Piece, Records, empty


class StoredTables:
    """A `TableSource`. `controllers` are the names that the run recorded; None means those known here."""

    def __init__(self, folder: Path, ports: Sequence[Mapping[str, Any]], controllers: tuple[str, ...] | None = None) -> None:
        self.folder = folder
        self.ports = tuple(ports)
        self.names = Names.of(ports, controllers)
        self._records: dict[str, Records] = {}

    @property
    def flows(self) -> Records:
        """The table of flows."""
        return self.table("flows")

    @property
    def nic_flows(self) -> Records:
        """The table of the NICs' counters; without rows if its file is missing."""
        return self.table("nic_flows")

    @property
    def classes(self) -> Records:
        """The table of the flows' workloads and DSCPs; without rows if there is no file of it."""
        return self.table("classes")

    def has(self, name: str) -> bool:
        """Returns True unless the table is optional and has no file."""
        return not TABLES[name].optional or self._path(name).is_file()

    def arrow(self, name: str) -> pa.Table:
        """Returns a table as pyarrow reads it."""
        if not self.has(name):
            return parquet.schema(TABLES[name]).empty_table()
        return parquet.read(self._path(name), [column for column, _ in TABLES[name].columns])

    def table(self, name: str) -> Records:
        """Returns a whole table as canonical records, which stay in memory."""
        if name not in self._records:
            read = self.arrow(name) if self.has(name) else None
            records = empty(name) if read is None else parquet.to_records(self.folder, TABLES[name], read, self.names)
            self._records[name] = records
        return self._records[name]

    def pieces(self, name: str, *columns: str) -> Iterator[Piece]:
        """Yields these columns of a table in pieces (tables.TableSource)."""
        if self.has(name):
            yield from parquet.read_pieces(self._path(name), TABLES[name], columns, self.names)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"
