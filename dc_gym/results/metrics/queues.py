# SPDX-License-Identifier: Apache-2.0
"""Computes queues, link utilization, drops and marks of every port from the sweeps in a window. Bytes are frame bytes.

A sweep reads levels (backlog) and counters since t0. A counter's value over the window is the last sweep's minus the first's.
Mean and maximum of a queue are exact where the port counts them itself, and percentiles within a bucket of its histogram
(queue_times.py); elsewhere they come from the sweeps. A value that the sweeps do not determine is NaN, and null in summary.json:
a queue may fill and empty between two sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.tally import Tally, percentile
from dc_gym.base.units import ETHERNET_BYTES, MTU_BYTES
from dc_gym.results.metrics.queue_times import QueueTimes
from dc_gym.results.metrics.window import Window
from dc_gym.results.tables import TABLES, Piece, TableSource

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.uint64]
COUNTERS = ("tx_bytes", "tx_packets", "drops", "marks")
BACKLOG_BITS = 40
"""Bits of a backlog in bytes, in a key that also has the port."""
PERCENTILES = (50, 99)
REPRESENTATIVE = 0.5
"""Percentiles stand if the mean of the sweeps differs from the exact mean by at most this share of it."""
SIDES = ("switch", "host")
QUEUES = ("mean_queue_bytes", "p99_queue_bytes", "max_queue_bytes")
COLUMNS: Mapping[str, str] = {
    "port": "as in `ports.json`",
    "owner": "as in `ports.json`",
    "side": "as in `ports.json`",
    "rate_bps": "as in `ports.json`",
    "utilization": "frame bytes sent x 8 / (rate x time), from the first to the last sweep, 0 .. 1",
    "mean_queue_bytes": "mean length of its queue in the window; exact where [the port counts it](#exact-queues)",
    "p50_queue_bytes": "median over time; exact [within a sixteenth](#exact-queues) where the port counts it, elsewhere over the "
    "sweeps; NaN: there are too few",
    "p99_queue_bytes": "99th percentile, likewise",
    "max_queue_bytes": "maximum in the window; exact where the port counts it",
    "mean_delay_s": "queueing delay: `mean_queue_bytes` x 8 / rate",
    "p50_delay_s": "likewise",
    "p99_delay_s": "likewise",
    "max_delay_s": "likewise",
    "tx_bytes": "frames sent in the window",
    "tx_packets": "frames sent in the window",
    "drops": "packets dropped in the window",
    "marks": "packets marked in the window",
}
"""The columns of the table of ports, with their meanings in Markdown."""
LOST = {"lost": "frames sent in the whole run that its link lost by its own loss rate"}
"""The column that a run adds where the cables count."""


@dataclass(slots=True)
class Counted:
    """The values of counters at the first sweep and at the last one of some sweeps."""

    columns: tuple[str, ...]
    ports: int
    first_ns: int | None = None
    last_ns: int = 0
    _first: dict[str, Counts] = field(init=False)
    _last: dict[str, Counts] = field(init=False)

    def __post_init__(self) -> None:
        self._first, self._last = ({name: np.zeros(self.ports, np.uint64) for name in self.columns} for _ in range(2))

    @classmethod
    def of(cls, tables: TableSource, columns: tuple[str, ...], window: Window | None = None) -> Counted:
        """Returns the counters of a window, including a sweep at its end, or of the whole run."""
        counters = cls(columns, len(tables.ports))
        for piece in tables.pieces("queues", "t_ns", "port", *columns):
            t_ns = piece["t_ns"]
            counters._add(piece, slice(None) if window is None else window.spans(t_ns))
        return counters

    def gain(self, column: str) -> Counts:
        """Returns each port's growth of a counter from the first sweep to the last."""
        return self._last[column] - self._first[column]

    def _add(self, piece: Piece, inside: Any) -> None:
        t_ns, port = piece["t_ns"][inside], piece["port"][inside]
        if not len(t_ns):
            return
        self.first_ns = int(t_ns[0]) if self.first_ns is None else self.first_ns
        self.last_ns = int(t_ns[-1])
        beginning, latest = t_ns == self.first_ns, slice(-self.ports, None)
        for name in self.columns:
            values = piece[name][inside]
            self._first[name][port[beginning]] = values[beginning]
            self._last[name][port[latest]] = values[latest]


def of_port(tables: TableSource, row: int, column: str) -> tuple[npt.NDArray[np.int64], Counts]:
    """Returns the times of all sweeps, and a column at one port."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.uint64))]
    for piece in tables.pieces("queues", "t_ns", "port", column):
        port_rows = piece["port"] == row
        parts.append((piece["t_ns"][port_rows], piece[column][port_rows]))
    t_ns, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return t_ns, values


def bottleneck_port(tables: TableSource, window: Window) -> int | None:
    """Returns the row of the port with the largest mean backlog in the window (the first of equals); None if none is known."""
    means = port_table(tables, window)["mean_queue_bytes"]
    return int(np.nanargmax(means)) if np.isfinite(means).any() else None


def port_table(tables: TableSource, window: Window, times: Mapping[str, QueueTimes] | None = None) -> dict[str, npt.NDArray[Any]]:
    """Returns one value for each port and each of COLUMNS; NaN where nothing was measured, and 0 for counters.

    `times` are the histograms of ports that counted them, by name.
    """
    ports, count = tables.ports, len(tables.ports)
    rates = np.array([port["rate_bps"] for port in ports], np.int64)
    table: dict[str, npt.NDArray[Any]] = {
        "port": np.array([str(port["name"]) for port in ports], object),
        "owner": np.array([str(port["owner"]) for port in ports], object),
        "side": sides(ports),
        "rate_bps": rates,
    }
    counted = Counted.of(tables, COUNTERS, window)
    span_s = 0 if counted.first_ns is None else (counted.last_ns - counted.first_ns) / 1e9
    for name in COUNTERS:
        table[name] = counted.gain(name)
    queues = _queues(tables, window, table, times or {})
    table["utilization"] = table["tx_bytes"] * 8 / (rates * span_s) if span_s else np.full(count, np.nan)
    table |= {f"{name}_queue_bytes": values for name, values in queues.items()}
    table |= {f"{name}_delay_s": values * 8 / rates for name, values in queues.items()}
    return {name: table[name] for name in COLUMNS}


def sides(ports: Sequence[Mapping[str, Any]]) -> npt.NDArray[Any]:
    """Returns "host" for each port of a host, whose queue is the sender's own, and "switch" for each port of a switch.

    The ports.json of older results has no `side`; there the names decide: Mininet's hosts count their ports from eth0, switches
    from eth1.
    """
    hosts = {port["owner"] for port in ports if str(port["name"]).endswith("-eth0")}
    return np.array([port.get("side") or ("host" if port["owner"] in hosts else "switch") for port in ports], object)


def queue_metrics(table: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Returns the entries of summary.json from the table of ports: the busiest port, the longest queue overall, at a switch and
    at a host, drops and marks."""
    entries: dict[str, Any] = dict.fromkeys(NAMES)
    entries |= _longest(table, np.ones(len(table["port"]), bool), "bottleneck_port", "")
    for side in SIDES:
        entries |= _longest(table, table["side"] == side, f"{side}_port", f"{side}_")
    if entries["bottleneck_port"] is not None:
        row = list(table["port"]).index(entries["bottleneck_port"])
        entries["queueing_delay_s"] = _or_none(table["mean_delay_s"][row])
        entries["p99_queueing_delay_s"] = _or_none(table["p99_delay_s"][row])
    return entries | _busiest(table)


def class_drops(tables: TableSource, window: Window, names: Sequence[str]) -> list[dict[str, Any]] | None:
    """Returns drops and marks of each class of ports, over all ports from the first sweep in the window to the last; None if
    ports have no classes. `names`: the classes' names, by number."""
    sums: dict[int, npt.NDArray[np.int64]] = {}
    for piece in tables.pieces("class_queues", "t_ns", "class", "drops", "marks"):
        rows = {name: values[window.spans(piece["t_ns"])] for name, values in piece.items()}
        if len(rows["t_ns"]):
            ends = {next(iter(sums), int(rows["t_ns"][0])), int(rows["t_ns"][-1])}
            sums = {t_ns: sums.get(t_ns, 0) + _by_class(rows, t_ns, len(names)) for t_ns in sorted(ends)}
    if len(sums) < 2:
        return None
    first, last = (sums[t_ns] for t_ns in (min(sums), max(sums)))
    drops, marks = (last - first).tolist()
    return [dict(zip(("class", "drops", "marks"), row, strict=True)) for row in zip(names, drops, marks, strict=True)]


def _by_class(rows: Piece, t_ns: int, classes: int) -> npt.NDArray[np.int64]:
    """Returns as [2, classes] the drops and marks at one sweep, summed over ports."""
    at = rows["t_ns"] == t_ns
    counted = np.zeros((2, classes), np.int64)
    for index, name in enumerate(("drops", "marks")):
        np.add.at(counted[index], rows["class"][at], rows[name][at].astype(np.int64))
    return counted


def _queues(
    tables: TableSource, window: Window, counted: Mapping[str, npt.NDArray[Any]], times: Mapping[str, QueueTimes]
) -> dict[str, Floats]:
    """Returns mean, percentiles and maximum of each port's queue. `counted`: the ports' counters over the window."""
    levels, exact = _levels(tables, window, counted), _exact(tables, window)
    apart = np.abs(levels["mean"] - exact["mean"]) > REPRESENTATIVE * exact["mean"]
    for percent in PERCENTILES:
        levels[f"p{percent}"][apart] = np.nan
    levels |= {name: np.where(np.isnan(values), levels[name], values) for name, values in exact.items()}
    for row, port in enumerate(tables.ports):
        if (port_times := times.get(str(port["name"]))) is not None:
            for percent in PERCENTILES:
                levels[f"p{percent}"][row] = np.fmin(port_times.percentile(percent), levels["max"][row])
    return levels


def _exact(tables: TableSource, window: Window) -> dict[str, Floats]:
    """Returns mean and maximum of the queues that their ports count, from the first sweep in the window to the last; NaN
    otherwise."""
    count, unknown = len(tables.ports), TABLES["queues"].unknown["queue_byte_ns"]
    byte_ns, most, known = np.zeros(count), np.zeros(count), np.ones(count, bool)
    names = ("t_ns", "port", "backlog_bytes", "queue_byte_ns", "longest_bytes")
    before: dict[str, npt.NDArray[Any]] = {}  # the last sweep so far
    first_ns: int | None = None
    for piece in tables.pieces("queues", *names):
        inside = window.spans(piece["t_ns"])
        rows = {name: piece[name][inside] for name in names}
        if not len(rows["t_ns"]):
            continue
        first_ns = int(rows["t_ns"][0]) if first_ns is None else first_ns
        known[rows["port"][rows["queue_byte_ns"] == unknown]] = False
        most_now = np.where(rows["t_ns"] == first_ns, rows["backlog_bytes"], rows["longest_bytes"])
        np.maximum.at(most, rows["port"], most_now.astype(np.float64))
        rows = {name: np.concatenate((before[name], values)) for name, values in rows.items()} if before else rows
        grown = rows["queue_byte_ns"][count:] - rows["queue_byte_ns"][:-count]  # modulo 2^64, as the counter itself
        byte_ns += np.bincount(rows["port"][count:], grown.astype(np.float64), count)
        before = {name: values[-count:] for name, values in rows.items()}
    span_ns = int(before["t_ns"][-1]) - (first_ns or 0) if before else 0
    known &= span_ns > 0
    return {"mean": np.where(known, byte_ns / max(1, span_ns), np.nan), "max": np.where(known, most, np.nan)}


def _backlogs(tables: TableSource, window: Window) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yields ports and backlogs in bytes of the sweeps in the window, in pieces."""
    for piece in tables.pieces("queues", "t_ns", "port", "backlog_bytes"):
        inside = window.holds(piece["t_ns"])
        yield piece["port"][inside].astype(np.int64), piece["backlog_bytes"][inside].astype(np.int64)


def _levels(tables: TableSource, window: Window, counted: Mapping[str, npt.NDArray[Any]]) -> dict[str, Floats]:
    """Returns mean, percentiles and maximum of each port's backlog over the window's sweeps; NaN where they do not determine it.

    Equal values of a port are counted, and not kept.
    """
    tally, count = Tally(), len(tables.ports)
    for ports, backlog in _backlogs(tables, window):
        tally.add((ports << BACKLOG_BITS) | backlog)
    keys, counts, _ = tally.result()
    levels = {name: np.full(count, np.nan) for name in ("mean", *(f"p{percent}" for percent in PERCENTILES), "max")}
    ends = np.searchsorted(keys, np.arange(count + 1) << BACKLOG_BITS)
    for port in np.flatnonzero(np.diff(ends)):
        port_keys = slice(ends[port], ends[port + 1])
        values, times = keys[port_keys] & ((1 << BACKLOG_BITS) - 1), counts[port_keys]
        sweeps = int(times.sum())
        for percent in PERCENTILES:
            if sweeps >= needed_sweeps(percent):
                levels[f"p{percent}"][port] = percentile(values, times, percent)
        if not _missed(int(values[-1]), sweeps, int(counted["tx_packets"][port]), int(counted["drops"][port])):
            levels["mean"][port] = int((values * times).sum()) / sweeps
            levels["max"][port] = (
                values[-1] if _fits_drops(tables.ports[port], int(values[-1]), int(counted["drops"][port])) else np.nan
            )
    return levels


def needed_sweeps(percent: float) -> int:
    """Returns the number of sweeps from which a percentile is reported: one sweep is expected beyond it."""
    return math.ceil(100 / (100 - percent))


def _missed(most_bytes: int, sweeps: int, sent: int, drops: int) -> bool:
    """Returns True if sweeps that never met a frame do not show the queue: frames were dropped, or sent between few sweeps."""
    return not most_bytes and (drops > 0 or (sent > 0 and sweeps < needed_sweeps(max(PERCENTILES))))


def _fits_drops(port: Mapping[str, Any], most_bytes: int, drops: int) -> bool:
    """Returns True if the longest queue that sweeps found can be the maximum: a queue that dropped had no room for a frame."""
    return not drops or most_bytes > port.get("buffer_bytes", math.inf) - port.get("mtu_bytes", MTU_BYTES) - ETHERNET_BYTES


def _longest(table: Mapping[str, npt.NDArray[Any]], mask: npt.NDArray[np.bool_], name: str, prefix: str) -> dict[str, Any]:
    """Returns the port with the largest mean backlog among the ports of the mask, and its queue lengths."""
    means = np.where(mask, table["mean_queue_bytes"], np.nan)
    if not np.isfinite(means).any():
        return {}
    row = int(np.nanargmax(means))
    mean, p99, most = (_or_none(table[column][row]) for column in QUEUES)
    values = (mean, p99, None if most is None else int(most))
    return {name: str(table["port"][row])} | {f"{prefix}{column}": value for column, value in zip(QUEUES, values, strict=True)}


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _busiest(table: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Returns the port with the highest utilization, and drops and marks; nothing without two sweeps."""
    shares = table["utilization"]
    if not np.isfinite(shares).any():
        return {}
    row = int(np.nanargmax(shares))
    return {"utilization": float(shares[row]), "busiest_port": str(table["port"][row])} | _lost_and_marked(table)


def _lost_and_marked(table: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Returns drops and marks over all ports. The ratios are relative to the frames that hosts sent or tried to send."""
    drops, marks = int(table["drops"].sum()), int(table["marks"].sum())
    host = table["side"] == "host"
    offered = int(table["tx_packets"][host].sum() + table["drops"][host].sum())
    ratios = {"drop_ratio": drops / offered, "mark_ratio": marks / offered} if offered else {}
    return {"drops": drops, "marks": marks} | ratios


def _names() -> Sequence[str]:
    head = ("utilization", "busiest_port", *QUEUES, "queueing_delay_s", "p99_queueing_delay_s", "bottleneck_port")
    sides = [name for side in SIDES for name in (f"{side}_port", *(f"{side}_{column}" for column in QUEUES))]
    return (*head, *sides, "drops", "drop_ratio", "marks", "mark_ratio")


NAMES = _names()
