# SPDX-License-Identifier: Apache-2.0
"""The numbers of summary.json and the series of the figures, from a run's tables. Pure functions; formulas in docs/results.md.

Times are ns relative to t0, rates bit/s of virtual time. What cannot be said (no flow, no sample) is None, never a made-up 0.
Bytes are two kinds: frames at a port (utilization, queues), payload at an application (goodput).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.digest import STATUSES, Records, Tables
from dc_gym.spec import Spec

__all__ = ["Series", "Window", "bottleneck_port", "flow_goodput_bps", "jain", "series", "summarize"]

Floats = npt.NDArray[np.float64]
EDGE = 0.001  # a flow that misses this part of the window at an end was still active in all of it
FAILED = STATUSES.index("failed")
FCT_NAMES = ("fct_mean_s", "fct_p50_s", "fct_p99_s")


@dataclass(frozen=True, slots=True)
class Window:
    """[start_ns, stop_ns) of a run."""

    start_ns: int
    stop_ns: int

    @classmethod
    def of(cls, spec: Spec) -> Window:
        """What is left of the duration after the warm-up."""
        return cls(spec.time.warmup_ns, spec.time.duration_ns)

    @property
    def length_ns(self) -> int:
        return self.stop_ns - self.start_ns

    def holds(self, t_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which instants lie in the window."""
        return (t_ns >= self.start_ns) & (t_ns < self.stop_ns)


def summarize(tables: Tables, window: Window) -> dict[str, Any]:
    """summary.json."""
    goodput = flow_goodput_bps(tables, window)
    fair = goodput[_active_throughout(tables.flows, window)]
    head = {"goodput_bps": float(goodput.sum()), "flow_goodput_bps": [float(each) for each in goodput]}
    return (
        head
        | _port_metrics(tables, window)
        | {"mean_srtt_us": _mean_srtt_us(tables.tcp, window), "jain": jain(fair)}
        | _flow_metrics(tables.flows)
    )


def flow_goodput_bps(tables: Tables, window: Window) -> Floats:
    """Payload received in the window x 8 / window, one value a flow."""
    edges = np.array([window.start_ns, window.stop_ns], np.float64)
    return np.array([_rates(curve, edges)[0] for curve in _received_curves(tables, window.stop_ns)], np.float64)


def jain(rates: Floats) -> float | None:
    """Jain's index (sum x)^2 / (n sum x^2); None without flows, or if nothing was sent."""
    squares = float((rates**2).sum())
    return float(rates.sum()) ** 2 / (len(rates) * squares) if squares > 0 else None


def bottleneck_port(tables: Tables, window: Window) -> int | None:
    """Row of the port with the largest mean backlog over the sweeps in the window (the first of equals); None without sweeps."""
    sweeps = _Sweeps.of(tables, window)
    return int(sweeps.cells["backlog_bytes"].mean(axis=0).argmax()) if len(sweeps.t_ns) else None


@dataclass(frozen=True, slots=True)
class _Sweeps:
    """The queue trace as matrices: one row a sweep, one column a port."""

    t_ns: npt.NDArray[np.int64]
    cells: Records

    @classmethod
    def of(cls, tables: Tables, window: Window, closed: bool = False) -> _Sweeps:
        """The sweeps in the window; `closed`: with one at its end, which counters may be read from."""
        ports = max(1, len(tables.ports))
        cells = tables.queues[: len(tables.queues) // ports * ports].reshape(-1, ports)
        t_ns = cells["t_ns"][:, 0]
        inside = window.holds(t_ns) | (closed & (t_ns == window.stop_ns))
        return cls(t_ns[inside], cells[inside])

    def gain(self, column: str) -> Floats:
        """What a counter of each port grew by from the first sweep to the last."""
        values = self.cells[column]
        grown: Floats = (values[-1] - values[0]).astype(np.float64)
        return grown


def _port_metrics(tables: Tables, window: Window) -> dict[str, Any]:
    """Queues and counters of the ports."""
    row = bottleneck_port(tables, window)
    counted = _Sweeps.of(tables, window, closed=True)
    if row is None:
        names = ("utilization", "busiest_port", "mean_queue_bytes", "p99_queue_bytes", "max_queue_bytes")
        return dict.fromkeys((*names, "queueing_delay_s", "bottleneck_port", "drops", "marks"))
    backlog = _Sweeps.of(tables, window).cells["backlog_bytes"][:, row].astype(np.float64)
    port, mean = tables.ports[row], float(backlog.mean())
    return _utilization(tables.ports, counted) | {
        "mean_queue_bytes": mean,
        "p99_queue_bytes": float(np.percentile(backlog, 99)),
        "max_queue_bytes": int(backlog.max()),
        "queueing_delay_s": mean * 8 / port["rate_bps"],
        "bottleneck_port": port["name"],
        "drops": int(counted.gain("drops").sum()),
        "marks": int(counted.gain("marks").sum()),
    }


def _utilization(ports: Sequence[Mapping[str, Any]], sweeps: _Sweeps) -> dict[str, Any]:
    """Of the port that sent most for its rate, from the first sweep to the last."""
    span_ns = int(sweeps.t_ns[-1] - sweeps.t_ns[0])
    if span_ns == 0:
        return {"utilization": None, "busiest_port": None}
    rates = np.array([port["rate_bps"] for port in ports], np.float64)
    shares = sweeps.gain("tx_bytes") * 8 / (rates * span_ns / 1e9)
    row = int(shares.argmax())
    return {"utilization": float(shares[row]), "busiest_port": ports[row]["name"]}


def _mean_srtt_us(tcp: Records, window: Window) -> float | None:
    """Over the samples in the window; 0 says that there is no estimate yet."""
    srtt = tcp["srtt_us"][window.holds(tcp["t_ns"]) & (tcp["srtt_us"] > 0)]
    return float(srtt.mean()) if len(srtt) else None


def _flow_metrics(flows: Records) -> dict[str, Any]:
    """Counts of flows and completion times."""
    status, fct_s = flows["status"], flows["fct_ns"][flows["fct_ns"] >= 0] / 1e9
    counts = {f"flows_{name}": int((status == row).sum()) for row, name in enumerate(STATUSES)}
    times = (fct_s.mean(), np.percentile(fct_s, 50), np.percentile(fct_s, 99)) if len(fct_s) else (None, None, None)
    fct = {name: time if time is None else float(time) for name, time in zip(FCT_NAMES, times, strict=True)}
    return {"retransmits": int(flows["retransmits"].sum()), "flows": len(flows)} | counts | fct


def _active_throughout(flows: Records, window: Window) -> npt.NDArray[np.bool_]:
    """Which flows were under way in the whole window, but for a thousandth of it at either end."""
    slack_ns = window.length_ns * EDGE
    begun = (flows["start_ns"] >= 0) & (flows["start_ns"] <= window.start_ns + slack_ns)
    lasted = (flows["end_ns"] < 0) | (flows["end_ns"] >= window.stop_ns - slack_ns)
    active: npt.NDArray[np.bool_] = begun & lasted & (flows["status"] != FAILED)
    return active


@dataclass(frozen=True, slots=True)
class _Curve:
    """Payload received by a flow over time: straight lines between what was sampled."""

    t_ns: Floats
    received_bytes: Floats


def _received_curves(tables: Tables, stop_ns: int) -> list[_Curve]:
    """One curve a flow: 0 at its start, its samples, and the flow log's total at its end."""
    parts = _samples_by_flow(tables.tcp, tables.flows)
    return [_curve(flow, part, stop_ns) for flow, part in zip(tables.flows, parts, strict=True)]


def _samples_by_flow(tcp: Records, flows: Records) -> list[Records]:
    """The samples of each flow, in order of time."""
    grouped = tcp[np.argsort(tcp["flow"], kind="stable")]
    begins, ends = (np.searchsorted(grouped["flow"], flows["flow"], side=side) for side in ("left", "right"))
    return [grouped[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _curve(flow: np.void, samples: Records, stop_ns: int) -> _Curve:
    begin = max(0, int(flow["start_ns"]))
    end = int(flow["end_ns"]) if flow["end_ns"] >= 0 else stop_ns
    if len(samples):
        end = max(end, int(samples["t_ns"][-1]))  # what was under way when the sender stopped arrives later
    t_ns = np.concatenate(([begin], samples["t_ns"], [end])).astype(np.float64)
    received = np.concatenate(([0], samples["bytes_received"], [flow["received_bytes"]])).astype(np.float64)
    return _Curve(t_ns, received)


def _rates(curve: _Curve, edges_ns: Floats) -> Floats:
    """Bit/s between each edge and the next."""
    received = np.interp(edges_ns, curve.t_ns, curve.received_bytes)
    return np.diff(received) * 8 / (np.diff(edges_ns) / 1e9)


@dataclass(frozen=True, slots=True)
class Series:
    """What a figure shows of a run: means over equal intervals; NaN where nothing was measured."""

    t_s: Floats
    """[intervals], their middles."""
    queue_bytes: Floats
    """[intervals], of the port `queue_port`."""
    goodput_bps: Floats
    """[flows, intervals]."""
    srtt_us: Floats
    """[flows, intervals]."""
    jain: Floats
    """[intervals], over the flows under way in the whole interval."""
    queue_port: str | None
    k_bytes: int | None
    """The step that marks at that port; None: it has none."""


def series(tables: Tables, duration_ns: int, window: Window, intervals: int = 200) -> Series:
    """The run in equal intervals from 0 to its duration; the port is the window's bottleneck."""
    edges = np.linspace(0, duration_ns, intervals + 1)
    row = bottleneck_port(tables, window)
    goodput = np.array([_rates(curve, edges) for curve in _received_curves(tables, duration_ns)]).reshape(-1, intervals)
    port = {} if row is None else tables.ports[row]
    return Series(
        t_s=(edges[:-1] + edges[1:]) / 2e9,
        queue_bytes=_queue_means(tables, row, edges),
        goodput_bps=goodput,
        srtt_us=_srtt_means(tables, edges),
        jain=_jain_series(tables.flows, goodput, edges),
        queue_port=port.get("name"),
        k_bytes=port.get("k_bytes"),
    )


def _queue_means(tables: Tables, row: int | None, edges: Floats) -> Floats:
    """Mean backlog of a port in each interval."""
    mine = tables.queues[tables.queues["port"] == (0 if row is None else row)]
    return _means(mine["t_ns"], mine["backlog_bytes"], edges)


def _srtt_means(tables: Tables, edges: Floats) -> Floats:
    """Mean srtt of each flow in each interval."""
    measured = tables.tcp[tables.tcp["srtt_us"] > 0]
    parts = _samples_by_flow(measured, tables.flows)
    return np.array([_means(part["t_ns"], part["srtt_us"], edges) for part in parts]).reshape(-1, len(edges) - 1)


def _means(t_ns: npt.NDArray[np.int64], values: npt.NDArray[Any], edges: Floats) -> Floats:
    """Mean of the values in each interval [edge, next edge)."""
    bins = np.searchsorted(edges, t_ns, side="right") - 1
    inside = (bins >= 0) & (bins < len(edges) - 1)
    counts = np.bincount(bins[inside], minlength=len(edges) - 1)
    sums = np.bincount(bins[inside], weights=values[inside].astype(np.float64), minlength=len(edges) - 1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _jain_series(flows: Records, goodput: Floats, edges: Floats) -> Floats:
    """Jain's index in each interval."""
    found = np.full(len(edges) - 1, np.nan)
    for each in range(len(found)):
        active = _active_throughout(flows, Window(int(edges[each]), int(edges[each + 1])))
        index = jain(goodput[active, each])
        found[each] = np.nan if index is None else index
    return found
