# SPDX-License-Identifier: Apache-2.0
"""Iroko's flow matrices in both dialects, and the kinds `matrix` (a user's file) and `iroko` (the files shipped with dc-gym).

The header identifies the dialect (DIALECTS). Columns `transport` and `dscp` at its end belong to single flows. In the
repository's dialect, a row with one cell more, TCP or UDP after the port, is read with that transport: a file of Iroko's has rows
of this form.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from re import fullmatch, sub
from typing import TypeVar

from dc_gym.base.errors import WorkloadError
from dc_gym.base.key import PATH, TEXT, key
from dc_gym.base.spelling import unknown
from dc_gym.traffic.draws import PATTERNS
from dc_gym.traffic.flows import LARGEST, LARGEST_DSCP, LARGEST_PORT, TRANSPORTS, FlowRequest
from dc_gym.traffic.kinds import NS_PER_S, Gates, WorkloadContext, bounded, chained, register
from dc_gym.traffic.matrix import COLUMNS, DSCP, TRANSPORT, dscp_of, is_header, parse_matrix, read_text

V = TypeVar("V")
FOLDER = Path(__file__).parents[1] / "matrices" / "iroko"
THESIS = ("source", "destination", "port", "start", "length", "size", "reps", "gap")
REPOSITORY = (
    *("src", "dst", "port", "seed", "start_time", "stop_time", "flow_size", "flow_size_pattern"),
    *("reps", "flow_gap", "random_gap"),
)
DIALECTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "plain": (COLUMNS, "port 1 .. 65535; stop 0: no time limit; size 0 or `inf`: no limit"),
    "thesis (table 4.1)": (
        THESIS,
        "length 0: no time limit, else each repetition lasts so long; size and reps may be `inf`. The thesis' own spelling"
        " (`Flow size (B)`, `Dest`) is understood",
    ),
    "repository": (
        REPOSITORY,
        "reps -1: endless until stop_time; flow_size_pattern and random_gap `exact`, `uniform` (0 to twice the value),"
        " `exponential`, by the row's seed and the run's. Iroko's code reads only src and dst; here every column counts",
    ),
}
"""The headers of all dialects, with notes on them, in Markdown."""
LAST_HOST_OF_BLOCK = 254  # 10.A.x.y: y from 1 to 254, then x goes on
BROKEN_HOST, RIGHT_HOST = "10.3.1.3", "10.8.0.2"  # in stride8: a host that no fat-tree has, and the host that is meant
BROKEN = ("fix", "keep")
MATRIX_COPY = "matrix.csv"
"""The name of a result's copy of the file of a `matrix`."""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One row of either dialect."""

    src: str
    dst: str
    port: int
    start_ns: int
    stop_ns: int = 0
    length_ns: int = 0
    size_bytes: int = 0
    size_pattern: str = "exact"
    reps: int | None = 1  # None: endless
    gap_ns: int = 0
    gap_pattern: str = "exact"
    seed: int = 0
    transport: str | None = None  # None: workload.transport
    dscp: int | None = None  # None: workload.dscp


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixKeys:
    """Keys of kind matrix."""

    file: Path = key(PATH, needed=True, copy=MATRIX_COPY, help="the [CSV](workloads.md#flow-matrices), relative to the spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class IrokoKeys:
    """Keys of kind iroko."""

    pattern: str = key(TEXT, needed=True, help="name of the matrix, such as `stag_prob_0_2_3`")
    broken: str = key(
        TEXT,
        "fix",
        names=lambda: BROKEN,
        help="rows of `stride8` that name a host which does not exist: `fix`, or `keep` (they send nothing)",
    )


def names() -> tuple[str, ...]:
    """Returns the names of the shipped files. In incast_N, N may be any number."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.csv")))


def iroko(context: WorkloadContext, keys: IrokoKeys) -> list[FlowRequest]:
    """One of the flow matrices of Iroko's repository by its name, as it was written."""
    name = keys.pattern
    if match := fullmatch(r"incast_([1-9][0-9]{0,3})", name):
        text = _disjoint_pairs(int(match[1]))
    elif name in names():
        text = (FOLDER / f"{name}.csv").read_text(encoding="ascii")
    else:
        raise WorkloadError(unknown("workload.pattern", name, names()))
    return flows_of(context, text, f"{name}.csv", keys.broken)


def matrix(context: WorkloadContext, keys: MatrixKeys) -> list[FlowRequest]:
    """The flows of a CSV file, in any of three dialects."""
    return flows_of(context, read_text(keys.file), str(keys.file))


def flows_of(context: WorkloadContext, text: str, name: str, broken: str | None = None) -> list[FlowRequest]:
    """Returns the flows of a matrix. Its first line identifies the dialect.

    `broken` selects the treatment of Iroko's broken rows, one of BROKEN. None: no treatment, the file is a user's.
    """
    header = _header(text)
    for columns, parse in ((THESIS, _thesis_row), (REPOSITORY, _repository_row)):
        if is_header(header, columns):
            return _expand(context, _rows(context, text, name, header, parse, broken))
    known = [header for header, _ in DIALECTS.values()]
    return parse_matrix(text, name, set(context.hosts), known, context.offered_bps)


def _header(text: str) -> tuple[str, ...]:
    """Returns the columns in the first line. The thesis' own spelling ("Flow size (B)", "Dest") is accepted too."""
    first = text.partition("\n")[0].strip()
    cells = [sub(r"\s*\(.*?\)\s*", "", cell).strip().lower() for cell in first.split(",")]
    plain = ["destination" if cell == "dest" else cell.removeprefix("flow ") for cell in cells]
    return tuple(plain) if tuple(plain[: len(THESIS)]) == THESIS else tuple(first.split(","))


def _expand(context: WorkloadContext, rows: list[MatrixRow]) -> list[FlowRequest]:
    """Returns one flow for each repetition.

    A UDP row without a rate sends at the rate of its host's link, as Iroko's generator does.
    """
    gates, flows = Gates(), list[FlowRequest]()
    for row in rows:
        flows += chained(context, gates, row.reps, _repetitions(context, row))
    return bounded(flows)


def _repetitions(context: WorkloadContext, row: MatrixRow) -> Callable[[int], tuple[FlowRequest, int]]:
    stream = context.stream("row seed", row.seed)
    rate_bps = context.offered_bps(row.src, row.transport)

    def make(rep: int) -> tuple[FlowRequest, int]:
        size = stream.around(row.size_bytes, row.size_pattern)
        gap_ns = stream.around(row.gap_ns, row.gap_pattern)
        flow = FlowRequest(
            *(row.src, row.dst, row.port, row.start_ns, row.stop_ns),
            size_bytes=max(1, size) if row.size_bytes else 0,
            rate_bps=rate_bps,
            length_ns=row.length_ns,
            transport=row.transport,
            dscp=row.dscp,
        )
        return flow, gap_ns

    return make


def _rows(
    context: WorkloadContext,
    text: str,
    name: str,
    columns: tuple[str, ...],
    parse: Callable[[_Cells], MatrixRow],
    broken: str | None,
) -> list[MatrixRow]:
    """Returns the rows after the header. Empty lines do not count."""
    hosts, rows = _HostNames(context), []
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        for row in reader:
            if reader.line_num > 1 and row:
                cells = _Cells(row, columns, f"{name}:{reader.line_num}", hosts, broken)
                if not cells.is_left_out():
                    rows.append(parse(cells))
    except csv.Error as error:
        raise WorkloadError(f"{name}:{reader.line_num}: not CSV: {error}; quote nothing") from error
    if not rows:
        raise WorkloadError(f"{name}: it has 0 flows; write the header {','.join(columns)!r} and a row a flow")
    return rows


class _HostNames:
    """The names by which a matrix may call a host: its name in any case, its address, or Iroko's address by place.

    10.A.x.y is host 254 x + y on the A-th switch that has hosts. In Iroko's fat-tree A is an edge switch, in its dumbbell a side.
    """

    def __init__(self, context: WorkloadContext) -> None:
        self.context = context
        self._names = {name.lower(): name for name in context.hosts}
        self._addresses = {host.address: host.name for host in context.graph.hosts}
        switches: dict[str, list[str]] = {}
        for host in context.hosts:
            switches.setdefault(context.edge_of(host), []).append(host)
        order = [switch.name for switch in context.graph.switches if switch.name in switches]
        self._places = [switches[name] for name in order]

    def find(self, text: str) -> str | None:
        """Returns the host, or None."""
        if text.lower() in self._names:
            return self._names[text.lower()]
        if text in self._addresses:
            return self._addresses[text]
        try:
            first, switch, block, number = IPv4Address(text).packed
        except AddressValueError:
            return None
        host_number = LAST_HOST_OF_BLOCK * block + number
        known = self._places[switch - 1] if 1 <= switch <= len(self._places) else []
        return known[host_number - 1] if first == 10 and 1 <= number <= LAST_HOST_OF_BLOCK and host_number <= len(known) else None


class _Cells:
    """One row by column. Its errors name the place in the file."""

    def __init__(self, row: list[str], columns: tuple[str, ...], where: str, hosts: _HostNames, broken: str | None) -> None:
        self._where, self._hosts, self._broken = where, hosts, broken
        named = ""
        if len(row) == len(columns) + 1 and columns == REPOSITORY and row[3] in ("TCP", "UDP"):
            named = row[3].lower()
            row = [*row[:3], *row[4:]]
        if len(row) != len(columns):
            raise WorkloadError(f"{where}: it has {len(row)} columns, not {len(columns)}; write {','.join(columns)}")
        self._cells: Mapping[str, str] = {TRANSPORT: named, DSCP: ""} | dict(zip(columns, row, strict=True))

    def is_left_out(self) -> bool:
        """Returns True if a row of Iroko's stride8 names a host that does not exist and is kept: no flow runs for it."""
        context = self._hosts.context
        if self._broken is None or BROKEN_HOST not in self._cells.values() or self._hosts.find(BROKEN_HOST):
            return False
        kept = self._broken == "keep"
        handled = "left out" if kept else f"read as {RIGHT_HOST}"
        context.notes.setdefault("broken_rows", []).append(f"{self._where}: {BROKEN_HOST} does not exist: {handled}")
        return kept

    def host(self, column: str) -> str:
        text = self._cells[column]
        if text == BROKEN_HOST and self._broken is not None and not self._hosts.find(text):
            text = RIGHT_HOST
        return self._parse(
            column, lambda _: self._hosts.find(text), "a host of the topology; write h1, or 10.SWITCH.0.HOST as in Iroko"
        )

    def port(self) -> int:
        return self.number("port", 1, LARGEST_PORT)

    def number(self, column: str, least: int, most: int = LARGEST) -> int:
        def parse(text: str) -> int | None:
            return int(text) if fullmatch(r"-?[0-9]{1,19}", text) and least <= int(text) <= most else None

        return self._parse(column, parse, f"a whole number in {least}..{most}")

    def seconds(self, column: str) -> int:
        def parse(text: str) -> int | None:
            value = Fraction(text) * NS_PER_S if fullmatch(r"[0-9]{1,12}(\.[0-9]{1,18})?", text) else Fraction(-1)
            return int(value) if value.denominator == 1 and 0 <= value <= LARGEST else None

        return self._parse(column, parse, "seconds of at most 9 decimals")

    def count(self, column: str, endless: str) -> int | None:
        """Returns the number of repetitions, or None for endless."""
        return None if self._cells[column] == endless else self.number(column, 1)

    def size(self, column: str) -> int:
        return 0 if self._cells[column] == "inf" else self.number(column, 0)

    def pattern(self, column: str) -> str:
        known = {name: name for name in PATTERNS}
        return self._parse(column, known.get, f"one of {', '.join(PATTERNS)}")

    def transport(self) -> str | None:
        """Returns the transport that the row names, or None."""
        known = {name: name for name in TRANSPORTS}
        return self._parse(TRANSPORT, known.get, f"one of {', '.join(TRANSPORTS)}") if self._cells[TRANSPORT] else None

    def dscp(self) -> int | None:
        """Returns the DSCP that the row names, or None."""
        return self._parse(DSCP, dscp_of, f"in 0..{LARGEST_DSCP}") if self._cells[DSCP] else None

    def refuse(self, column: str, expected: str) -> None:
        raise WorkloadError(f"{self._where}: column {column!r}: value {self._cells[column]!r} is not {expected}")

    def _parse(self, column: str, parse: Callable[[str], V | None], expected: str) -> V:
        value = parse(self._cells[column])
        if value is None:
            raise WorkloadError(f"{self._where}: column {column!r}: value {self._cells[column]!r} is not {expected}")
        return value


def _thesis_row(cells: _Cells) -> MatrixRow:
    src, dst = cells.host("source"), cells.host("destination")
    if src == dst:
        cells.refuse("destination", "another host than the source")
    return MatrixRow(
        *(src, dst, cells.port(), cells.seconds("start")),
        length_ns=cells.seconds("length"),
        size_bytes=cells.size("size"),
        reps=cells.count("reps", "inf"),
        gap_ns=cells.seconds("gap"),
        transport=cells.transport(),
        dscp=cells.dscp(),
    )


def _repository_row(cells: _Cells) -> MatrixRow:
    src, dst = cells.host("src"), cells.host("dst")
    if src == dst:
        cells.refuse("dst", "another host than src")
    start_ns, stop_ns = cells.seconds("start_time"), cells.seconds("stop_time")
    if stop_ns and stop_ns <= start_ns:
        cells.refuse("stop_time", "after start_time")
    return MatrixRow(
        *(src, dst, cells.port(), start_ns, stop_ns),
        size_bytes=cells.size("flow_size"),
        size_pattern=cells.pattern("flow_size_pattern"),
        reps=cells.count("reps", "-1"),
        gap_ns=cells.seconds("flow_gap"),
        gap_pattern=cells.pattern("random_gap"),
        seed=cells.number("seed", 0),
        transport=cells.transport(),
        dscp=cells.dscp(),
    )


def _disjoint_pairs(count: int) -> str:
    """Returns the text of Iroko's incast_N for any N: N disjoint pairs across a dumbbell, no fan-in.

    Iroko's repository has these files up to N = 1024.
    """
    blocks = [divmod(number, LAST_HOST_OF_BLOCK) for number in range(count)]
    rows = [f"10.1.{x}.{y + 1},10.2.{x}.{y + 1},12345,2,0,600,2147483647,exact,-1,0,exact" for x, y in blocks]
    return "\n".join([",".join(REPOSITORY), *rows]) + "\n"


register("matrix", matrix, MatrixKeys)
register("iroko", iroko, IrokoKeys)
