# SPDX-License-Identifier: Apache-2.0
"""A log of flows in CSV or Parquet: a row a flow, with columns for time, source, destination and bytes under usual names.

A column's name may end in its unit (start_ms, size_kb); without one, times are seconds and sizes bytes. Times may be dates, such
as those of NetFlow collectors; then the first flow starts at 0. In CSV a tab or a semicolon may stand for the comma, and lines
that begin with # are comments.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from dc_gym.base.errors import in_one_line
from dc_gym.traffic.files import fault, text_of
from dc_gym.traffic.files.model import FileFlow, FileFlows, FlowReader

NS_PER_S = 10**9
TIME_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": NS_PER_S, "sec": NS_PER_S, "seconds": NS_PER_S}
SIZE_UNITS = {"bytes": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
TIMES = ("start", "start_time", "time", "timestamp", "ts", "arrival", "arrival_time", "first", "first_seen", "stime", "begin")
STARTS = {f"{name}_{unit}": ns for name in TIMES for unit, ns in TIME_UNITS.items()} | dict.fromkeys(TIMES, NS_PER_S)
SOURCES = ("source", "src", "source_ip", "src_ip", "src_host", "src_addr", "srcaddr", "sa", "sip", "sender", "from")
DESTINATIONS = (
    "destination",
    "dst",
    "destination_ip",
    "dst_ip",
    "dst_host",
    "dst_addr",
    "dstaddr",
    "da",
    "dip",
    "receiver",
    "to",
)
AMOUNTS = ("size", "flow_size", "bytes", "num_bytes", "total_bytes", "in_bytes", "ibyt", "orig_bytes", "payload", "octets")
SIZES = {f"{name}_{unit}": size for name in AMOUNTS for unit, size in SIZE_UNITS.items()} | dict.fromkeys(AMOUNTS, 1)
COLUMNS: tuple[Iterable[str], ...] = (STARTS, SOURCES, DESTINATIONS, SIZES)
"""The names of the four columns, and for start and size the ns or bytes of their unit; the first that is there is read."""
PARQUET = b"PAR1"
NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,2})?")
MOST_DIGITS = 20
EARLIEST_DATE_NS = 10**8 * NS_PER_S
"""Times from there on, the year 1973, are dates."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


Rows = Iterator[tuple[int | None, Sequence[Any]]]
"""The line of each row, and its start, source, destination and size."""


@dataclass(frozen=True, slots=True)
class _Header:
    """The columns that are read: their places, and the units of start and size. Then the names of the others."""

    places: tuple[int, ...]
    start_ns: int
    size_bytes: int
    others: tuple[str, ...]
    bare: bool
    """True if the name of the start has no unit."""


def recognizes(head: bytes) -> bool:
    """Returns True for Parquet, and for text whose first line names the columns."""
    if head.startswith(PARQUET):
        return True
    line = next((line for line in head.decode("utf-8-sig", "replace").splitlines() if _is_row(line)), "")
    return _header(_cells(line)) is not None


def _is_row(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _delimiter(line: str) -> str:
    return max(",\t;", key=line.count)


def _cells(line: str) -> list[str]:
    return next(csv.reader([line], delimiter=_delimiter(line)), [])


def _header(names: Sequence[str]) -> _Header | None:
    """Returns which columns of these names are read; None if one is missing."""
    plain = [re.sub(r"[^a-z0-9]+", "_", name.strip().lower()) for name in names]
    start, source, destination, size = (next((name for name in known if name in plain), "") for known in COLUMNS)
    if not (start and source and destination and size):
        return None
    places = tuple(map(plain.index, (start, source, destination, size)))
    others = tuple(name for place, name in enumerate(names) if place not in places)
    return _Header(places, STARTS[start], SIZES[size], others, start in TIMES)


def read(path: Path) -> FileFlows:
    """Returns the flows of a file."""
    with path.open("rb") as file:
        parquet = file.read(len(PARQUET)) == PARQUET
    header, rows = (_parquet if parquet else _csv)(path)
    flows = [_flow(path, line, cells, header) for line, cells in rows]
    first_ns = min((flow.start_ns for flow in flows), default=0)
    dates = first_ns >= EARLIEST_DATE_NS
    for flow in flows if dates else ():
        flow.start_ns -= first_ns
    some = [flow for flow in flows if flow.size_bytes]
    if not some:
        raise fault(path, None, "it has 0 flows of a byte or more; give a row for each flow")
    not_used = [f"columns {', '.join(header.others)}"] if header.others else []
    not_used += [f"{len(flows) - len(some)} flows of 0 bytes"] if len(some) < len(flows) else []
    unit = "its times are dates, so the first flow starts at 0" if dates else "its times have no unit, so they are seconds"
    return FileFlows(some, tuple(not_used), (unit,) if dates or header.bare else ())


def _csv(path: Path) -> tuple[_Header, Rows]:
    lines = text_of(path).split("\n")
    first, names = next((number, line) for number, line in enumerate(lines, 1) if _is_row(line))
    header, width = _header(_cells(names)), len(_cells(names))
    assert header is not None, "recognized"
    text = ("" if line.startswith("#") else line for line in lines)
    return header, _csv_rows(path, csv.reader(text, delimiter=_delimiter(names), strict=True), first, width, header.places)


def _csv_rows(path: Path, reader: Any, first: int, width: int, places: Sequence[int]) -> Rows:
    try:
        for row in reader:
            if not row or reader.line_num <= first:
                continue
            if len(row) != width:
                raise fault(path, reader.line_num, f"it has {len(row)} columns, and the first line {width}; give as many")
            yield reader.line_num, [row[place] for place in places]
    except csv.Error as error:
        raise fault(path, reader.line_num, f"it is not CSV: {error}; quote nothing") from None


def _parquet(path: Path) -> tuple[_Header, Rows]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise fault(path, None, f"pyarrow does not read it: {in_one_line(error)}; write it anew") from None
    schema = file.schema_arrow
    if (header := _header(schema.names)) is None:
        raise fault(path, None, f"its columns are {', '.join(schema.names)}; have start_ns, source, destination and bytes")
    start = schema.types[header.places[0]]
    timed = pa.types.is_timestamp(start) or pa.types.is_duration(start)
    names = [schema.names[place] for place in header.places]

    def rows() -> Rows:
        for batch in file.iter_batches(columns=names):
            first, *others = (batch.column(name) for name in names)
            first = first.cast(pa.int64()) if timed else first
            yield from ((None, cells) for cells in zip(*(column.to_pylist() for column in (first, *others)), strict=True))

    return replace(header, start_ns=TIME_UNITS[start.unit], bare=False) if timed else header, rows()


def _flow(path: Path, line: int | None, cells: Sequence[Any], header: _Header) -> FileFlow:
    start, source, destination, size = (str(cell).strip() for cell in cells)
    start_ns, size_bytes = _whole(start, header.start_ns), _whole(size, header.size_bytes)
    start_ns = _date_ns(start) if start_ns is None else start_ns
    if start_ns is None:
        raise fault(path, line, f"start {start!r} is not a time of 0 or more; give a number, or a date like 2026-01-31 12:00:00")
    if size_bytes is None:
        raise fault(path, line, f"size {size!r} is not a number of 0 or more; give bytes")
    return FileFlow(source, destination, start_ns, size_bytes, line)


def _whole(text: str, unit: int) -> int | None:
    """Returns a number of these units in base units; None if it is none."""
    if text.isdecimal() and len(text) <= MOST_DIGITS:
        return int(text) * unit
    return round(Decimal(text) * unit) if NUMBER.fullmatch(text) else None


def _date_ns(text: str) -> int | None:
    """Returns the time of a date since 1970, UTC unless it says otherwise; None if it is none."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1) * 1000


READER = FlowReader("flow_log", "a log of flows (CSV, Parquet)", recognizes, read)
