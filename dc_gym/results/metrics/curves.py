# SPDX-License-Identifier: Apache-2.0
"""Computes the payload that each flow has received over time, by linear interpolation between samples.

It works on any number of flows at once. A flow's curve has the knots (start, 0), its samples, and (end, its total received
bytes). The bytes that a stopped flow had in flight arrive later. The flow is sampled until then, so its curve ends one interval
after its last sample. All curves lie in one array, one flow after another, so that one binary search reads any of them at any
time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.results.metrics.window import Window
from dc_gym.results.tables import STATUSES, TABLES, TableSource

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
STOPPED = STATUSES.index("stopped")
BLOCK = 1 << 21  # values that are processed at a time
PARTS = 64  # pieces of samples that are gathered before they are thinned together
SAMPLE = TABLES["tcp"].record("flow", "t_ns", "bytes_received")


@dataclass(frozen=True, slots=True)
class Curves:
    """The curves of all flows, one row for each flow."""

    first: Ints
    """The index of each flow's first knot. The flow's knots end where the next flow's begin."""
    t_ns: Ints
    received_bytes: Floats
    _keys: Ints
    _span_ns: int

    @classmethod
    def of(cls, tables: TableSource, stop_ns: int, times_ns: npt.ArrayLike | None = None) -> Curves:
        """Returns the curves of a run that stopped at `stop_ns`.

        If they are read at these times only, samples that no time needs are left out. There may be many more of them.
        """
        flows, selection = tables.flows, _needed(tables, times_ns)
        samples = selection.samples
        begins, ends = (np.searchsorted(samples["flow"], flows["flow"], side=side) for side in ("left", "right"))
        counts = (ends - begins).astype(np.int64)
        first = np.concatenate(([0], np.cumsum(counts + 2)))
        t_ns, received = np.empty(first[-1], np.int64), np.empty(first[-1], np.float64)
        inner = _inner(first, counts)
        t_ns[inner], received[inner] = samples["t_ns"][: counts.sum()], samples["bytes_received"][: counts.sum()]
        t_ns[first[:-1]], received[first[:-1]] = np.maximum(flows["start_ns"], 0), 0
        last = first[1:] - 1
        ends_ns = np.where(flows["end_ns"] >= 0, flows["end_ns"], stop_ns)
        drained_ns = np.minimum(t_ns[last - 1] + selection.interval_ns, stop_ns)
        ends_ns = np.where(flows["status"] == STOPPED, np.maximum(ends_ns, drained_ns), ends_ns)
        received[last], t_ns[last] = flows["received_bytes"], np.maximum(ends_ns, t_ns[last - 1])
        span = int(t_ns.max(initial=0)) + 1
        return cls(first, t_ns, received, np.repeat(np.arange(len(flows)), counts + 2) * span + t_ns, span)

    def at(self, rows: Ints, times_ns: npt.ArrayLike) -> Floats:
        """Returns as [rows, times] the payload bytes that each of these flows had received by each time."""
        times = np.asarray(times_ns, np.float64)[None, :]
        begin, end = self.first[rows][:, None], self.first[rows + 1][:, None] - 1
        clipped = np.clip(times, self.t_ns[begin], self.t_ns[end])
        keys = rows[:, None] * self._span_ns + np.floor(clipped).astype(np.int64)
        left = np.clip(np.searchsorted(self._keys, keys, side="right") - 1, begin, end - 1)
        t0, t1 = self.t_ns[left], self.t_ns[left + 1]
        share = np.where(t1 > t0, (clipped - t0) / np.maximum(t1 - t0, 1), 1.0)
        low, high = self.received_bytes[left], self.received_bytes[left + 1]
        values: Floats = low + (high - low) * share
        return values

    def rates_bps(self, rows: Ints, edges_ns: npt.ArrayLike) -> Floats:
        """Returns as [rows, intervals] the mean rate between each edge and the next."""
        edges = np.asarray(edges_ns, np.float64)
        rates: Floats = np.diff(self.at(rows, edges), axis=1) * 8 / (np.diff(edges) / 1e9)
        return rates

    def blocks(self, width: int) -> list[Ints]:
        """Returns the rows of all flows, in blocks that keep arrays of [rows, width] small."""
        count = len(self.first) - 1
        step = max(1, BLOCK // max(1, width))
        return [np.arange(begin, min(begin + step, count)) for begin in range(0, count, step)]


def flow_goodput_bps(tables: TableSource, window: Window) -> Floats:
    """Returns, for each flow, payload received in the window x 8 / window."""
    edges = (window.start_ns, window.stop_ns)
    curves = Curves.of(tables, window.stop_ns, edges)
    parts = [curves.rates_bps(rows, edges)[:, 0] for rows in curves.blocks(2)]
    return np.concatenate(parts) if parts else np.empty(0)


@dataclass(slots=True)
class _Samples:
    """Samples of all flows, by flow and time."""

    samples: npt.NDArray[np.void]
    interval_ns: int = 0
    """The interval between two samples of the run; 0 if there are fewer than two."""


def _needed(tables: TableSource, times_ns: npt.ArrayLike | None) -> _Samples:
    """Returns the samples between which curves are interpolated at these times, or all.

    Between two successive times, a flow needs its first sample and its last.
    """
    times = None if times_ns is None else np.unique(np.asarray(times_ns, np.float64))
    selection = _Samples(np.empty(0, SAMPLE))
    parts: list[npt.NDArray[np.void]] = []
    last_ns = None
    for piece in tables.pieces("tcp", *SAMPLE.names or ()):
        samples = np.empty(len(piece["t_ns"]), SAMPLE)
        for name in SAMPLE.names or ():
            samples[name] = piece[name]
        apart = np.diff(samples["t_ns"], prepend=samples["t_ns"][:1] if last_ns is None else last_ns)
        last_ns = samples["t_ns"][-1:]
        if (apart := apart[apart > 0]).size:
            selection.interval_ns = min(selection.interval_ns or int(apart.min()), int(apart.min()))
        parts.append(_thinned(samples, times))
        if len(parts) == PARTS:
            parts = [_thinned(np.concatenate(parts), times)]
    selection.samples = _thinned(np.concatenate([selection.samples, *parts]), times)
    return selection


def _thinned(samples: npt.NDArray[np.void], times: Floats | None) -> npt.NDArray[np.void]:
    """Returns samples by flow and time, of each flow and each interval between times only the first and the last."""
    samples = samples[np.argsort(samples["flow"], kind="stable")]
    if times is None or not len(samples):
        return samples
    interval = np.searchsorted(times, samples["t_ns"], side="left")
    changes = (np.diff(interval) != 0) | (np.diff(samples["flow"]) != 0)
    return samples[np.concatenate(([True], changes)) | np.concatenate((changes, [True]))]


def _inner(first: Ints, counts: Ints) -> Ints:
    """Returns the places of each flow's samples: after its first knot and before its last."""
    before = np.cumsum(counts) - counts
    places: Ints = np.arange(counts.sum()) + np.repeat(first[:-1] + 1 - before, counts)
    return places
