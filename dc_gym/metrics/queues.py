# SPDX-License-Identifier: Apache-2.0
"""Computes queues, link utilization, drops and marks of every port from the sweeps in a window. Bytes are frame bytes.

A sweep reads levels (backlog) and counters since t0. A counter's value over the window is the last sweep's minus the first's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.tally import Tally, percentile
from dc_gym.metrics.window import Window
from dc_gym.records.tables import Piece, TableSource

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.uint64]
COUNTERS = ("tx_bytes", "tx_packets", "drops", "marks")
BACKLOG_BITS = 40
"""Bits of a backlog in bytes, in a key that also has the port."""
PERCENTILES = (50, 99)
SIDES = ("switch", "host")
COLUMNS: Mapping[str, str] = {
    "port": "as in `ports.json`",
    "owner": "as in `ports.json`",
    "side": "as in `ports.json`",
    "rate_bps": "as in `ports.json`",
    "utilization": "frame bytes sent x 8 / (rate x time), from the first to the last sweep, 0 .. 1",
    "mean_queue_bytes": "mean length of its queue over the sweeps",
    "p50_queue_bytes": "median, likewise",
    "p99_queue_bytes": "99th percentile, likewise",
    "max_queue_bytes": "maximum, likewise",
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
        found = cls(columns, len(tables.ports))
        for piece in tables.pieces("queues", "t_ns", "port", *columns):
            t_ns = piece["t_ns"]
            found._add(piece, slice(None) if window is None else window.holds(t_ns) | (t_ns == window.stop_ns))
        return found

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
        mine = piece["port"] == row
        parts.append((piece["t_ns"][mine], piece[column][mine]))
    t_ns, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return t_ns, values


def bottleneck_port(tables: TableSource, window: Window) -> int | None:
    """Returns the row of the port with the largest mean backlog over the sweeps in the window (the first of equals); None without
    sweeps."""
    tally = Tally()
    for ports, backlog in _backlogs(tables, window):
        tally.add(ports, backlog)
    ports, counts, sums = tally.result()
    return int(ports[(sums / counts).argmax()]) if len(ports) else None


def port_table(tables: TableSource, window: Window) -> dict[str, npt.NDArray[Any]]:
    """Returns one value for each port and each of COLUMNS; NaN where nothing was measured, and 0 for counters."""
    ports, count = tables.ports, len(tables.ports)
    rates = np.array([port["rate_bps"] for port in ports], np.int64)
    table: dict[str, npt.NDArray[Any]] = {
        "port": np.array([str(port["name"]) for port in ports], object),
        "owner": np.array([str(port["owner"]) for port in ports], object),
        "side": sides(ports),
        "rate_bps": rates,
    }
    queues, counted = _levels(tables, window, count), Counted.of(tables, COUNTERS, window)
    span_s = 0 if counted.first_ns is None else (counted.last_ns - counted.first_ns) / 1e9
    for name in COUNTERS:
        table[name] = counted.gain(name)
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
    found: dict[str, Any] = dict.fromkeys(NAMES)
    found |= _longest(table, np.ones(len(table["port"]), bool), "bottleneck_port", "")
    for side in SIDES:
        found |= _longest(table, table["side"] == side, f"{side}_port", f"{side}_")
    if found["bottleneck_port"] is None:
        return found
    row = list(table["port"]).index(found["bottleneck_port"])
    found["queueing_delay_s"] = float(table["mean_delay_s"][row])
    found["p99_queueing_delay_s"] = float(table["p99_delay_s"][row])
    return found | _busiest(table) | _lost_and_marked(table)


def _backlogs(tables: TableSource, window: Window) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yields ports and backlogs in bytes of the sweeps in the window, in pieces."""
    for piece in tables.pieces("queues", "t_ns", "port", "backlog_bytes"):
        inside = window.holds(piece["t_ns"])
        yield piece["port"][inside].astype(np.int64), piece["backlog_bytes"][inside].astype(np.int64)


def _levels(tables: TableSource, window: Window, count: int) -> dict[str, Floats]:
    """Returns mean, percentiles and maximum of each port's backlog over the sweeps in the window.

    Equal values of a port are counted, and not kept.
    """
    tally = Tally()
    for ports, backlog in _backlogs(tables, window):
        tally.add((ports << BACKLOG_BITS) | backlog)
    keys, counts, _ = tally.result()
    found = {name: np.full(count, np.nan) for name in ("mean", *(f"p{percent}" for percent in PERCENTILES), "max")}
    ends = np.searchsorted(keys, np.arange(count + 1) << BACKLOG_BITS)
    for port in np.flatnonzero(np.diff(ends)):
        own = slice(ends[port], ends[port + 1])
        values, times = keys[own] & ((1 << BACKLOG_BITS) - 1), counts[own]
        found["mean"][port], found["max"][port] = int((values * times).sum()) / int(times.sum()), values[-1]
        for percent in PERCENTILES:
            found[f"p{percent}"][port] = percentile(values, times, percent)
    return found


def _longest(table: Mapping[str, npt.NDArray[Any]], mask: npt.NDArray[np.bool_], name: str, prefix: str) -> dict[str, Any]:
    """Returns the port with the largest mean backlog among those of the mask, and its queue lengths."""
    means = np.where(mask, table["mean_queue_bytes"], np.nan)
    if not np.isfinite(means).any():
        return {}
    row = int(np.nanargmax(means))
    return {name: str(table["port"][row])} | {
        f"{prefix}mean_queue_bytes": float(table["mean_queue_bytes"][row]),
        f"{prefix}p99_queue_bytes": float(table["p99_queue_bytes"][row]),
        f"{prefix}max_queue_bytes": int(table["max_queue_bytes"][row]),
    }


def _busiest(table: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Returns the port with the highest utilization."""
    shares = table["utilization"]
    if not np.isfinite(shares).any():
        return {}
    row = int(np.nanargmax(shares))
    return {"utilization": float(shares[row]), "busiest_port": str(table["port"][row])}


def _lost_and_marked(table: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Returns drops and marks over all ports. The ratios are relative to the frames that hosts sent or tried to send."""
    drops, marks = int(table["drops"].sum()), int(table["marks"].sum())
    host = table["side"] == "host"
    offered = int(table["tx_packets"][host].sum() + table["drops"][host].sum())
    ratios = {"drop_ratio": drops / offered, "mark_ratio": marks / offered} if offered else {}
    return {"drops": drops, "marks": marks} | ratios


def _names() -> Sequence[str]:
    queue = ("mean_queue_bytes", "p99_queue_bytes", "max_queue_bytes")
    head = ("utilization", "busiest_port", *queue, "queueing_delay_s", "p99_queueing_delay_s", "bottleneck_port")
    sides = [name for side in SIDES for name in (f"{side}_port", *(f"{side}_{each}" for each in queue))]
    return (*head, *sides, "drops", "drop_ratio", "marks", "mark_ratio")


NAMES = _names()
