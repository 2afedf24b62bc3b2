# SPDX-License-Identifier: Apache-2.0
"""Computes queues, link utilization, drops and marks of every port from the sweeps in a window. Bytes are frame bytes.

A sweep reads levels (backlog) and counters since t0. A counter's value over the window is the last sweep's minus the first's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.metrics.window import Window
from dc_gym.records.tables import Records, Tables

Floats = npt.NDArray[np.float64]
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


@dataclass(frozen=True, slots=True)
class Sweeps:
    """The queue trace as matrices: one row for each sweep, one column for each port."""

    t_ns: npt.NDArray[np.int64]
    cells: Records

    @classmethod
    def of(cls, tables: Tables, window: Window, closed: bool = False) -> Sweeps:
        """Returns the sweeps in the window. `closed`: includes one at the window's end, which is needed for counters."""
        ports = max(1, len(tables.ports))
        cells = tables.queues[: len(tables.queues) // ports * ports].reshape(-1, ports)
        t_ns = cells["t_ns"][:, 0]
        inside = window.holds(t_ns) | (closed & (t_ns == window.stop_ns))
        return cls(t_ns[inside], cells[inside])

    def gain(self, column: str) -> npt.NDArray[np.uint64]:
        """Returns each port's growth of a counter from the first sweep to the last."""
        values: npt.NDArray[np.uint64] = self.cells[column]
        grown: npt.NDArray[np.uint64] = values[-1] - values[0]
        return grown


def bottleneck_port(tables: Tables, window: Window) -> int | None:
    """Returns the row of the port with the largest mean backlog over the sweeps in the window (the first of equals); None without
    sweeps."""
    sweeps = Sweeps.of(tables, window)
    return int(sweeps.cells["backlog_bytes"].mean(axis=0).argmax()) if len(sweeps.t_ns) else None


def port_table(tables: Tables, window: Window) -> dict[str, npt.NDArray[Any]]:
    """Returns one value for each port and each of COLUMNS; NaN where nothing was measured, and 0 for counters."""
    ports, count = tables.ports, len(tables.ports)
    rates = np.array([port["rate_bps"] for port in ports], np.int64)
    table: dict[str, npt.NDArray[Any]] = {
        "port": np.array([str(port["name"]) for port in ports], object),
        "owner": np.array([str(port["owner"]) for port in ports], object),
        "side": sides(ports),
        "rate_bps": rates,
    }
    levels, counted = Sweeps.of(tables, window), Sweeps.of(tables, window, closed=True)
    queues = _levels(levels.cells["backlog_bytes"].astype(np.float64), count)
    span_s = (counted.t_ns[-1] - counted.t_ns[0]) / 1e9 if len(counted.t_ns) else 0
    for name in ("tx_bytes", "tx_packets", "drops", "marks"):
        table[name] = counted.gain(name) if len(counted.t_ns) else np.zeros(count, np.uint64)
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


def queue_metrics(tables: Tables, window: Window) -> dict[str, Any]:
    """Returns the entries of summary.json: the busiest port, the longest queue overall, at a switch and at a host, drops and
    marks."""
    table = port_table(tables, window)
    found: dict[str, Any] = dict.fromkeys(NAMES)
    found |= _longest(table, np.ones(len(tables.ports), bool), "bottleneck_port", "")
    for side in SIDES:
        found |= _longest(table, table["side"] == side, f"{side}_port", f"{side}_")
    if found["bottleneck_port"] is None:
        return found
    row = list(table["port"]).index(found["bottleneck_port"])
    found["queueing_delay_s"] = float(table["mean_delay_s"][row])
    found["p99_queueing_delay_s"] = float(table["p99_delay_s"][row])
    return found | _busiest(table) | _lost_and_marked(table)


def _levels(backlog: Floats, count: int) -> dict[str, Floats]:
    """Returns mean, percentiles and maximum of each port's backlog [sweeps, ports]."""
    if not len(backlog):
        return dict.fromkeys(("mean", "p50", "p99", "max"), np.full(count, np.nan))
    p50, p99 = np.percentile(backlog, PERCENTILES, axis=0)
    return {"mean": backlog.mean(axis=0), "p50": p50, "p99": p99, "max": backlog.max(axis=0)}


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
