# SPDX-License-Identifier: Apache-2.0
"""Turns the measurements of a run into the numbers that it reports.

They are summary.json, and tables of ports and of flows (docs/results.md). This module gives the metrics, which know tables only,
the facts of the experiment: its routes, its windows, and the ideal completion times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.units import ETHERNET_BYTES
from dc_gym.results import metrics
from dc_gym.results.metrics import Context, JobFacts, LinkLosses, Routes, Window
from dc_gym.results.metrics.fairness import PAYLOAD_SHARE, tcp_share, udp_share
from dc_gym.results.metrics.ideal import Ideal
from dc_gym.results.metrics.queue_times import QueueTimes
from dc_gym.results.tables import TableSource
from dc_gym.run.plan.jobs import placed_jobs
from dc_gym.spec import Spec
from dc_gym.traffic.flows import NIC_TRANSPORTS
from dc_gym.traffic.schedule import Schedule

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The numbers derived from a run's tables."""

    summary: dict[str, Any]
    ports: Columns
    """Columns of port_metrics.parquet."""
    flows: Columns
    """Columns of flow_metrics.parquet."""


def analyse(
    spec: Spec,
    schedule: Schedule,
    tables: TableSource,
    ideal: Ideal | None = None,
    links: LinkLosses | None = None,
    times: Mapping[str, QueueTimes] | None = None,
) -> Analysis:
    """Returns all numbers of a run. `times`: for how long the queues of ports were how long, by port."""
    context = replace(context_of(spec, schedule, ideal), links=links)
    extra = {} if ideal is None else _against_ideal(tables, ideal)
    ports, pauses = metrics.port_table(tables, context.window, times), metrics.pauses_of(tables, context)
    return Analysis(
        summary=metrics.summarize(tables, context, ports, pauses),
        ports=ports | ({} if links is None else {"lost": np.array(links.lost, np.uint64)}),
        flows=metrics.flow_table(tables, context, extra, pauses),
    )


def recorded(schedule: Schedule, tables: TableSource) -> Schedule:
    """Returns the flows of the schedule that are in the table of flows, in its order.

    Repetitions that never started are not in it.
    """
    return Schedule(tuple(schedule.flows[number] for number in tables.flows["flow"]))


def context_of(spec: Spec, schedule: Schedule, ideal: Ideal | None = None) -> Context:
    """Returns the facts about a run that its metrics need."""
    least = spec.monitor.tcp_interval_ns
    interval = spec.metrics.rate_interval_ns or spec.time.duration_ns // metrics.INTERVALS
    return Context(
        window=Window.of(spec),
        cutoff_ns=spec.metrics.cutoff_ns,
        routes=None if spec.topology.balances or spec.sprays else routes_of(schedule, payload_share(spec, schedule)),
        class_of_dscp={dscp: number for number, rule in enumerate(spec.topology.classes or ()) for dscp in rule.dscp},
        port_classes=spec.topology.class_names,
        ideal_ns=None if ideal is None else ideal.fct_ns,
        ideal_error=None if ideal is None else ideal.error,
        rate_interval_ns=-(-max(interval, least) // least) * least,
        within=spec.metrics.within_percent / 100,
        jobs={
            placed.number: JobFacts(placed.job.graph.iterations, placed.job.graph.bus_bytes) for placed in placed_jobs(schedule)
        },
    )


def payload_share(spec: Spec, schedule: Schedule) -> float | npt.NDArray[np.float64]:
    """Returns the payload's share of a full frame as a cable counts it; beside RDMA, the share of each flow."""
    payload = spec.payload_bytes
    of_rdma = payload / (payload + spec.frame_headers_bytes)
    transports = [str(flow.request.transport) for flow in schedule.flows]
    mtu_bytes = spec.topology.frame_bytes - ETHERNET_BYTES
    if not spec.rdma or set(transports) <= set(NIC_TRANSPORTS):
        return of_rdma if spec.rdma else tcp_share(mtu_bytes)
    shares = dict.fromkeys(NIC_TRANSPORTS, of_rdma) | {"tcp": tcp_share(mtu_bytes), "udp": udp_share(mtu_bytes)}
    return np.array([shares[transport] for transport in transports])


def routes_of(schedule: Schedule, payload_share: float | npt.NDArray[np.float64] = PAYLOAD_SHARE) -> Routes:
    """Returns the ports that each flow crosses, and the rate of its application."""
    paths: Sequence[tuple[int, ...]] = [flow.rows for flow in schedule.flows]
    rates = np.array([flow.request.rate_bps for flow in schedule.flows], np.float64)
    return Routes(paths, np.where(rates > 0, rates, np.inf), payload_share)


def _against_ideal(tables: TableSource, ideal: Ideal) -> dict[str, npt.NDArray[Any]]:
    fct = np.where(tables.flows["fct_ns"] >= 0, tables.flows["fct_ns"], np.nan)
    return {
        "path_class": ideal.path_class,
        "ideal_ns": ideal.fct_ns,
        "closed_form_ns": ideal.closed_form_ns,
        "slowdown": fct / ideal.fct_ns,
    }
