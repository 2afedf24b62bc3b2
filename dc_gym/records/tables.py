# SPDX-License-Identifier: Apache-2.0
"""The tables of a result: their columns, and their rows as canonical records (docs/results.md).

A column's name ends in its unit: _ns, _us, _bytes, _packets, _bps. A canonical record is packed, little-endian and all integers:
a string is its row number in `Names`. In memory, tables are numpy arrays of these records; only files and messages have the
strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError
from dc_gym.ctrl import controllers
from dc_gym.traffic.flows import GROUPS, TRANSPORTS

__all__ = [
    "NIC_EVENTS",
    "REQUIRED",
    "STATUSES",
    "TABLES",
    "Names",
    "Records",
    "Table",
    "Tables",
    "empty",
    "encode",
]

STATUSES = ("done", "stopped", "running", "failed", "waiting")
NIC_EVENTS = ("none", "firmware", "cnp", "tx", "ack", "nack", "rtt")
"""The events that NICs pass to their algorithm, by the numbers of ctrl/nic/cc.h."""

Records = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of one table in order, and the order of its rows."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Name and numpy type of each column. Those of STRING_KINDS are strings (u32 row numbers of Names)."""
    order: tuple[str, ...]
    """Rows are sorted by these columns."""
    time: str
    """The column with the time."""
    optional: bool = False
    """True if a result without rows of this table has no file of it and leaves it out of its digest."""

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The packed canonical record."""
        return self.record(*(name for name, _ in self.columns))

    def record(self, *names: str) -> np.dtype[np.void]:
        """Returns a packed record of these columns alone, in this order."""
        kinds = dict(self.columns)
        return np.dtype([(name, "<u4" if kinds[name] in STRING_KINDS else kinds[name]) for name in names])

    @property
    def strings(self) -> dict[str, str]:
        """The string columns and the kind of name they hold."""
        return {name: kind for name, kind in self.columns if kind in STRING_KINDS}


STRING_KINDS = ("port", "node", "controller", "transport", "group", "status", "event")

TABLES = {
    table.name: table
    for table in (
        Table(
            "flows",
            (
                ("flow", "<u4"),
                ("src", "node"),
                ("dst", "node"),
                ("src_port", "<u2"),
                ("dst_port", "<u2"),
                ("transport", "transport"),
                ("controller", "controller"),
                ("group", "group"),
                ("rep", "<u4"),
                ("due_ns", "<i8"),
                ("start_ns", "<i8"),
                ("established_ns", "<i8"),
                ("end_ns", "<i8"),
                ("size_bytes", "<u8"),
                ("sent_bytes", "<u8"),
                ("received_bytes", "<u8"),
                ("retransmits", "<u8"),
                ("fct_ns", "<i8"),
                ("status", "status"),
                ("error", "<i4"),
            ),
            order=("flow",),
            time="start_ns",
        ),
        Table(
            "queues",
            (
                ("t_ns", "<i8"),
                ("port", "port"),
                ("backlog_bytes", "<u8"),
                ("backlog_packets", "<u8"),
                ("tx_bytes", "<u8"),
                ("tx_packets", "<u8"),
                ("drops", "<u8"),
                ("marks", "<u8"),
                ("requeues", "<u8"),
                ("active_flows", "<u8"),
            ),
            order=("t_ns", "port"),
            time="t_ns",
        ),
        Table(
            "tcp",
            (
                ("t_ns", "<i8"),
                ("flow", "<u4"),
                ("srtt_us", "<u4"),
                ("min_rtt_us", "<u4"),
                ("cwnd_packets", "<u4"),
                ("delivery_rate_bps", "<u8"),
                ("notsent_bytes", "<u4"),
                ("bytes_acked", "<u8"),
                ("bytes_received", "<u8"),
                ("retransmits", "<u4"),
            ),
            order=("t_ns", "flow"),
            time="t_ns",
        ),
        Table(
            "nic_flows",
            (
                ("t_ns", "<i8"),
                ("flow", "<u4"),
                ("rate_bps", "<u8"),
                ("window_bytes", "<u4"),
                ("rtt_ns", "<u4"),
                ("least_rtt_ns", "<u4"),
                ("sent_packets", "<u8"),
                ("sent_bytes", "<u8"),
                ("resent_packets", "<u8"),
                ("received_packets", "<u8"),
                ("marked_packets", "<u8"),
                ("dropped_packets", "<u8"),
                ("messages", "<u8"),
                ("broken_messages", "<u8"),
                ("cnps", "<u8"),
                ("nacks", "<u8"),
                ("timeouts", "<u8"),
                ("rtts", "<u8"),
                ("probes", "<u8"),
                ("probe_bytes", "<u8"),
                ("decisions", "<u8"),
            ),
            order=("t_ns", "flow"),
            time="t_ns",
            optional=True,
        ),
        Table(
            "decisions",
            (
                ("t_ns", "<i8"),
                ("flow", "<u4"),
                ("event", "event"),
                ("flags", "<u2"),
                ("rtt_ns", "<u4"),
                ("rate_before_bps", "<u8"),
                ("rate_bps", "<u8"),
                ("window_bytes", "<u4"),
            ),
            order=("t_ns", "flow"),
            time="t_ns",
            optional=True,
        ),
    )
}
"""All tables, in the order of the digest."""

REQUIRED = tuple(name for name, table in TABLES.items() if not table.optional)
"""The tables that every result has."""


@dataclass(frozen=True, slots=True)
class Names:
    """The strings of a result; a record holds a string's row number."""

    port: tuple[str, ...]
    """Names of the ports, as in ports.json."""
    node: tuple[str, ...]
    """Owners of the ports in the order of their first port: the switches, then the hosts."""
    controller: tuple[str, ...]
    """Names of the controllers, as registered (ctrl/controllers.py)."""
    transport: tuple[str, ...] = TRANSPORTS
    group: tuple[str, ...] = GROUPS
    status: tuple[str, ...] = STATUSES
    event: tuple[str, ...] = NIC_EVENTS

    @classmethod
    def of(cls, ports: Sequence[Mapping[str, Any]]) -> Names:
        """Returns the names that the ports of a run give."""
        owners = dict.fromkeys(str(port["owner"]) for port in ports)
        return cls(tuple(str(port["name"]) for port in ports), tuple(owners), controllers.names())

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """Returns all strings of a kind (one of STRING_KINDS) by row number."""
        names: tuple[str, ...] = getattr(self, kind)
        return names


@dataclass(frozen=True, slots=True)
class Tables:
    """The measurements of a run: canonical records, sorted, and the ports to which they refer."""

    flows: Records
    queues: Records
    tcp: Records
    ports: tuple[Mapping[str, Any], ...]
    nic_flows: Records = field(default_factory=lambda: empty("nic_flows"))
    decisions: Records = field(default_factory=lambda: empty("decisions"))

    @classmethod
    def build(cls, *, ports: Sequence[Mapping[str, Any]], **arrays: Records) -> Tables:
        """Builds tables from structured arrays with the columns of docs/results.md.

        A string column may hold strings or row numbers.
        """
        names = Names.of(ports)
        return cls(ports=tuple(ports), **{name: encode(TABLES[name], array, names) for name, array in arrays.items()})

    @property
    def names(self) -> Names:
        """The strings of the records."""
        return Names.of(self.ports)

    def table(self, name: str) -> Records:
        """Returns the records of one of TABLES."""
        records: Records = getattr(self, name)
        return records


def empty(name: str) -> Records:
    """Returns a table without rows."""
    return np.zeros(0, TABLES[name].dtype)


def encode(table: Table, array: Records, names: Names) -> Records:
    """Returns canonical records, sorted, of a structured array with the table's columns (others are left out)."""
    records = np.empty(len(array), table.dtype)
    for name, kind in table.columns:
        if array.dtype.names is None or name not in array.dtype.names:
            raise ProtocolError(f"table {table.name}: column {name!r} is missing")
        is_string, column = kind in STRING_KINDS, array[name]
        records[name] = _row_numbers(table, name, column, names.of_kind(kind)) if is_string else _fitting(table, name, column)
    return _sorted(table, records)


def _fitting(table: Table, name: str, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the column if its values fit the record.

    Otherwise raises an error, since a wrapped number would be wrong unnoticed.
    """
    bounds = np.iinfo(table.dtype[name])
    if column.dtype.kind not in "iu":
        raise ProtocolError(f"table {table.name}: column {name!r} holds {column.dtype}, not integers")
    if len(column) and not (bounds.min <= int(column.min()) and int(column.max()) <= bounds.max):
        raise ProtocolError(f"table {table.name}: column {name!r} has values outside {bounds.min}..{bounds.max}")
    return column


def _row_numbers(table: Table, name: str, column: npt.NDArray[Any], known: tuple[str, ...]) -> npt.NDArray[Any]:
    """Returns the row numbers of a column of strings, or the column itself if it holds row numbers."""
    if column.dtype.kind in "iu":
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < len(known):
            raise ProtocolError(f"table {table.name}: column {name!r} has row numbers outside 0..{len(known) - 1}")
        return column
    rows = {text: row for row, text in enumerate(known)}
    values, inverse = np.unique(column, return_inverse=True)
    unknown = [text for value in values if (text := _text(value)) not in rows]
    if unknown:
        raise ProtocolError(f"table {table.name}: column {name!r} has {unknown[0]!r}, which is not one of: {', '.join(known)}")
    return np.array([rows[_text(value)] for value in values], "<u4")[inverse]


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _sorted(table: Table, records: Records) -> Records:
    """Returns the records in the table's order."""
    keys = [records[name] for name in table.order]
    order = np.lexsort(keys[::-1])
    return records if np.array_equal(order, np.arange(len(records))) else records[order]
