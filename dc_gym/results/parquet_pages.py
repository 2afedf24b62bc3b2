# SPDX-License-Identifier: Apache-2.0
"""The pages of a Parquet file, as their headers state them (parquet.thrift, in Thrift's compact protocol).

The footer states the sizes of columns, but Arrow reserves the size that each page's own header states. A header that states more
than the footer, or an encoding that unfolds texts, is a sign of a file made to fill the memory.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dc_gym.base.errors import ResultError
from dc_gym.base.readable import quantity

HEADER_BYTES, LONGEST_HEADER_BYTES = 1 << 12, 1 << 24
ENCODINGS = {0: "PLAIN", 2: "PLAIN_DICTIONARY", 3: "RLE", 4: "BIT_PACKED", 8: "RLE_DICTIONARY"}
"""The encodings that dc-gym's files have, by their numbers in page headers."""
UNCOMPRESSED, COMPRESSED = 2, 3
"""Fields of a PageHeader: sizes in bytes."""
DATA, DICTIONARY, DATA_V2 = (5, 2), (7, 2), (8, 4)
"""Fields of a PageHeader with the header of each kind of page, and in it the field of the encoding."""
STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, STRUCT = 0, 1, 2, 3, 7, 8, 12
"""Types of Thrift's compact protocol. A page header has no others but integers."""
DEEPEST = 8


def require_as_stated(path: Path, footer: pq.FileMetaData, columns: Collection[str]) -> None:
    """Raises ResultError if the pages of these columns are not as the footer states them."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                if column.path_in_schema in columns:
                    _require_column(path, fd, column)
    finally:
        os.close(fd)


def _require_column(path: Path, fd: int, column: pq.ColumnChunkMetaData) -> None:
    name, at, left_bytes = column.path_in_schema, _begin(column), column.total_uncompressed_size
    end = at + column.total_compressed_size
    while at < end:
        header, length = _header(path, fd, at)
        stated_bytes, length_on_disk = header.get(UNCOMPRESSED), header.get(COMPRESSED)
        if not isinstance(stated_bytes, int) or not isinstance(length_on_disk, int) or min(stated_bytes, length_on_disk) < 0:
            raise _damaged(path)
        if stated_bytes > left_bytes:
            stated = quantity(stated_bytes, "bytes")
            why = f"a page of column {name} states {stated}, and the file's footer at most {quantity(left_bytes, 'bytes')}"
            raise ResultError(f"{path}: {why}; the file was changed")
        for kind, field in (DATA, DICTIONARY, DATA_V2):
            encoding = header.get(kind, {}).get(field, 0)
            if encoding not in ENCODINGS:
                raise ResultError(f"{path}: column {name} has pages of encoding {encoding}; the file was not written by dc-gym")
        left_bytes, at = left_bytes - stated_bytes, at + length + length_on_disk


def _begin(column: pq.ColumnChunkMetaData) -> int:
    """Returns where the first page begins, as Arrow finds it."""
    data, dictionary = column.data_page_offset, column.dictionary_page_offset
    return int(dictionary) if column.has_dictionary_page and dictionary and 0 < dictionary < data else int(data)


def _header(path: Path, fd: int, at: int) -> tuple[dict[int, Any], int]:
    """Returns the fields of a page's header that are numbers or structs, and the header's length."""
    room = HEADER_BYTES
    while True:
        data = os.pread(fd, room, at)
        try:
            return _struct(data, 0, DEEPEST)
        except IndexError:
            if len(data) < room or room >= LONGEST_HEADER_BYTES:
                raise _damaged(path) from None
            room *= 16
        except ValueError:
            raise _damaged(path) from None


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    number = 0
    while (head := data[at]) != STOP:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _number(data, at)
        fields[number], at = _value(data, at, head & 15, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Returns a field's value, None unless it is a number or a struct, and where it ends."""
    if kind in (TRUE, FALSE):
        return None, at
    if kind == BYTE:
        return None, at + 1
    if kind < DOUBLE:
        return _number(data, at)
    if kind == DOUBLE:
        return None, at + 8
    if kind == BINARY:
        length, at = _varint(data, at)
        return None, at + length
    if kind == STRUCT and depth:
        return _struct(data, at, depth - 1)
    raise ValueError(f"a page header has a value of type {kind}")


def _number(data: bytes, at: int) -> tuple[int, int]:
    folded, at = _varint(data, at)
    return folded >> 1 ^ -(folded & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number in a page header does not end")


def _damaged(path: Path) -> ResultError:
    return ResultError(f"{path}: not a readable Parquet file: a page's header is damaged")
