# SPDX-License-Identifier: Apache-2.0
"""The tables of a result as Parquet files: written, checked and read. Strings are dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dc_gym.base.errors import ResultError
from dc_gym.base.files import machine_errors
from dc_gym.records.tables import PIECE_ROWS, Names, Piece, Records, TableSchema

_ARROW = {"<i4": pa.int32(), "<i8": pa.int64(), "<u2": pa.uint16(), "<u4": pa.uint32(), "<u8": pa.uint64()}


def schema(table: TableSchema) -> pa.Schema:
    """Returns the columns of a table's Parquet file."""
    text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([pa.field(name, _ARROW.get(kind, text), nullable=False) for name, kind in table.columns])


def write(path: Path, table: TableSchema, pieces: Iterable[Records], names: Names) -> None:
    """Writes one Parquet file with a row group for each piece, so that only one is in memory."""
    kind = schema(table)
    with machine_errors("write", path), path.open("wb") as file, pq.ParquetWriter(file, kind, compression="zstd") as writer:
        for part in pieces:
            writer.write_table(pa.Table.from_arrays([_column(table, part, field, names) for field in kind], schema=kind))


def write_columns(path: Path, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Writes columns that are no canonical records."""
    table = pa.Table.from_arrays([to_arrow(values) for values in columns.values()], names=list(columns))
    with machine_errors("write", path), path.open("wb") as file:
        pq.write_table(table, file, compression="zstd")


def check(path: Path, table: TableSchema) -> None:
    """Raises an error unless the file has the documented columns with their types.

    Further columns are those of a later minor version.
    """
    with _readable(path):
        found = pq.read_schema(path)
    for field in schema(table):
        if field.name not in found.names:
            raise ResultError(f"{path}: column {field.name} is missing; the file was not written by `dcgym run`")
        if found.field(field.name).type != field.type:
            raise ResultError(f"{path}: column {field.name} is {found.field(field.name).type}, not {field.type}")


def read(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns these columns of a file; None means all.

    Arrow reads its own file, in this thread. Its threads must not hold a Python object when the interpreter ends: a process whose
    work was done then aborted now and then, with exit code 134 (apache/arrow issue 34314).
    """
    with _readable(path), pa.OSFile(str(path)) as file:
        return pq.ParquetFile(file, pre_buffer=False).read(columns, use_threads=False)


def read_pieces(path: Path, table: TableSchema, columns: Sequence[str], names: Names) -> Iterator[Piece]:
    """Yields these columns of a table's file, at most PIECE_ROWS rows at a time."""
    with _readable(path), pa.OSFile(str(path)) as file:
        batches = pq.ParquetFile(file, pre_buffer=False).iter_batches(PIECE_ROWS, columns=list(columns), use_threads=False)
        for batch in batches:
            yield {name: _values(path, table, name, [batch.column(name)], names) for name in columns}


def to_records(path: Path, table: TableSchema, read: pa.Table, names: Names) -> Records:
    """Returns what `read` gave of a table's file as canonical records."""
    records = np.empty(read.num_rows, table.dtype)
    for name, _ in table.columns:
        records[name] = _values(path, table, name, read.column(name).chunks, names)
    return records


def to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Converts numbers, truth values and strings without pa.array().

    pa.array() imports pandas if it is installed: half a second a run.
    """
    if values.dtype.kind == "b":
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])
    if values.dtype.kind in "iuf":
        values = np.ascontiguousarray(values)
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])
    texts = values.tolist()
    if not all(isinstance(text, str) for text in texts):
        return pa.array(values)
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def from_arrow(values: pa.Array) -> npt.NDArray[Any]:
    """Returns integers as numpy has them, in place. pa.Array.to_numpy() imports pandas, as pa.array() does."""
    dtype = np.dtype(values.type.to_pandas_dtype())
    if values.null_count or dtype.kind not in "iu":
        raise ResultError(f"a column of {values.type} with {values.null_count} missing values is not one of integers")
    buffer = values.buffers()[1]
    return np.frombuffer(b"" if buffer is None else buffer, dtype, len(values), values.offset * dtype.itemsize)


def _column(table: TableSchema, records: Records, field: pa.Field, names: Names) -> pa.Array:
    column = np.ascontiguousarray(records[field.name])
    kind = table.strings.get(field.name)
    if kind is None:
        return to_arrow(column)
    texts = np.array(names.of_kind(kind), dtype=object)
    return pa.DictionaryArray.from_arrays(to_arrow(column.astype(np.int32)), to_arrow(texts))


def _values(path: Path, table: TableSchema, name: str, chunks: Sequence[pa.Array], names: Names) -> npt.NDArray[Any]:
    """Returns a column as numbers; strings become row numbers."""
    kind = table.strings.get(name)
    if kind is not None:
        return _row_numbers(path, name, chunks, names.of_kind(kind))
    parts = [from_arrow(chunk) for chunk in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dict(table.columns)[name]), *parts])


def _row_numbers(path: Path, name: str, chunks: Sequence[pa.Array], known: tuple[str, ...]) -> npt.NDArray[Any]:
    """Returns the row numbers of a dictionary column. Each chunk has a dictionary of its own."""
    rows = {text: row for row, text in enumerate(known)}
    parts = [np.empty(0, "<u4")]
    for chunk in chunks:
        texts = chunk.dictionary.to_pylist()
        used = from_arrow(chunk.indices)
        unknown = [texts[index] for index in np.unique(used) if texts[index] not in rows]
        if unknown:
            old = "; an older version did not record the names of a plug-in's controllers: run it again"
            told = old if name == "controller" else ""
            raise ResultError(f"{path}: column {name} has {unknown[0]!r}, which is not one of: {', '.join(known)}{told}")
        parts.append(np.array([rows.get(text, 0) for text in texts], "<u4")[used] if len(used) else parts[0])
    return np.concatenate(parts)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turns an error of reading a file into one line."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise ResultError(f"{path}: not a readable Parquet file: {why}") from None
