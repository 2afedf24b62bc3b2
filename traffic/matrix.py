# SPDX-License-Identifier: Apache-2.0
"""The flow matrix: a CSV file in the manner of Iroko (thesis, table 4.1), one flow a row (docs/workloads.md).

Seconds become integer nanoseconds exactly. Sizes are payload bytes. Text that cannot be parsed is an error that names its place.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from pathlib import Path
from re import fullmatch

from dc_gym.base import bounded
from dc_gym.base.errors import WorkloadError, with_remedy
from dc_gym.traffic.flows import LARGEST, LARGEST_DSCP, LARGEST_PORT, TRANSPORTS, FlowRequest

COLUMNS = ("source", "destination", "port", "start", "stop", "size")
TRANSPORT, DSCP = "transport", "dscp"
ENDINGS: tuple[tuple[str, ...], ...] = ((), (TRANSPORT,), (DSCP,), (TRANSPORT, DSCP))
"""The columns that may follow any dialect's. An empty cell names nothing."""


def is_header(columns: tuple[str, ...], of_dialect: tuple[str, ...]) -> bool:
    """Returns whether columns are a dialect's, with the columns that may follow them."""
    return columns in [(*of_dialect, *ending) for ending in ENDINGS]


def dscp_of(text: str) -> int | None:
    """Returns a DSCP, or None if the text is none."""
    return int(text) if fullmatch(r"[0-9]{1,2}", text) and int(text) <= LARGEST_DSCP else None


def read_matrix(path: Path, hosts: Collection[str]) -> list[FlowRequest]:
    """Returns the flows of a file, in its order."""
    return parse_matrix(read_text(path), str(path), hosts)


def read_text(path: Path) -> str:
    """Returns the text of a matrix file."""
    try:
        return bounded.read_text(path, bounded.TABLE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"workload.file: cannot read {path}: {with_remedy(error, 'give a CSV file')}") from error


def parse_matrix(
    text: str,
    name: str,
    hosts: Collection[str],
    dialects: Sequence[Sequence[str]] = (COLUMNS,),
    offered_bps: Callable[[str, str | None], int] = lambda src, transport: 0,
) -> list[FlowRequest]:
    """Returns the flows of a matrix. `name` stands for the file in errors, `hosts` are the names that exist.

    `dialects` are the headers that the caller accepts, for the error about an unknown header. `offered_bps` returns the rate of a
    flow from a host over the transport that its row names, if any.
    """
    columns: tuple[str, ...] = ()
    reader = csv.reader(text.splitlines(), strict=True)
    flows: list[FlowRequest] = []
    try:
        for row in reader:
            where = f"{name}:{reader.line_num}"
            if reader.line_num > 1:
                flows.append(_flow(row, columns, where, hosts, offered_bps))
            elif not is_header(columns := tuple(row), COLUMNS):
                known = "; or ".join(",".join(columns) for columns in dialects)
                raise WorkloadError(f"{where}: header {','.join(row)!r} is in no known format; write {known}")
    except csv.Error as error:
        raise WorkloadError(f"{name}:{reader.line_num}: not CSV: {error}; quote nothing") from error
    if not flows:
        raise WorkloadError(f"{name}: it has 0 flows; write the header {','.join(COLUMNS)!r} and a row a flow")
    return flows


def _flow(
    row: list[str], columns: Sequence[str], where: str, hosts: Collection[str], offered_bps: Callable[[str, str | None], int]
) -> FlowRequest:
    if len(row) != len(columns):
        raise WorkloadError(f"{where}: it has {len(row)} columns, not {len(columns)}; write {','.join(columns)}")
    cells = {TRANSPORT: "", DSCP: ""} | dict(zip(columns, row, strict=True))

    def cell(column: str, parse: Callable[[str], int | None], expected: str) -> int:
        value = parse(cells[column])
        if value is None:
            raise WorkloadError(f"{where}: column {column!r}: value {cells[column]!r} is not {expected}")
        return value

    for column in ("source", "destination"):
        cell(column, lambda text: 0 if text in hosts else None, f"one of the {len(hosts)} hosts of the topology")
    cell("destination", lambda text: 0 if text != cells["source"] else None, "another host than the source")
    port = cell("port", _port, f"in 1..{LARGEST_PORT}")
    start = cell("start", _seconds, "seconds of at most 9 decimals")
    stop = cell("stop", _seconds, "seconds of at most 9 decimals, 0 for no limit")
    cell("stop", lambda _: 0 if stop == 0 or stop > start else None, f"after the start {cells['start']!r}")
    size = cell("size", _size, "a whole number of bytes, 0 or inf for no limit")
    cell(TRANSPORT, lambda text: 0 if text in ("", *TRANSPORTS) else None, f"one of {', '.join(TRANSPORTS)}")
    dscp = cell(DSCP, dscp_of, f"in 0..{LARGEST_DSCP}") if cells[DSCP] else None
    transport = cells[TRANSPORT] or None
    rate_bps = offered_bps(cells["source"], transport)
    ends = (cells["source"], cells["destination"], port, start, stop, size)
    return FlowRequest(*ends, rate_bps=rate_bps, transport=transport, dscp=dscp)


def _port(text: str) -> int | None:
    return int(text) if fullmatch(r"[0-9]{1,5}", text) and 1 <= int(text) <= LARGEST_PORT else None


def _seconds(text: str) -> int | None:
    """Returns the nanoseconds of a decimal number of seconds."""
    value_ns = Fraction(text) * 10**9 if fullmatch(r"[0-9]{1,12}(\.[0-9]{1,18})?", text) else Fraction(-1)
    return int(value_ns) if value_ns.denominator == 1 and 0 <= value_ns <= LARGEST else None


def _size(text: str) -> int | None:
    if text == "inf":
        return 0
    return int(text) if fullmatch(r"[0-9]{1,19}", text) and int(text) <= LARGEST else None
