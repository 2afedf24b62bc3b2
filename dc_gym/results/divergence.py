# SPDX-License-Identifier: Apache-2.0
"""Finds where two results diverge: the earliest record in virtual time, over all tables, that is not the same in both. Columns
outside the digest do not count.

The queue trace and the TCP samples are ordered by time: their first unequal record is their earliest. A row of the flow log
refers to several times, so each of its columns has the time at which its value became final: the flow's identity at its start,
the handshake at its end, sums when the flow ends or at the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.results.digest import CHUNK_RECORDS
from dc_gym.results.tables import TABLES, Names, Records, Tables, TableSchema

__all__ = ["Difference", "Inequality", "Value", "first_difference", "history", "values_of"]

Value = int | str | None
NEVER = -1
AT_START = ("src", "dst", "src_port", "dst_port", "controller", "start_ns", "size_bytes")
AT_HANDSHAKE = ("established_ns",)


@dataclass(frozen=True, slots=True)
class Inequality:
    """A column of a record that is in both results, with different values."""

    column: str
    a: Value
    b: Value


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two results diverge."""

    table: str
    """'flows', 'queues', 'tcp', or 'ports'."""
    where: str
    """Name of the port or flow and of its hosts or switch: 'port s1-eth3 of s1', 'flow 2 (h1 to h3)'."""
    t_ns: int | None
    """Time relative to t0. None for ports, which have no time."""
    row: int
    """Row number in the table."""
    only: str
    """'a' or 'b' when the other result has no such record, otherwise ''."""
    columns: tuple[Inequality, ...]
    """The columns that differ in a record that both have."""
    also: tuple[str, ...] = ()
    """Other ports or flows that differ at the same time."""

    def __str__(self) -> str:
        when = "" if self.t_ns is None else f" at t = {self.t_ns} ns"
        difference = ", ".join(f"{inequality.column} {inequality.a!r} and {inequality.b!r}" for inequality in self.columns)
        if self.only:
            difference = f"only {self.only.upper()} has this record"
        return f"{self.table}, {self.where}{when}: {difference} (record {self.row})"


def first_difference(a: Tables, b: Tables) -> Difference | None:
    """Returns where two results first diverge, or None. Ports come first: without equal names records cannot be compared."""
    if (ports := _ports_difference(a.ports, b.ports)) is not None:
        return ports
    differences = [difference for table in TABLES.values() if (difference := _table_difference(table, a, b)) is not None]
    return min(differences, key=lambda difference: difference.t_ns or 0) if differences else None


def history(a: Tables, b: Tables, difference: Difference, count: int) -> list[int]:
    """Returns the row numbers of up to `count` records before the difference.

    In a trace they are of the same port or flow, in the flow log of any flow.
    """
    table = TABLES[difference.table]
    records = (b if difference.only == "b" else a).table(table.name)[: difference.row + 1]
    if not _is_trace(table):
        return list(range(difference.row))[-count:]
    key = table.order[1]
    return [int(row) for row in np.flatnonzero(records[key][:-1] == records[key][-1])[-count:]]


def _last_instant(tables: Tables) -> int:
    """Returns the last time for which a result has a record."""
    return max((int(tables.table(schema.name)[schema.time].max(initial=0)) for schema in TABLES.values()), default=0)


def values_of(tables: Tables, table: str, row: int) -> dict[str, Value]:
    """Returns one record by column: integers and strings."""
    record, names = tables.table(table)[row], tables.names
    return {name: _value(TABLES[table], names, record, name) for name, _ in TABLES[table].digested}


def _table_difference(table: TableSchema, a: Tables, b: Tables) -> Difference | None:
    return _trace_difference(table, a, b) if _is_trace(table) else _log_difference(table, a, b)


def _is_trace(table: TableSchema) -> bool:
    return table.order[0] == table.time


def _trace_difference(table: TableSchema, a: Tables, b: Tables) -> Difference | None:
    """Returns the first difference in a table whose records are ordered by time."""
    one, other = a.table(table.name), b.table(table.name)
    row = _first_unequal(table, one, other)
    if row is None:
        return None
    in_a, in_b = row < len(one), row < len(other)
    if in_a and in_b:
        keys = [tuple(int(records[row][name]) for name in table.order) for records in (one, other)]
        in_a, in_b = keys[0] <= keys[1], keys[1] <= keys[0]
    has, record = (a, one[row]) if in_a else (b, other[row])
    t_ns = int(record[table.time])
    unequal = _inequalities(table, a.names, b.names, record, other[row]) if in_a and in_b else ()
    where = _where(table, has, record)
    also = tuple(location for location in _at_instant(table, a, b, t_ns) if location != where)
    return Difference(table.name, where, t_ns, row, _only(in_a, in_b), unequal, also)


def _only(in_a: bool, in_b: bool) -> str:
    return "" if in_a and in_b else "a" if in_a else "b"


def _first_unequal(table: TableSchema, one: Records, other: Records) -> int | None:
    """Returns the first row that is not the same in both, or that only one has."""
    common = min(len(one), len(other))
    for start in range(0, common, CHUNK_RECORDS):
        stop = min(start + CHUNK_RECORDS, common)
        covered = [table.digested_bytes(records[start:stop]) for records in (one, other)]
        unequal = np.flatnonzero((covered[0] != covered[1]).any(axis=1))
        if len(unequal):
            return start + int(unequal[0])
    return None if len(one) == len(other) else common


def _at_instant(table: TableSchema, a: Tables, b: Tables, t_ns: int) -> Iterator[str]:
    """Yields the ports or flows whose records at one time are not the same."""
    key = table.order[1]
    records_a, records_b = (_of_instant(table, tables, t_ns) for tables in (a, b))
    for number in sorted(records_a.keys() | records_b.keys()):
        if records_a.get(number) != records_b.get(number):
            tables = a if number in records_a else b
            record = np.zeros((), table.dtype)
            record[key] = number
            yield _where(table, tables, record)


def _of_instant(table: TableSchema, tables: Tables, t_ns: int) -> Mapping[int, bytes]:
    records = tables.table(table.name)
    first, last = np.searchsorted(records[table.time], [t_ns, t_ns + 1])
    covered = table.digested_bytes(records[first:last])
    return {int(number): row.tobytes() for number, row in zip(records[table.order[1]][first:last], covered, strict=True)}


def _log_difference(table: TableSchema, a: Tables, b: Tables) -> Difference | None:
    """Returns the first difference in a table whose records are ordered by number, each with several times.

    The differing column whose value became final first decides.
    """
    one, other = a.table(table.name), b.table(table.name)
    end_ns = max(_last_instant(a), _last_instant(b))
    common = min(len(one), len(other))
    candidates: list[tuple[int, int]] = []
    for name, _ in table.digested:
        rows = np.flatnonzero(one[name][:common] != other[name][:common])
        if len(rows):
            times = np.minimum(*(_settled(records[rows], name, end_ns) for records in (one, other)))
            earliest = int(np.argmin(times))
            candidates.append((int(times[earliest]), int(rows[earliest])))
    longer = one if len(one) > common else other
    if len(longer) > common:
        times = _settled(longer[common:], table.time, end_ns)
        candidates.append((int(times.min()), common + int(np.argmin(times))))
    if not candidates:
        return None
    t_ns, row = min(candidates)
    return _log_record(table, a, b, t_ns, row)


def _log_record(table: TableSchema, a: Tables, b: Tables, t_ns: int, row: int) -> Difference:
    one, other = a.table(table.name), b.table(table.name)
    in_a, in_b = row < len(one), row < len(other)
    has, record = (a, one[row]) if in_a else (b, other[row])
    unequal = _inequalities(table, a.names, b.names, record, other[row]) if in_a and in_b else ()
    return Difference(table.name, _where(table, has, record), t_ns, row, _only(in_a, in_b), unequal)


def _settled(records: Records, column: str, end_ns: int) -> npt.NDArray[np.int64]:
    """Returns the times at which the values of a column of the flow log became final.

    For an event that never happened it is the end of the run.
    """
    when = "start_ns" if column in AT_START else "established_ns" if column in AT_HANDSHAKE else "end_ns"
    times = records[when].astype(np.int64)
    return np.where(times == NEVER, end_ns, times)


def _inequalities(table: TableSchema, a: Names, b: Names, one: Any, other: Any) -> tuple[Inequality, ...]:
    unequal = [name for name, _ in table.digested if one[name] != other[name]]
    return tuple(Inequality(name, _value(table, a, one, name), _value(table, b, other, name)) for name in unequal)


def _value(table: TableSchema, names: Names, record: Any, column: str) -> int | str:
    kind = table.strings.get(column)
    return names.of_kind(kind)[int(record[column])] if kind else int(record[column])


def _where(table: TableSchema, tables: Tables, record: Any) -> str:
    """Returns the port or the flow of a record, with its hosts or switch."""
    if "port" in table.strings:
        port = tables.ports[int(record["port"])]
        return f"port {port['name']} of {port['owner']}"
    number = int(record["flow"])
    flow = tables.flows[tables.flows["flow"] == number][:1]
    if not len(flow):
        return f"flow {number}"
    src, dst = (tables.names.node[int(flow[0][end])] for end in ("src", "dst"))
    return f"flow {number} ({src} to {dst})"


def _ports_difference(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> Difference | None:
    for row in range(max(len(a), len(b))):
        one, other = (ports[row] if row < len(ports) else None for ports in (a, b))
        values = {name: [None if port is None else str(port.get(name)) for port in (one, other)] for name in ("name", "owner")}
        unequal = tuple(Inequality(name, *pair) for name, pair in values.items() if pair[0] != pair[1])
        if unequal:
            only = _only(one is not None, other is not None)
            return Difference("ports", f"port {row}", None, row, only, () if only else unequal)
    return None
