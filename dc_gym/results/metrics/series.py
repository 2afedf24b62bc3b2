# SPDX-License-Identifier: Apache-2.0
"""The series of a run over time for figures: means over equal intervals; NaN where nothing was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.tally import Tally
from dc_gym.results.metrics.capacity import Capacity, arrived
from dc_gym.results.metrics.classes import FlowClass, classes_of
from dc_gym.results.metrics.curves import Curves
from dc_gym.results.metrics.queues import Counted, bottleneck_port, of_port
from dc_gym.results.metrics.window import Window, active_throughout
from dc_gym.results.tables import TABLES, TableSource

Floats = npt.NDArray[np.float64]
MOST_LINES = 256  # with more flows, only their sum is shown


@dataclass(frozen=True, slots=True)
class Series:
    """The series of a run in equal intervals."""

    t_s: Floats
    """[intervals]: the middles of the intervals."""
    queue_bytes: Floats
    """[intervals]: mean queue of the port `queue_port`."""
    goodput_bps: Floats
    """[flows, intervals]; no rows if there are more than MOST_LINES flows."""
    srtt_us: Floats
    """[flows, intervals]; also without rows if there are more than MOST_LINES flows."""
    jain: Floats
    """[intervals]: Jain's index over the flows that are under way in the whole interval; NaN below two."""
    queue_port: str | None
    k_bytes: int | None
    """The marking threshold at that port in bytes; None: the port has none."""
    total_bps: Floats
    """[intervals]: goodput of all flows."""
    mean_srtt_us: Floats
    """[intervals]: mean over the flows that have a sample."""
    flows: int
    """The number of flows."""
    rate_bps: Floats
    """[flows, intervals]: the rate that the NIC allows each flow. No rows if flows do not go over RDMA, or if there are too
    many."""
    mean_rate_bps: Floats
    """[intervals]: mean over the flows that have a rate."""
    over_rdma: bool
    busy_port: str | None = None
    """The port with the highest utilization."""
    busy_bps: Floats = field(default_factory=lambda: np.empty(0))
    """[intervals]: rate of the frames that this port sent."""
    busy_line_bps: float = math.nan
    most_bps: float = math.inf
    """The rate that links can carry for all flows together; infinite where it is not known."""
    classes: tuple[FlowClass, ...] = ()
    """The classes of the flows; empty if all are of one."""
    class_bps: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """[classes, intervals]: goodput of all flows of a class."""

    @property
    def end_s(self) -> float:
        """The end of the last interval."""
        return float(self.t_s[-1] + self.t_s[0])


def series(
    tables: TableSource,
    duration_ns: int,
    window: Window,
    intervals: int = 200,
    port_row: int | None = None,
    *,
    as_arrived: bool = False,
) -> Series:
    """Returns the series of a run in equal intervals from 0 to its duration.

    The port is the window's bottleneck unless `port_row` is given. Goodput is the payload as applications read it or, with
    `as_arrived`, as links can have carried it (capacity.py).
    """
    edges = np.linspace(0, duration_ns, intervals + 1)
    row = bottleneck_port(tables, window) if port_row is None else port_row
    port = {} if row is None else tables.ports[row]
    capacity = Capacity.of(tables) if as_arrived else None
    classes = tuple(classes_of(tables))
    lines, total, fairness, class_bps = _goodput(tables, edges, capacity, classes)
    flow_srtt_us, mean = _sampled(tables, edges, "srtt_us")
    over_rdma = bool(len(tables.nic_flows))
    of_nic = np.isin(tables.flows["flow"], tables.nic_flows["flow"]) if over_rdma else None
    rates, mean_rate = _sampled(tables, edges, "delivery_rate_bps", of_nic)
    return Series(
        t_s=(edges[:-1] + edges[1:]) / 2e9,
        queue_bytes=queue_means(tables, row, edges),
        goodput_bps=lines,
        srtt_us=flow_srtt_us,
        jain=fairness,
        queue_port=port.get("name"),
        k_bytes=port.get("k_bytes"),
        total_bps=total,
        mean_srtt_us=mean,
        flows=len(tables.flows),
        rate_bps=rates if over_rdma else np.empty((0, intervals)),
        mean_rate_bps=mean_rate,
        over_rdma=over_rdma,
        **_busiest(tables, edges),
        most_bps=math.inf if capacity is None else capacity.total_bps,
        classes=classes,
        class_bps=class_bps,
    )


def means(t_ns: npt.NDArray[np.int64], values: npt.NDArray[np.generic], edges: Floats) -> Floats:
    """Returns the mean of the values in each interval [edge, next edge)."""
    bins, inside = _bins(t_ns, edges)
    counts = np.bincount(bins[inside], minlength=len(edges) - 1)
    sums = np.bincount(bins[inside], weights=values[inside].astype(np.float64), minlength=len(edges) - 1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _bins(t_ns: npt.NDArray[np.int64], edges: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Returns the interval of each time, and whether the time lies in one."""
    bins = np.searchsorted(edges, t_ns, side="right") - 1
    return bins, (bins >= 0) & (bins < len(edges) - 1)


def _goodput(
    tables: TableSource, edges: Floats, capacity: Capacity | None, classes: Sequence[FlowClass]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Returns, for each interval, the goodput of each flow (if they are few), of all flows and of each class, and Jain's
    index."""
    curves, intervals = Curves.of(tables, int(edges[-1]), edges), len(edges) - 1
    count, sums, squares = (np.zeros(intervals) for _ in range(3))
    received, of_class, lines = np.zeros(intervals + 1), np.zeros((len(classes), intervals + 1)), []
    few, bound = 0 < len(tables.flows) <= MOST_LINES, math.inf if capacity is None else capacity.total_bps
    for rows in curves.blocks(intervals):
        read = curves.at(rows, edges)
        received += read.sum(axis=0)
        for number, flow_class in enumerate(classes):
            of_class[number] += read[flow_class.mask[rows]].sum(axis=0)
        rates = _rates_bps(read, edges, None if capacity is None else capacity.flow_bps[rows], bound if few else math.inf)
        active = active_throughout(tables.flows[rows], edges[:-1], edges[1:])
        fair = np.where(active, rates, 0)
        count, sums, squares = count + active.sum(axis=0), sums + fair.sum(axis=0), squares + (fair**2).sum(axis=0)
        lines.append(rates)
    total = _rates_bps(received[None, :], edges, None if capacity is None else np.array([bound]), bound)[0]
    totals = _rates_bps(of_class, edges, None if capacity is None else np.full(len(classes), bound), bound)
    jains = np.divide(sums**2, count * squares, out=np.full(intervals, np.nan), where=(squares > 0) & (count > 1))
    return np.concatenate(lines) if few else np.empty((0, intervals)), total, jains, totals


def _busiest(tables: TableSource, edges: Floats) -> dict[str, Any]:
    """Returns the port with the highest utilization, and its rate in each interval."""
    counted = Counted.of(tables, ("tx_bytes",))
    if counted.first_ns is None or counted.first_ns == counted.last_ns:
        return {}
    lines = np.array([port["rate_bps"] for port in tables.ports], np.float64)
    row = int((counted.gain("tx_bytes") / lines).argmax())
    t_ns, sent = of_port(tables, row, "tx_bytes")
    passed = np.interp(edges, t_ns, sent.astype(np.float64))
    rates = np.minimum(np.diff(passed) * 8 / (np.diff(edges) / 1e9), lines[row])  # a frame counts when its transmission begins
    return {"busy_port": str(tables.ports[row]["name"]), "busy_bps": rates, "busy_line_bps": float(lines[row])}


def _rates_bps(received: Floats, edges: Floats, flow_bps: Floats | None, total_bps: float) -> Floats:
    """Returns the mean rates between the edges from the bytes at the edges; with bounds, the rates as links can have carried
    them."""
    counted = received if flow_bps is None else arrived(received, edges, flow_bps, total_bps)
    rates: Floats = np.diff(counted, axis=1) * 8 / (np.diff(edges) / 1e9)
    return rates if flow_bps is None else np.minimum(rates, flow_bps[:, None])


def _sampled(tables: TableSource, edges: Floats, column: str, only: npt.NDArray[np.bool_] | None = None) -> tuple[Floats, Floats]:
    """Returns, for each interval, the mean of each flow's samples (if the flows are few), and the mean over flows. A sample of 0
    means no value. `only` [flows]: the flows that count; None: all."""
    intervals, flows = len(edges) - 1, len(tables.flows)
    tally = Tally()
    for piece in tables.pieces("tcp", "t_ns", "flow", column):
        bins, inside = _bins(piece["t_ns"], edges)
        inside &= piece[column] > 0
        if only is not None and len(only):
            inside &= only[np.searchsorted(tables.flows["flow"], piece["flow"])]
        rows = np.searchsorted(tables.flows["flow"], piece["flow"][inside])
        tally.add(rows * intervals + bins[inside], piece[column][inside])
    keys, counts, sums = tally.result()
    values: Floats = sums / np.maximum(counts, 1)
    with_one = np.bincount(keys % intervals, minlength=intervals)
    totals = np.bincount(keys % intervals, weights=values, minlength=intervals)
    mean = np.divide(totals, with_one, out=np.full(intervals, np.nan), where=with_one > 0)
    lines = np.full((flows if flows <= MOST_LINES else 0, intervals), np.nan)
    if lines.size:
        lines.reshape(-1)[keys] = values
    return lines, mean


def queue_means(tables: TableSource, row: int | None, edges: Floats) -> Floats:
    """Returns the mean queue of a port in each interval: exact between sweeps where the port counts it, else over the sweeps."""
    row = 0 if row is None else row
    t_ns, byte_ns = of_port(tables, row, "queue_byte_ns")
    if len(t_ns) < 2 or (byte_ns == TABLES["queues"].unknown["queue_byte_ns"]).any():
        return means(*of_port(tables, row, "backlog_bytes"), edges)
    total = np.concatenate(([0.0], np.cumsum(np.diff(byte_ns).astype(np.float64))))  # the differences are modulo 2^64
    swept = np.clip(edges, t_ns[0], t_ns[-1])
    grown, passed_ns = np.diff(np.interp(swept, t_ns, total)), np.diff(swept)
    mean_bytes: Floats = np.divide(grown, passed_ns, out=np.full(len(grown), np.nan), where=passed_ns > 0)
    return mean_bytes
