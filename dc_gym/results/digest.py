# SPDX-License-Identifier: Apache-2.0
"""The digest of a result's tables: SHA-256 over their canonical records (docs/digests.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from dc_gym.base.errors import ProtocolError
from dc_gym.results.tables import TABLES, Records, TableSource, records_of

DIGEST_VERSION = 2
CHUNK_RECORDS = 1 << 16


class Digest:
    """SHA-256 over canonical records. Tables are added one after the other, each in any number of pieces."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(f"dcgym-digest {DIGEST_VERSION}\n".encode("ascii"))
        self._todo = list(TABLES)

    def begin(self, table: str) -> None:
        """Starts a table. Tables come in the order of TABLES; optional ones may be left out."""
        while self._todo and self._todo[0] != table and TABLES[self._todo[0]].optional:
            self._todo.pop(0)
        if not self._todo or self._todo[0] != table:
            raise ProtocolError(f"digest: table {table!r} out of order; next is {self._todo[:1] or 'none'}")
        self._table = TABLES[self._todo.pop(0)]
        self._hash.update(f"{table}\n".encode("ascii"))

    def update(self, records: Records) -> None:
        """Adds canonical records of the table that was begun."""
        if records.dtype != self._table.dtype:
            raise ProtocolError(f"digest: records of {self._table.name} are not canonical; encode() makes them so")
        for start in range(0, len(records), CHUNK_RECORDS):
            covered = self._table.digested_bytes(records[start : start + CHUNK_RECORDS])
            self._hash.update(np.ascontiguousarray(covered).data.cast("B"))

    def passing(self, table: str, pieces: Iterable[Records]) -> Iterator[Records] | None:
        """Starts a table, and returns its pieces, which are added as they are read. Returns None for an optional table without
        any, which is left out."""
        pieces = iter(pieces)
        first = next(pieces, None)
        if first is None and TABLES[table].optional:
            return None
        self.begin(table)
        return self._adding(pieces if first is None else chain((first,), pieces))

    def _adding(self, pieces: Iterable[Records]) -> Iterator[Records]:
        for piece in pieces:
            self.update(piece)
            yield piece

    def hexdigest(self) -> str:
        """Returns 64 hexadecimal digits. Every table that is not optional must have been begun."""
        if missing := [name for name in self._todo if not TABLES[name].optional]:
            raise ProtocolError(f"digest: table {missing[0]!r} is missing")
        return self._hash.hexdigest()


def digest_of(tables: TableSource) -> str:
    """Returns the digest of a run."""
    digest = Digest()
    for name, table in TABLES.items():
        pieces = tables.pieces(name, *(column for column, _ in table.columns))
        for _ in digest.passing(name, (records_of(table, piece) for piece in pieces)) or ():
            pass
    return digest.hexdigest()
