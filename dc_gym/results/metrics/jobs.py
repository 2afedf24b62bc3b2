# SPDX-License-Identifier: Apache-2.0
"""Metrics of jobs: how long their iterations take, and for how long ranks compute nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dc_gym.results.tables import Records, TableSource

NAMES = ("job_s", "job_iterations", "iteration_mean_s", "iteration_max_s", "bus_bandwidth_bps", "exposed_share")


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The knowledge about a job beside its tables."""

    iterations: int
    bus_bytes: float
    """Bytes of an iteration that bus bandwidth counts; 0: it is not known."""


def job_metrics(tables: TableSource, jobs: Mapping[int, JobFacts]) -> dict[str, Any]:
    """Returns the entries of summary.json: the first job's, and a list with all; nothing if there is no job."""
    if not jobs:
        return {}
    ranks = tables.table("ranks")
    values = [_values(ranks[ranks["job"] == number], facts) for number, facts in jobs.items()]
    return values[0] | {"jobs": [{"job": number} | entry for number, entry in zip(jobs, values, strict=True)]}


def _values(ranks: Records, facts: JobFacts) -> dict[str, Any]:
    first = ranks[ranks["rank"] == 0]
    lengths_ns = first["end_ns"] - first["start_ns"]
    count = len(first)
    if not count:
        return dict.fromkeys(NAMES) | {"job_iterations": 0}
    computed_ns = np.array([ranks["calc_ns"][ranks["rep"] == rep].max() for rep in first["rep"]])
    exchanging_ns = int((lengths_ns - computed_ns).sum())
    exposed_ns = int((ranks["transfer_ns"] + ranks["wait_ns"]).sum())
    all_ns = int((ranks["end_ns"] - ranks["start_ns"]).sum())
    bus_bps = facts.bus_bytes * count * 8e9 / exchanging_ns if facts.bus_bytes and exchanging_ns else None
    values = (
        int(first["end_ns"].max() - first["start_ns"].min()) / 1e9 if count == facts.iterations else None,
        count,
        float(lengths_ns.mean()) / 1e9,
        int(lengths_ns.max()) / 1e9,
        bus_bps,
        exposed_ns / all_ns if all_ns else None,
    )
    return dict(zip(NAMES, values, strict=True))
