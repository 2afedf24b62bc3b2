# SPDX-License-Identifier: Apache-2.0
"""The data of a run that figures need. They are computed once from the run's tables; the tables, which may be large, are freed
afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym import spec as specs
from dc_gym.base.errors import ResultError
from dc_gym.results.figures.events import EventMark, marks_of
from dc_gym.results.figures.markings import Markings
from dc_gym.results.figures.slowdown import sized_of
from dc_gym.results.metrics import Series, Sized, Window, series
from dc_gym.results.metrics.queues import of_port
from dc_gym.results.metrics.series import queue_means
from dc_gym.results.pages.report.runs import ReportedRun
from dc_gym.results.results import Result
from dc_gym.results.tables import TableSource
from dc_gym.spec import RecordedSpec
from dc_gym.topologies.graph import Graph

Floats = npt.NDArray[np.float64]
INTERVALS = 150
QUANTILES = np.concatenate((np.linspace(0, 0.98, 99), 1 - np.geomspace(0.02, 0.001, 20)))


@dataclass(frozen=True, slots=True)
class RunData:
    """The data of one run for the figures."""

    series: Series
    queue_s: Floats
    """The middles of the intervals of queue_bytes, which may be shorter than the intervals of the series."""
    queue_bytes: Floats
    """The mean backlog in each interval, of the switch port with the largest mean backlog."""
    switch_quantiles: Floats
    """The backlog of that port in bytes at QUANTILES."""
    host_quantiles: Floats
    """The same for the host port with the largest mean backlog."""
    sized: Sized
    utilization: dict[str, float]
    """The utilization by port."""
    labels: tuple[str, ...]
    """The labels of the flows for which the series has lines."""
    spec: RecordedSpec
    graph: Graph | None
    """The network; None if it is not known."""
    no_graph: str
    """Why it is not known."""
    events: tuple[EventMark, ...] = ()
    markings: Markings | None = None
    """The markings that agents had in force; None if they set none."""


def measure(run: ReportedRun) -> RunData:
    """Reads the tables of a result, computes the data, and frees the tables."""
    result = Result(run.result.path, run.result.manifest, run.result.summary, run.result.ports)
    spec = specs.recorded(run.spec, str(result.path / "manifest.json"))
    window, tables = Window.of(spec), result.stored
    sampled_ns = max(spec.monitor.interval_ns, spec.monitor.tcp_interval_ns)
    intervals, finer = (_intervals(spec, interval_ns) for interval_ns in (sampled_ns, spec.monitor.interval_ns))
    edges = np.linspace(0, spec.time.duration_ns, finer + 1)
    rows = {side: _row(result, f"{side}_port") for side in ("switch", "host")}
    drawn = series(tables, spec.time.duration_ns, window, intervals, rows["switch"], as_arrived=True)
    graph, why = _graph(result)
    return RunData(
        series=drawn,
        queue_s=(edges[:-1] + edges[1:]) / 2e9,
        queue_bytes=queue_means(tables, rows["switch"], edges),
        switch_quantiles=_quantiles(tables, rows["switch"], window),
        host_quantiles=_quantiles(tables, rows["host"], window),
        sized=sized_of(result, spec),
        utilization=_utilization(result),
        labels=_labels(result, len(drawn.goodput_bps)),
        spec=spec,
        graph=graph,
        no_graph=why,
        events=marks_of(result.manifest),
        markings=Markings.of(result),
    )


def _graph(result: Result) -> tuple[Graph | None, str]:
    """Returns the network, or None and why it is not known."""
    try:
        return result.graph(), ""
    except ResultError as error:
        return None, str(error)


def _intervals(spec: RecordedSpec, sampled_ns: int) -> int:
    """Returns the number of intervals such that each contains a sample."""
    return min(INTERVALS, max(1, spec.time.duration_ns // sampled_ns))


def _row(result: Result, name: str) -> int | None:
    """Returns the row of a port that summary.json names."""
    port = result.summary.get(name)
    return result.names.port.index(port) if port in result.names.port else None


def _quantiles(tables: TableSource, row: int | None, window: Window) -> Floats:
    t_ns, backlog = of_port(tables, -1 if row is None else row, "backlog_bytes")
    levels = backlog[window.holds(t_ns)]
    quantiles: Floats = np.quantile(levels.astype(np.float64), QUANTILES) if len(levels) else np.full(len(QUANTILES), np.nan)
    return quantiles


def _utilization(result: Result) -> dict[str, float]:
    table = result.derived("port_metrics")
    if table is None:
        return {}
    columns: dict[str, list[Any]] = table.select(["port", "utilization"]).to_pydict()
    return dict(zip(columns["port"], columns["utilization"], strict=True))


def _labels(result: Result, lines: int) -> tuple[str, ...]:
    node = result.names.node
    return tuple(f"{node[flow['src']]} to {node[flow['dst']]}" for flow in result.records("flows")[:lines])
