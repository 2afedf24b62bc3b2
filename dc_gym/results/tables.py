# SPDX-License-Identifier: Apache-2.0
"""The tables of a result: their columns, and their rows as canonical records (docs/results.md).

A column's name ends in its unit: _ns, _us, _bytes, _packets, _bps. A canonical record is packed, little-endian and all integers:
a string is its row number in `Names`. Columns outside the digest come last; they may be unknown, which is null in the file. In
memory, tables are numpy arrays of these records; only files and messages have the strings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

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
    "Column",
    "Names",
    "Records",
    "TableSchema",
    "TableSource",
    "Tables",
    "empty",
    "encode",
    "records_of",
    "slices",
]

STATUSES = ("done", "stopped", "running", "failed", "waiting")
NIC_EVENTS = ("none", "firmware", "cnp", "tx", "ack", "nack", "rtt")
"""The events that NICs pass to their algorithm, by the numbers of ctrl/nic/cc.h."""

ALL_ONES = {"<u4": 2**32 - 1, "<u8": 2**64 - 1}
"""The value in a record that is not known, by the type of its column. Only columns outside the digest have it."""

PIECE_ROWS = 1 << 18
"""Rows of a table that are in memory at once where a table is processed in pieces."""

Records = npt.NDArray[np.void]
Piece = Mapping[str, npt.NDArray[Any]]
"""Columns of some successive rows of a table; strings as row numbers of `Names`."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    kind: str
    """The numpy type, or one of STRING_KINDS: a string (a u32 row number of Names)."""
    meaning: str
    """In Markdown, for docs/results.md and `dcgym list`."""
    digested: bool = True
    """False: it is outside the digest, may be unknown (null), and an older result may lack it."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of one table in order, and the order of its rows."""

    name: str
    declared: tuple[Column, ...]
    order: tuple[str, ...]
    """Rows are sorted by these columns."""
    time: str
    """The column with the time."""
    optional: bool = False
    """True if a result without rows of this table has no file of it and leaves it out of its digest."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Name and kind of each column."""
        return tuple((column.name, column.kind) for column in self.declared)

    @property
    def digested(self) -> tuple[tuple[str, str], ...]:
        """Name and kind of each column of the digest. They come first."""
        return tuple((column.name, column.kind) for column in self.declared if column.digested)

    @property
    def unknown(self) -> dict[str, int]:
        """The value that stands for "not known", by column outside the digest."""
        return {column.name: ALL_ONES[column.kind] for column in self.declared if not column.digested}

    def digested_bytes(self, records: Records) -> npt.NDArray[np.uint8]:
        """Returns the bytes of records that the digest covers, as [records, bytes]."""
        whole = np.ascontiguousarray(records).view(np.uint8).reshape(len(records), self.dtype.itemsize)
        return whole[:, : self.record(*(name for name, _ in self.digested)).itemsize]

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


COUNTED = "exact, as the port counts it; null if `qdisc` in `ports.json` is not `port`. Outside the digest"
NO_TCP = "for other transports. Outside the digest"
CA_STATES = "0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss"
STRING_KINDS = ("port", "node", "controller", "transport", "group", "status", "event")

TABLES = {
    table.name: table
    for table in (
        TableSchema(
            "flows",
            (
                Column("flow", "<u4", "row number of the flow in the workload, from 0"),
                Column("src", "node", "host that sends"),
                Column("dst", "node", "host that receives"),
                Column("src_port", "<u2", "source port"),
                Column("dst_port", "<u2", "destination port"),
                Column("transport", "transport", "`tcp`, `udp`, `rdma` or `uec`"),
                Column(
                    "controller",
                    "controller",
                    "TCP congestion control on both ends (`udp`: the run's, which it does not use)",
                ),
                Column("group", "group", "purpose of the flow, one of: " + ", ".join(f"`{group}`" for group in GROUPS)),
                Column("rep", "<u4", "number of its repetition, round, query or iteration, from 0"),
                Column("due_ns", "<i8", "when it should have started; -1: the flows that it waits for have not ended"),
                Column("start_ns", "<i8", "when the socket was told to connect (`udp`: to send); -1: never"),
                Column("established_ns", "<i8", "when the handshake was over at the sender (`udp`: as `start_ns`); -1: never"),
                Column(
                    "end_ns",
                    "<i8",
                    "when the receiver had the last byte (flows with a size), or when the sender stopped (`udp`: or "
                    "had sent its last byte); -1: unfinished at the end of the run",
                ),
                Column("size_bytes", "<u8", "payload asked for; 0: no limit"),
                Column("sent_bytes", "<u8", "payload acknowledged (`tcpi_bytes_acked`; `udp`: handed to the socket)"),
                Column("received_bytes", "<u8", "payload read by the receiving application"),
                Column("retransmits", "<u8", "packets (`tcpi_total_retrans`)"),
                Column("fct_ns", "<i8", "`end_ns - start_ns` of a flow with a size that finished; -1 otherwise, and for UDP"),
                Column(
                    "status",
                    "status",
                    "`done`, `stopped` (its time was up), `running` (the run ended first), `failed`, `waiting` (its "
                    "turn to start did not come)",
                ),
                Column("error", "<i4", "errno: why it failed, or 0"),
            ),
            order=("flow",),
            time="start_ns",
        ),
        TableSchema(
            "queues",
            (
                Column("t_ns", "<i8", "time of the sweep; all ports of one sweep share it"),
                Column("port", "port", "for instance `s1-eth3`, `h1-eth0`"),
                Column("backlog_bytes", "<u8", "in the queue now: frames without FCS, preamble and gap"),
                Column("backlog_packets", "<u8", "in the queue now"),
                Column("tx_bytes", "<u8", "frames that left the queue, since t0"),
                Column("tx_packets", "<u8", "frames that left the queue, since t0"),
                Column("drops", "<u8", "packets dropped since t0"),
                Column("marks", "<u8", "packets marked since t0"),
                Column("requeues", "<u8", "packets requeued since t0"),
                Column("active_flows", "<u8", "flows of the workload under way that cross this port"),
                Column("queue_byte_ns", "<u8", f"time integral of the queue since t0, modulo 2^64; {COUNTED}", digested=False),
                Column("longest_bytes", "<u8", f"the longest queue since the sweep before; {COUNTED}", digested=False),
            ),
            order=("t_ns", "port"),
            time="t_ns",
        ),
        TableSchema(
            "tcp",
            (
                Column("t_ns", "<i8", "time of the sample"),
                Column("flow", "<u4", "as in `flows`"),
                Column("srtt_us", "<u4", "`tcpi_rtt`"),
                Column("min_rtt_us", "<u4", "`tcpi_min_rtt`"),
                Column("cwnd_packets", "<u4", "`tcpi_snd_cwnd`"),
                Column("delivery_rate_bps", "<u8", "8 x `tcpi_delivery_rate`"),
                Column("notsent_bytes", "<u4", "`tcpi_notsent_bytes`"),
                Column("bytes_acked", "<u8", "`tcpi_bytes_acked`"),
                Column("bytes_received", "<u8", "payload the receiving application has read so far"),
                Column("retransmits", "<u4", "packets (`tcpi_total_retrans`)"),
                Column("ssthresh_packets", "<u4", f"`tcpi_snd_ssthresh`; null before the first, and {NO_TCP}", digested=False),
                Column("ca_state", "<u4", f"`tcpi_ca_state`: {CA_STATES}; null {NO_TCP}", digested=False),
                Column("pacing_rate_bps", "<u8", f"8 x `tcpi_pacing_rate`; null if not paced, and {NO_TCP}", digested=False),
            ),
            order=("t_ns", "flow"),
            time="t_ns",
        ),
        TableSchema(
            "nic_flows",
            (
                Column("t_ns", "<i8", "the end of the run"),
                Column("flow", "<u4", "as in `flows`"),
                Column("rate_bps", "<u8", "rate in force at the end, of frames"),
                Column("window_bytes", "<u4", "window in force at the end; 0: none"),
                Column("rtt_ns", "<u4", "of the last probe, without the receiver NIC's processing time; 0: none came back"),
                Column("least_rtt_ns", "<u4", "the minimum of all probes, likewise"),
                Column("sent_packets", "<u8", "frames with data, including repetitions"),
                Column("sent_bytes", "<u8", "the same, in bytes of frames"),
                Column("resent_packets", "<u8", "those sent again"),
                Column("received_packets", "<u8", "with data that the receiver accepted, each counted once"),
                Column("marked_packets", "<u8", "with a congestion mark, among the accepted and the dropped"),
                Column("dropped_packets", "<u8", "not accepted: duplicates, trimmed, or too early to be kept"),
                Column("messages", "<u8", "complete ones"),
                Column("broken_messages", "<u8", "those whose checksum is wrong (a flow with one has failed)"),
                Column("cnps", "<u8", "CNPs that reached the sender"),
                Column("nacks", "<u8", "NACKs that reached the sender"),
                Column("timeouts", "<u8", "the sender's timeouts"),
                Column("rtts", "<u8", "probes that came back"),
                Column("probes", "<u8", "probes sent"),
                Column("probe_bytes", "<u8", "the same, in bytes of frames"),
                Column("decisions", "<u8", "calls of the algorithm"),
            ),
            order=("t_ns", "flow"),
            time="t_ns",
            optional=True,
        ),
        TableSchema(
            "decisions",
            (
                Column("t_ns", "<i8", "time of the event"),
                Column("flow", "<u4", "as in `flows`"),
                Column("event", "event", "`cnp`, `tx`, `ack`, `nack`, `rtt`"),
                Column(
                    "flags",
                    "<u2",
                    "1: first event of its flow, 2: of `nack`: caused by the timer, 4: of `tx`: a probe was under way",
                ),
                Column("rtt_ns", "<u4", "of `rtt`"),
                Column("rate_before_bps", "<u8", "in force before"),
                Column(
                    "rate_bps",
                    "<u8",
                    "decided (in force `nic.latency` later); both are multiples of 2^-20 of the NIC's line rate, rounded down",
                ),
                Column("window_bytes", "<u4", "0: none"),
            ),
            order=("t_ns", "flow"),
            time="t_ns",
            optional=True,
        ),
        TableSchema(
            "classes",
            (
                Column("t_ns", "<i8", "0: it is known before the run"),
                Column("flow", "<u4", "as in `flows`"),
                Column("workload", "<u4", "0: `[workload]`; n: the n-th `[[workload.beside]]`"),
                Column("dscp", "<u4", "the DSCP of its packets and of all that answers them"),
            ),
            order=("t_ns", "flow"),
            time="t_ns",
            optional=True,
        ),
        TableSchema(
            "class_queues",
            (
                Column("t_ns", "<i8", "time of the sweep"),
                Column("port", "port", "as in `queues`"),
                Column("class", "<u4", "number of the class, from 0, in the order of `topology.classes`"),
                Column("backlog_bytes", "<u8", "in the queue of the class now"),
                Column("tx_bytes", "<u8", "frames that left it, since t0"),
                Column("tx_packets", "<u8", "frames that left it, since t0"),
                Column("drops", "<u8", "packets dropped since t0"),
                Column("marks", "<u8", "packets marked since t0"),
                Column("ce_bytes", "<u8", "frames that left with CE, whoever marked them, since t0"),
                Column("queue_byte_ns", "<u8", "time integral of its queue since t0"),
                Column("paused_ns", "<u8", "time in which the peer had the port hold the class, since t0"),
                Column("charged_bytes", "<u8", "came in at this port and waits in the switch now (lossless classes)"),
                Column("pauses", "<u8", "times that the port told its peer to hold the class, since t0, without repetitions"),
            ),
            order=("t_ns", "port", "class"),
            time="t_ns",
            optional=True,
        ),
        TableSchema(
            "nic_events",
            (
                Column("t_ns", "<i8", "the end of the run"),
                Column("flow", "<u4", "as in `flows`"),
                Column("lost_events", "<u8", "events that never reached the algorithm, since its NIC's queue was full"),
            ),
            order=("t_ns", "flow"),
            time="t_ns",
            optional=True,
        ),
        TableSchema(
            "acks",
            (
                Column("t_ns", "<i8", "when the sender got the ACK; all columns are as its congestion control left them"),
                Column("flow", "<u4", "as in `flows`"),
                Column("cwnd_packets", "<u4", "`tcpi_snd_cwnd`"),
                Column("ssthresh_packets", "<u4", "`tcpi_snd_ssthresh`; 2147483647 before the first"),
                Column("srtt_ns", "<u8", "`tcpi_rtt` in the kernel's steps of 125 ns; 0: not measured yet"),
                Column("delivered_packets", "<u4", "`tcpi_delivered`: sent and arrived, with the SYN and the FIN"),
                Column("bytes_acked", "<u8", "payload, as in `tcp`"),
                Column("in_flight_packets", "<u4", "sent, and neither acknowledged (SACK counts) nor believed to be lost"),
                Column("unacked_bytes", "<u4", "sent, and not acknowledged (SACK does not count)"),
                Column("ca_state", "<u4", f"`tcpi_ca_state`: {CA_STATES}"),
            ),
            order=("t_ns", "flow"),
            time="t_ns",
            optional=True,
        ),
        TableSchema(
            "nexthops",
            (
                Column("t_ns", "<i8", "the end of the run"),
                Column("port", "port", "a next hop of a switch that balances (`topology.balance`)"),
                Column("group", "<u4", "number of the group of equal next hops at its switch, from 0"),
                Column("frames", "<u8", "frames that the group sent to it since t0"),
                Column("bytes", "<u8", "the same, in bytes"),
                Column("moves", "<u8", "those whose flow's frame before took another port"),
                Column("flowlets", "<u8", "those for which the group chose: the first of a flow, or after its pause"),
            ),
            order=("t_ns", "port", "group"),
            time="t_ns",
            optional=True,
        ),
        TableSchema(
            "reordering",
            (
                Column("t_ns", "<i8", "the end of the run"),
                Column("host", "node", "a host, where a switch balances"),
                Column("out_of_order_packets", "<u8", "TCP segments that came before an earlier one (`TCPOFOQueue`)"),
                Column("reorderings", "<u8", "times that its senders noticed it (`TCPSACKReorder` and its like)"),
                Column("retransmits", "<u8", "segments sent again (`RetransSegs`)"),
                Column("dsacks", "<u8", "of them in vain: the receiver reported a duplicate (`TCPDSACKRecv`)"),
                Column("undos", "<u8", "reductions of the window that were taken back (`TCPDSACKUndo` and its like)"),
            ),
            order=("t_ns", "host"),
            time="t_ns",
            optional=True,
        ),
        TableSchema(
            "messages",
            (
                Column("job", "<u4", "0: `[workload]`; n: the n-th `[[workload.beside]]`"),
                Column("message", "<u4", "number of its send among the nodes of the job"),
                Column("rep", "<u4", "iteration, from 0"),
                Column("step", "<u4", "step of the collective; of a file: number of its send among the nodes of its rank"),
                Column("tag", "<u4", "tag"),
                Column("src_rank", "<u4", "rank that sends"),
                Column("dst_rank", "<u4", "rank that receives"),
                Column("src", "node", "host that sends"),
                Column("dst", "node", "host that receives"),
                Column("flow", "<u4", "its connection, as in `flows`"),
                Column("bytes", "<u8", "payload"),
                Column("posted_ns", "<i8", "when it was posted"),
                Column("last_ns", "<i8", "when the receiver had its last byte; -1: not before the end of the run"),
            ),
            order=("posted_ns", "job", "message"),
            time="posted_ns",
            optional=True,
        ),
        TableSchema(
            "ranks",
            (
                Column("job", "<u4", "as in `messages`"),
                Column("rep", "<u4", "iteration, from 0; those that ended"),
                Column("rank", "<u4", "the rank"),
                Column("host", "node", "its host"),
                Column("start_ns", "<i8", "end of the iteration before, at all ranks; of the first: start of the job"),
                Column("end_ns", "<i8", "end of the iteration at all ranks"),
                Column("calc_ns", "<i8", "time in which the rank computed"),
                Column("transfer_ns", "<i8", "time in which it did not, and a message from or to it was under way"),
                Column("wait_ns", "<i8", "the rest"),
            ),
            order=("end_ns", "job", "rank"),
            time="end_ns",
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
    """Names of the controllers: as registered (ctrl/controllers.py), or as a result recorded them."""
    transport: tuple[str, ...] = TRANSPORTS
    group: tuple[str, ...] = GROUPS
    status: tuple[str, ...] = STATUSES
    event: tuple[str, ...] = NIC_EVENTS

    @classmethod
    def of(cls, ports: Sequence[Mapping[str, Any]], recorded: tuple[str, ...] | None = None) -> Names:
        """Returns the names that the ports of a run give. `recorded` are its controllers; None means those known here."""
        owners = dict.fromkeys(str(port["owner"]) for port in ports)
        known = controllers.names() if recorded is None else recorded
        return cls(tuple(str(port["name"]) for port in ports), tuple(owners), known)

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """Returns all strings of a kind (one of STRING_KINDS) by row number."""
        names: tuple[str, ...] = getattr(self, kind)
        return names


class TableSource(Protocol):
    """The measurements of a run, in memory (`Tables`) or in a result's folder (stored.py).

    The tables of queues and of samples may be larger than memory, so they are read in pieces.
    """

    @property
    def flows(self) -> Records: ...
    @property
    def nic_flows(self) -> Records: ...
    @property
    def classes(self) -> Records: ...
    @property
    def ports(self) -> tuple[Mapping[str, Any], ...]: ...
    @property
    def names(self) -> Names: ...
    def table(self, name: str) -> Records:
        """Returns a whole table."""

    def pieces(self, name: str, *columns: str) -> Iterator[Piece]:
        """Yields these columns of a table, at most PIECE_ROWS rows at a time, in the table's order."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The measurements of a run: canonical records, sorted, and the ports to which they refer."""

    flows: Records
    queues: Records
    tcp: Records
    ports: tuple[Mapping[str, Any], ...]
    nic_flows: Records = field(default_factory=lambda: empty("nic_flows"))
    decisions: Records = field(default_factory=lambda: empty("decisions"))
    classes: Records = field(default_factory=lambda: empty("classes"))
    class_queues: Records = field(default_factory=lambda: empty("class_queues"))
    nic_events: Records = field(default_factory=lambda: empty("nic_events"))
    acks: Records = field(default_factory=lambda: empty("acks"))
    nexthops: Records = field(default_factory=lambda: empty("nexthops"))
    reordering: Records = field(default_factory=lambda: empty("reordering"))
    messages: Records = field(default_factory=lambda: empty("messages"))
    ranks: Records = field(default_factory=lambda: empty("ranks"))
    controllers: tuple[str, ...] = field(default_factory=controllers.names)
    """The controllers, by the row numbers in the records."""

    @classmethod
    def build(cls, *, ports: Sequence[Mapping[str, Any]], **arrays: Records) -> Tables:
        """Builds tables from structured arrays with the columns of docs/results.md.

        A string column may hold strings or row numbers.
        """
        names = Names.of(ports)
        records = {name: encode(TABLES[name], array, names) for name, array in arrays.items()}
        return cls(ports=tuple(ports), controllers=names.controller, **records)

    @property
    def names(self) -> Names:
        """The strings of the records."""
        return Names.of(self.ports, self.controllers)

    def table(self, name: str) -> Records:
        """Returns the records of one of TABLES."""
        records: Records = getattr(self, name)
        return records

    def pieces(self, name: str, *columns: str) -> Iterator[Piece]:
        """Yields these columns of a table in pieces (TableSource)."""
        for records in slices(self.table(name)):
            yield {column: records[column] for column in columns}


def empty(name: str) -> Records:
    """Returns a table without rows."""
    return np.zeros(0, TABLES[name].dtype)


def slices(records: Records) -> Iterator[Records]:
    """Yields a table's records, at most PIECE_ROWS at a time."""
    for begin in range(0, len(records), PIECE_ROWS):
        yield records[begin : begin + PIECE_ROWS]


def records_of(table: TableSchema, columns: Mapping[str, npt.NDArray[Any]] | Records) -> Records:
    """Returns canonical records of columns that have the record's types already."""
    records = np.empty(len(columns[table.order[0]]), table.dtype)
    for name, _ in table.columns:
        records[name] = columns[name]
    return records


def encode(table: TableSchema, array: Records, names: Names) -> Records:
    """Returns canonical records, sorted, of a structured array with the table's columns (others are left out)."""
    records = np.empty(len(array), table.dtype)
    for name, kind in table.columns:
        if array.dtype.names is None or name not in array.dtype.names:
            if name in table.unknown:
                records[name] = table.unknown[name]
                continue
            raise ProtocolError(f"table {table.name}: column {name!r} is missing")
        is_string, column = kind in STRING_KINDS, array[name]
        records[name] = _row_numbers(table, name, column, names.of_kind(kind)) if is_string else _fitting(table, name, column)
    return _sorted(table, records)


def _fitting(table: TableSchema, name: str, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the column if its values fit the record.

    Otherwise raises an error, since a wrapped number would be wrong unnoticed.
    """
    bounds = np.iinfo(table.dtype[name])
    if column.dtype.kind not in "iu":
        raise ProtocolError(f"table {table.name}: column {name!r} holds {column.dtype}, not integers")
    if len(column) and not (bounds.min <= int(column.min()) and int(column.max()) <= bounds.max):
        raise ProtocolError(f"table {table.name}: column {name!r} has values outside {bounds.min}..{bounds.max}")
    return column


def _row_numbers(table: TableSchema, name: str, column: npt.NDArray[Any], known: tuple[str, ...]) -> npt.NDArray[Any]:
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


def _sorted(table: TableSchema, records: Records) -> Records:
    """Returns the records in the table's order."""
    keys = [records[name] for name in table.order]
    order = np.lexsort(keys[::-1])
    return records if np.array_equal(order, np.arange(len(records))) else records[order]
