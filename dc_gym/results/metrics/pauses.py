# SPDX-License-Identifier: Apache-2.0
"""Computes the share of a flow's life in which its path was paused, and how often ports sent their peers a pause of a class.

A path is paused while a port of it holds the flow's class on its peer's command (`paused_ns` of the table class_queues).
Between two sweeps that is the largest growth of `paused_ns` over the ports of the path: pauses of two ports that followed each
other within one sweep count as one. Growth is spread evenly between sweeps, which matters where a flow starts or ends within one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.results.tables import TableSource

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
NAMES = ("paused_share", "pauses")
"""The metrics of summary.json."""
COUNTERS = ("paused_ns", "pauses")
"""The columns of the table class_queues on pauses."""
COLUMNS: Mapping[str, str] = {
    "paused_share": "share of the flow's life in which a port of its path had to hold the flow's class; NaN if it did not start"
}
"""The further column of the table of flows of a run with classes, with its meaning in Markdown."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses of a run whose ports have classes."""

    shares: Floats
    """[flows]: the share of each flow's life; NaN if it did not start."""
    count: int
    """The number of pauses of a class that ports sent their peers."""


def find_pauses(tables: TableSource, paths: Sequence[Sequence[int]], classes: Sequence[int], stop_ns: int) -> Pauses | None:
    """Returns the pauses of a run; None if the ports have no classes.

    Args:
        tables: the run's tables.
        paths: rows of the ports that each flow crosses.
        classes: each flow's class.
        stop_ns: end of the run, which ends unfinished flows.
    """
    last = _last(tables)
    if not last:
        return None
    t_ns, growth = _held(tables, [key for key, counters in last.items() if counters["paused_ns"]])
    starts, recorded_ends = tables.flows["start_ns"], tables.flows["end_ns"]
    bounds_ns = np.stack([starts, np.where(recorded_ends >= 0, recorded_ends, stop_ns)]).astype(np.float64)
    paused_ns = np.zeros(len(starts))
    for (path, number), rows in _alike(paths, classes).items():
        growths = [growth[port, number] for port in path if (port, number) in growth]
        if growths:
            cumulative_ns = np.concatenate(([0.0], np.cumsum(np.max(growths, axis=0))))
            until_start, until_end = (np.interp(bounds_ns[bound, rows], t_ns, cumulative_ns) for bound in (0, 1))
            paused_ns[rows] = until_end - until_start
    lived = (starts >= 0) & (bounds_ns[1] > bounds_ns[0])
    shares = np.full(len(starts), np.nan)
    shares[lived] = paused_ns[lived] / (bounds_ns[1] - bounds_ns[0])[lived]
    return Pauses(shares, sum(counters["pauses"] for counters in last.values()))


def pause_metrics(pauses: Pauses | None) -> dict[str, Any]:
    """Returns the entries of summary.json: none if the ports have no classes."""
    if pauses is None:
        return {}
    known = pauses.shares[np.isfinite(pauses.shares)]
    mean = float(known.mean()) if len(known) else None
    return dict(zip(NAMES, (mean, pauses.count), strict=True))


def _held(tables: TableSource, keys: Collection[tuple[int, int]]) -> tuple[Floats, dict[tuple[int, int], Floats]]:
    """Returns the times of the sweeps, with 0 in front, and the growth of `paused_ns` of some classes of ports."""
    if not keys:
        return np.zeros(1), {}
    keys = sorted(keys)
    packed_keys = np.array([_key(*key) for key in keys], np.int64)
    times, values = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for piece in tables.pieces("class_queues", "t_ns", "port", "class", "paused_ns"):
        rows = np.isin(_key(piece["port"].astype(np.int64), piece["class"].astype(np.int64)), packed_keys)
        times.append(piece["t_ns"][rows])
        values.append(piece["paused_ns"][rows])
    t_ns = np.concatenate(([0], np.concatenate(times)[:: len(keys)])).astype(np.float64)
    paused = np.concatenate(values).reshape(-1, len(keys)).astype(np.float64)
    growth = np.diff(paused, axis=0, prepend=0)
    return t_ns, {key: growth[:, column] for column, key in enumerate(keys)}


def _last(tables: TableSource) -> dict[tuple[int, int], dict[str, int]]:
    """Returns the counters at the last sweep, by port and class; nothing if the ports have no classes."""
    last_counters: dict[tuple[int, int], dict[str, int]] = {}
    for piece in tables.pieces("class_queues", "t_ns", "port", "class", *COUNTERS):
        latest_mask = piece["t_ns"] == piece["t_ns"][-1:].max(initial=0)
        rows = zip(*(piece[name][latest_mask].tolist() for name in ("port", "class", *COUNTERS)), strict=True)
        last_counters |= {(port, number): dict(zip(COUNTERS, values, strict=True)) for port, number, *values in rows}
    return last_counters


def _key(port: Any, number: Any) -> Any:
    """Returns a number that is smaller for a smaller port, and of one port for a smaller class: the table's order."""
    return (port << 8) | number


def _alike(paths: Sequence[Sequence[int]], classes: Sequence[int]) -> dict[tuple[tuple[int, ...], int], Ints]:
    """Returns the rows of the flows with the same path and class."""
    groups: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for row, (path, number) in enumerate(zip(paths, classes, strict=True)):
        groups.setdefault((tuple(path), number), []).append(row)
    return {key: np.array(rows, np.int64) for key, rows in groups.items()}
