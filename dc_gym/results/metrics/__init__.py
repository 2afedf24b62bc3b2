# SPDX-License-Identifier: Apache-2.0
"""Computes the numbers of summary.json and the series of the figures from a run's tables.

All functions are pure; docs/results.md has the formulas. Times are ns relative to t0; rates are bit/s of virtual time. A value
that cannot be computed (no flow, no sample) is None, never a made-up 0. Bytes are of two kinds: frame bytes at a port
(utilization, queues) and payload bytes at an application (goodput). All functions work on whole columns; 100,000 flows take
seconds.
"""

from __future__ import annotations

from dc_gym.results.metrics.convergence import Routes
from dc_gym.results.metrics.curves import flow_goodput_bps
from dc_gym.results.metrics.fairness import jain, max_min
from dc_gym.results.metrics.fct import Sized
from dc_gym.results.metrics.jobs import JobFacts
from dc_gym.results.metrics.links import LinkLosses
from dc_gym.results.metrics.queues import bottleneck_port, port_table
from dc_gym.results.metrics.series import MOST_LINES, Series, series
from dc_gym.results.metrics.summary import INTERVALS, Context, flow_table, pauses_of, summarize
from dc_gym.results.metrics.window import Window

__all__ = [
    "INTERVALS",
    "MOST_LINES",
    "Context",
    "JobFacts",
    "LinkLosses",
    "Routes",
    "Series",
    "Sized",
    "Window",
    "bottleneck_port",
    "flow_goodput_bps",
    "flow_table",
    "jain",
    "max_min",
    "pauses_of",
    "port_table",
    "series",
    "summarize",
]
