# SPDX-License-Identifier: Apache-2.0
"""Computes summary.json and the table of flows from a run's tables and from the constants of its network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.tally import Tally, percentile
from dc_gym.results.metrics.classes import class_metrics, dscps
from dc_gym.results.metrics.convergence import Routes, convergence_metrics, epochs
from dc_gym.results.metrics.curves import flow_goodput_bps
from dc_gym.results.metrics.fairness import fairness_against, fairness_of
from dc_gym.results.metrics.fct import counted, fct_metrics
from dc_gym.results.metrics.jobs import JobFacts, job_metrics
from dc_gym.results.metrics.links import LinkLosses, loss_metrics
from dc_gym.results.metrics.nics import nic_metrics
from dc_gym.results.metrics.pauses import Pauses, find_pauses, pause_metrics
from dc_gym.results.metrics.queues import class_drops, port_table, queue_metrics
from dc_gym.results.metrics.window import FAILED, Window, active_throughout
from dc_gym.results.tables import Records, TableSource

Floats = npt.NDArray[np.float64]
NONE_US = 2**32 - 1  # a bound of the column min_rtt_us
RTT_PERCENTILES = {"p50": 50, "p99": 99}
IDLE_SHARE = 0.01
"""A window has idle time if no flow was active for more than this share of it."""
MOST_LISTED = 1000  # most flows whose goodput summary.json lists; the table of flows has all
INTERVALS = 200  # rate intervals in a run by default

FLOW_COLUMNS: Mapping[str, str] = {
    "flow": "as in `flows`",
    "goodput_bps": "payload received in the window x 8 / window",
    "counted": "true for a flow over TCP or RDMA with a size that started in `[time.warmup, metrics.cutoff)`",
}
"""The columns of the table of flows, with their meanings in Markdown."""
IDEAL_COLUMNS: Mapping[str, str] = {
    "path_class": "row in `ideal.classes` of the manifest (`class`); -1: it has no ideal",
    "ideal_ns": "completion time alone on the idle network; NaN without",
    "closed_form_ns": "its closed form; NaN without",
    "slowdown": "`fct_ns` / `ideal_ns`; NaN if unfinished",
}
"""The further columns of a run with ideal times."""


@dataclass(frozen=True, slots=True)
class Context:
    """The knowledge about a run beside its tables. A value of None is unknown, and the metrics that depend on it are null."""

    window: Window
    cutoff_ns: int | None = None
    """Flows that start later do not count for completion times; None: the window's end."""
    routes: Routes | None = None
    class_of_dscp: Mapping[int, int] = field(default_factory=dict)
    """The classes to which ports assign packets; the first one has all other DSCPs."""
    port_classes: tuple[str, ...] = ()
    """The names of the classes that ports may have, by number."""
    ideal_ns: Floats | None = None
    """The FCT of each flow alone on the idle network; NaN: the flow has none."""
    ideal_error: float | None = None
    """The largest relative error found for the interpolated values of `ideal_ns`."""
    rate_interval_ns: int | None = None
    within: float = 0.2
    links: LinkLosses | None = None
    jobs: Mapping[int, JobFacts] = field(default_factory=dict)
    """The jobs by the numbers of their workloads."""

    @property
    def starts(self) -> Window:
        """The window of start times of the flows whose completion counts."""
        return Window(self.window.start_ns, self.window.stop_ns if self.cutoff_ns is None else self.cutoff_ns)


def summarize(
    tables: TableSource,
    context: Context | Window,
    ports: Mapping[str, npt.NDArray[Any]] | None = None,
    pauses: Pauses | None = None,
) -> dict[str, Any]:
    """Returns the contents of summary.json. `ports`, `pauses`: the table of ports and the pauses, if they are known already."""
    context = Context(context) if isinstance(context, Window) else context
    window = context.window
    goodput = flow_goodput_bps(tables, window)
    steady = _throughout(tables.flows, window)
    return (
        {"goodput_bps": float(goodput.sum())}
        | _while_active(tables.flows, window, float(goodput.sum()))
        | {"flow_goodput_bps": [float(flow_bps) for flow_bps in goodput] if len(goodput) <= MOST_LISTED else None}
        | queue_metrics(port_table(tables, window) if ports is None else ports)
        | {"class_drops": class_drops(tables, window, context.port_classes) if context.port_classes else None}
        | loss_metrics(context.links)
        | _rtt(tables, window)
        | fairness_of(goodput[steady])
        | _max_min(tables, context, goodput, steady)
        | _convergence(tables, context)
        | fct_metrics(tables.flows, context.starts, context.ideal_ns)
        | {"ideal_error": context.ideal_error}
        | nic_metrics(tables, window)
        | {"classes": class_metrics(tables, window, context.starts, goodput, steady, context.ideal_ns)}
        | pause_metrics(pauses or pauses_of(tables, context))
        | job_metrics(tables, context.jobs)
    )


def has_idle_time(summary: Mapping[str, Any]) -> bool:
    """Returns True if flows with a size were active in a part of the window only, as in incasts. Then completion times come
    first, and the goodput is measured over the active time."""
    whole_bps, active_bps = summary.get("goodput_bps") or 0.0, summary.get("active_goodput_bps") or 0.0
    return bool(summary.get("fct_flows")) and whole_bps < (1 - IDLE_SHARE) * active_bps


def flow_table(
    tables: TableSource, context: Context, extra: dict[str, npt.NDArray[Any]] | None = None, pauses: Pauses | None = None
) -> dict[str, npt.NDArray[Any]]:
    """Returns one value for each flow: goodput in the window, whether its completion counts, its pauses, and `extra`.

    `extra` are ideal FCT, slowdown and path class. `pauses`: the run's pauses, if they are computed already.
    """
    pauses = pauses or pauses_of(tables, context)
    return {
        "flow": tables.flows["flow"],
        "goodput_bps": flow_goodput_bps(tables, context.window),
        "counted": counted(tables.flows, context.starts),
        **({} if pauses is None else {"paused_share": pauses.shares}),
        **(extra or {}),
    }


def pauses_of(tables: TableSource, context: Context) -> Pauses | None:
    """Returns the pauses of a run; None if its ports have no classes, or if paths are unknown."""
    if context.routes is None:
        return None
    classes = [context.class_of_dscp.get(dscp, 0) for dscp in dscps(tables).tolist()]
    return find_pauses(tables, context.routes.paths, classes, context.window.stop_ns)


def _throughout(flows: Records, window: Window) -> npt.NDArray[np.bool_]:
    return active_throughout(flows, window.start_ns, window.stop_ns)[:, 0]


def _while_active(flows: Records, window: Window, goodput_bps: float) -> dict[str, Any]:
    """Returns how long at least one flow was active in the window, and the goodput of that time."""
    used = flows[(flows["start_ns"] >= 0) & (flows["status"] != FAILED)]
    starts = np.clip(used["start_ns"], window.start_ns, window.stop_ns)
    ends = np.clip(np.where(used["end_ns"] >= 0, used["end_ns"], window.stop_ns), window.start_ns, window.stop_ns)
    order = np.argsort(starts, kind="stable")
    upto = np.maximum.accumulate(np.concatenate(([window.start_ns], ends[order])))
    active_ns = int(np.maximum(upto[1:] - np.maximum(upto[:-1], starts[order]), 0).sum())
    rate_bps = goodput_bps * window.length_ns / active_ns if active_ns else None
    return {"active_s": active_ns / 1e9, "active_goodput_bps": rate_bps}


def _rtt(tables: TableSource, window: Window) -> dict[str, Any]:
    """Returns RTT metrics over the samples in the window. A sample of 0 means that there is no estimate yet."""
    tally, least_us = Tally(), list[int]()
    for piece in tables.pieces("tcp", "t_ns", "srtt_us", "min_rtt_us"):
        known = piece["srtt_us"] > 0
        tally.add(piece["srtt_us"][window.holds(piece["t_ns"]) & known])
        least_us += piece["min_rtt_us"][known & (piece["min_rtt_us"] > 0)].min(initial=NONE_US, keepdims=True).tolist()
    srtt, counts, _ = tally.result()
    entries: dict[str, Any] = {"mean_srtt_us": int((srtt * counts).sum()) / int(counts.sum()) if len(srtt) else None}
    for name, percent in RTT_PERCENTILES.items():
        entries[f"{name}_srtt_us"] = percentile(srtt, counts, percent) if len(srtt) else None
    return entries | {"min_rtt_us": least if (least := min(least_us, default=NONE_US)) < NONE_US else None}


def _max_min(tables: TableSource, context: Context, goodput: Floats, steady: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Returns the max-min metrics of the flows that were active in the whole window."""
    rows = np.flatnonzero(steady)
    if context.routes is None or not len(rows):
        return fairness_against(np.empty(0), np.empty(0))
    return fairness_against(goodput[rows], context.routes.shares_bps(rows, tables))


def _convergence(tables: TableSource, context: Context) -> dict[str, Any]:
    if context.routes is None:
        return convergence_metrics(None)
    interval_ns = context.rate_interval_ns or max(1, context.window.stop_ns // INTERVALS)
    known_epochs = epochs(tables, context.window.stop_ns, context.routes, interval_ns, context.within)
    return convergence_metrics(known_epochs)


def told_of_equal_seeds(points: Iterable[Sequence[str]]) -> str:
    """Returns a line if runs that differ in their seeds alone have equal summaries; '' if none have. Their digests differ, since
    source ports are drawn.

    `points`: the summaries of the runs of each point, as text.
    """
    several = [summaries for summaries in points if len(summaries) > 1]
    equal = sum(len(set(summaries)) < len(summaries) for summaries in several)
    if not equal:
        return ""
    where = f"{equal} of {len(several)} points" if len(several) > 1 else "its point"
    return (
        f"equal runs (each number of summary.json) for several seeds at {where}: the seed changes nothing there;"
        " give workload.jitter, or one seed"
    )
