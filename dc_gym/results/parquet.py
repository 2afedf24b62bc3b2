# SPDX-License-Identifier: Apache-2.0
"""The tables of a result as Parquet files: written, checked and read. Strings are dictionaries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dc_gym.base import bounded
from dc_gym.base.errors import MachineError, ResultError, is_of_machine, with_remedy
from dc_gym.base.files import machine_errors
from dc_gym.results import parquet_pages
from dc_gym.results.tables import PIECE_ROWS, Names, Piece, Records, TableSchema

PIECE_BYTES = 256_000_000
"""The most memory that a row group may take. A reader reads one at a time; the row groups of a run have PIECE_ROWS rows."""
WHOLE_BYTES, WHOLE_RATIO = 1_000_000_000, 256
"""The most that a table may take that is read whole: so many bytes, or so many times the bytes of its file."""
IN_PIECES, AGAIN = "read it in pieces (Result.stored.pieces)", "get the result again"
_ARROW = {"<i4": pa.int32(), "<i8": pa.int64(), "<u2": pa.uint16(), "<u4": pa.uint32(), "<u8": pa.uint64()}


def schema(table: TableSchema) -> pa.Schema:
    """Returns the columns of a table's Parquet file."""
    text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([pa.field(name, _ARROW.get(kind, text), nullable=name in table.unknown) for name, kind in table.columns])


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

    Further columns come from a later minor version. A file of an older one may lack columns outside the digest.
    """
    with _readable(path), pa.OSFile(str(path)) as file:
        opened = pq.ParquetFile(file, pre_buffer=False)
        file_schema = opened.schema_arrow
    for field in schema(table):
        if field.name not in file_schema.names:
            if field.name in table.unknown:
                continue
            raise ResultError(f"{path}: column {field.name} is missing; the file was not written by `dcgym run`")
        if file_schema.field(field.name).type != field.type:
            raise ResultError(f"{path}: column {field.name} is {file_schema.field(field.name).type}, not {field.type}")
    _require_small_groups(path, opened.metadata, schema(table))


def read(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns these columns of a file; None means all. Raises ResultError if they state more than WHOLE_BYTES.

    Arrow reads its own file, in this thread. Its threads must not hold a Python object when the interpreter ends: a process whose
    work was done then aborted now and then, with exit code 134 (apache/arrow issue 34314).
    """
    with _readable(path), pa.OSFile(str(path)) as file:
        plain = pq.ParquetFile(file, pre_buffer=False)
        texts = [field.name for field in plain.schema_arrow if pa.types.is_string(field.type)]
        opened = pq.ParquetFile(file, metadata=plain.metadata, pre_buffer=False, read_dictionary=texts)
        names = [name for name in columns or plain.schema_arrow.names if name in plain.schema_arrow.names]
        _require_small(path, opened, names, file.size())
        return _unfolded(path, opened.read(names, use_threads=False), [name for name in texts if name in names])


def read_pieces(path: Path, table: TableSchema, columns: Sequence[str], names: Names) -> Iterator[Piece]:
    """Yields these columns of a table's file, at most PIECE_ROWS rows at a time."""
    with _readable(path), pa.OSFile(str(path)) as file:
        opened = pq.ParquetFile(file, pre_buffer=False)
        has = [name for name in columns if name in opened.schema_arrow.names]
        parquet_pages.require_as_stated(path, opened.metadata, has)
        for batch in opened.iter_batches(PIECE_ROWS, columns=has, use_threads=False):
            yield {name: _values(path, table, name, batch, names) for name in columns}


def _require_small_groups(path: Path, metadata: pq.FileMetaData, kind: pa.Schema) -> None:
    """Raises an error if a row group states more than PIECE_BYTES."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        stated_bytes = max(group.total_byte_size, group.num_rows * _row_bytes(path, kind))
        bounded.require(f"{path}: row group {number}", stated_bytes, PIECE_BYTES, AGAIN, ResultError)


def _require_small(path: Path, opened: pq.ParquetFile, columns: Sequence[str], file_bytes: int) -> None:
    """Raises an error if these columns state more than may be read whole."""
    metadata = opened.metadata
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    stated_bytes = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in columns)
    kind = pa.schema([opened.schema_arrow.field(name) for name in columns])
    most_bytes = max(WHOLE_BYTES, WHOLE_RATIO * file_bytes)
    bounded.require(f"{path}:", max(stated_bytes, metadata.num_rows * _row_bytes(path, kind)), most_bytes, IN_PIECES, ResultError)
    parquet_pages.require_as_stated(path, metadata, columns)


def _row_bytes(path: Path, kind: pa.Schema) -> int:
    total = 0
    for field in kind:
        width = field.type.index_type if pa.types.is_dictionary(field.type) else field.type
        if not (pa.types.is_primitive(width) or pa.types.is_string(width)):
            raise ResultError(f"{path}: column {field.name} is {field.type}, which no table of dc-gym has; {AGAIN}")
        total += width.bit_width if pa.types.is_primitive(width) else 0
    return total // 8


def _unfolded(path: Path, table: pa.Table, texts: Sequence[str]) -> pa.Table:
    """Returns a table that was read with dictionaries of these columns, without them."""
    for name in texts:
        chunks = table.column(name).chunks
        stated_bytes = sum(len(chunk) * _longest_bytes(chunk.dictionary) for chunk in chunks)
        bounded.require(f"{path}: column {name}", stated_bytes, WHOLE_BYTES, AGAIN, ResultError)
        unfolded = pa.chunked_array([chunk.dictionary_decode() for chunk in chunks], pa.string())
        table = table.set_column(table.column_names.index(name), name, unfolded)
    return table


def _longest_bytes(texts: pa.Array) -> int:
    """Returns the length of the longest text. Arrow's own function for it imports pyarrow.compute: a tenth of a second a run."""
    if not len(texts):
        return 0
    ends = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, 4 * texts.offset)
    return int(np.diff(ends).max())


def to_records(path: Path, table: TableSchema, read: pa.Table, names: Names) -> Records:
    """Converts the columns of a table's file, as `read` returns them, to canonical records."""
    records = np.empty(read.num_rows, table.dtype)
    for name, _ in table.columns:
        records[name] = _values(path, table, name, read, names)
    return records


def to_arrow(values: npt.NDArray[Any], known: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Converts numbers, truth values and strings without pa.array(). Values that are not `known` become null.

    pa.array() imports pandas if it is installed: half a second a run.
    """
    valid = None if known is None or known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    if values.dtype.kind == "b":
        return pa.Array.from_buffers(pa.bool_(), len(values), [valid, pa.py_buffer(np.packbits(values, bitorder="little"))])
    if values.dtype.kind in "iuf":
        values = np.ascontiguousarray(values)
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])
    texts = values.tolist()
    if not all(isinstance(text, str) for text in texts):
        return pa.array(values)
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(texts), [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def from_arrow(values: pa.Array, unknown: int | None = None) -> npt.NDArray[Any]:
    """Returns integers as numpy has them, in place. `unknown` stands for null; None: there may be none.

    pa.Array.to_numpy() imports pandas, as pa.array() does.
    """
    dtype = np.dtype(values.type.to_pandas_dtype())
    if dtype.kind not in "iu" or (values.null_count and unknown is None):
        raise ResultError(f"a column of {values.type} with {values.null_count} missing values is not one of integers")
    valid, buffer = values.buffers()
    numbers = np.frombuffer(b"" if buffer is None else buffer, dtype, len(values), values.offset * dtype.itemsize)
    if not values.null_count:
        return numbers
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")
    return np.where(bits[values.offset : values.offset + len(values)], numbers, dtype.type(unknown))


def _column(table: TableSchema, records: Records, field: pa.Field, names: Names) -> pa.Array:
    column = np.ascontiguousarray(records[field.name])
    kind = table.strings.get(field.name)
    if kind is None:
        return to_arrow(column, column != table.unknown[field.name] if field.name in table.unknown else None)
    texts = np.array(names.of_kind(kind), dtype=object)
    return pa.DictionaryArray.from_arrays(to_arrow(column.astype(np.int32)), to_arrow(texts))


def _values(path: Path, table: TableSchema, name: str, read: pa.Table | pa.RecordBatch, names: Names) -> npt.NDArray[Any]:
    """Returns a column as numbers; strings become row numbers. One that an older result lacks is unknown in all rows."""
    unknown = table.unknown.get(name)
    if unknown is not None and name not in read.schema.names:
        return np.full(read.num_rows, unknown, dict(table.columns)[name])
    column = read.column(name)
    chunks = column.chunks if isinstance(read, pa.Table) else [column]
    kind = table.strings.get(name)
    if kind is not None:
        return _row_numbers(path, name, chunks, names.of_kind(kind))
    parts = [from_arrow(chunk, unknown) for chunk in chunks]
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
            hint = old if name == "controller" else ""
            raise ResultError(f"{path}: column {name} has {unknown[0]!r}, which is not one of: {', '.join(known)}{hint}")
        parts.append(np.array([rows.get(text, 0) for text in texts], "<u4")[used] if len(used) else parts[0])
    return np.concatenate(parts)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turns an error of reading a file into one line."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if is_of_machine(error):
            plain = OSError(error.errno, os.strerror(error.errno or 0))  # without Arrow's own text
            raise MachineError(f"{path}: {with_remedy(plain)}") from None
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise ResultError(f"{path}: not a readable Parquet file: {why}") from None
