# SPDX-License-Identifier: Apache-2.0
"""The tables of a result as Parquet files: written, checked and read. Strings are dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dc_gym.base.errors import ResultError
from dc_gym.base.files import machine_errors
from dc_gym.records.tables import Names, Records, TableSchema

ROW_GROUP = 1 << 18
_ARROW = {"<i4": pa.int32(), "<i8": pa.int64(), "<u2": pa.uint16(), "<u4": pa.uint32(), "<u8": pa.uint64()}


def schema(table: TableSchema) -> pa.Schema:
    """Returns the columns of a table's Parquet file."""
    text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([pa.field(name, _ARROW.get(kind, text), nullable=False) for name, kind in table.columns])


def write(path: Path, table: TableSchema, records: Records, names: Names) -> None:
    """Writes one Parquet file, in row groups so that the memory use stays constant."""
    kind = schema(table)
    with machine_errors("write", path), path.open("wb") as file, pq.ParquetWriter(file, kind, compression="zstd") as writer:
        for begin in range(0, max(1, len(records)), ROW_GROUP):
            part = records[begin : begin + ROW_GROUP]
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


def to_records(path: Path, table: TableSchema, read: pa.Table, names: Names) -> Records:
    """Returns what `read` gave of a table's file as canonical records."""
    records = np.empty(read.num_rows, table.dtype)
    for name, _ in table.columns:
        kind = table.strings.get(name)
        column = read.column(name)
        records[name] = column.to_numpy() if kind is None else _row_numbers(path, name, column, names.of_kind(kind))
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


def _column(table: TableSchema, records: Records, field: pa.Field, names: Names) -> pa.Array:
    column = np.ascontiguousarray(records[field.name])
    kind = table.strings.get(field.name)
    if kind is None:
        return to_arrow(column)
    texts = np.array(names.of_kind(kind), dtype=object)
    return pa.DictionaryArray.from_arrays(to_arrow(column.astype(np.int32)), to_arrow(texts))


def _row_numbers(path: Path, name: str, column: pa.ChunkedArray, known: tuple[str, ...]) -> npt.NDArray[Any]:
    """Returns the row numbers of a dictionary column. Each chunk has a dictionary of its own."""
    rows = {text: row for row, text in enumerate(known)}
    parts = [np.empty(0, "<u4")]
    for chunk in column.chunks:
        texts = chunk.dictionary.to_pylist()
        used = chunk.indices.to_numpy(zero_copy_only=False)
        unknown = [texts[index] for index in np.unique(used) if texts[index] not in rows]
        if unknown:
            raise ResultError(f"{path}: column {name} has {unknown[0]!r}, which is not one of: {', '.join(known)}")
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
