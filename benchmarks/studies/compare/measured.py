# SPDX-License-Identifier: Apache-2.0
"""The metrics of a run in the comparison, and which of them each kind of traffic has.

All metrics come from summary.json, except the recovery time. That is computed from the long flows' rates: the time from the end
of the last short flow to the first of HOLD successive intervals in which the long flows together have RECOVERED of their rate
before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dc_gym.base.stats import Estimate, estimate, paired
from dc_gym.benchmarks.studies.compare.scenarios import CompareScenario
from dc_gym.metrics import Window, series
from dc_gym.metrics.convergence import HOLD
from dc_gym.pages.numbers import Metric
from dc_gym.records.results import Result
from dc_gym.spec import Spec, without_code

RECOVERED = 0.9
FEW_FLOWS = 1000
"""With fewer flows the 99th percentile rests on less than ten of them."""
INTERVALS = 200

GOODPUT = Metric("goodput_bps", "Goodput", "bps", 1)
DELAY = Metric("queueing_delay_s", "Queueing delay", "s", -1)
P99_DELAY = Metric("p99_queueing_delay_s", "Queueing delay, p99", "s", -1)
LOSS = Metric("drop_ratio", "Frames dropped", "share", -1)
FAIRNESS = Metric("jain", "Jain's index", "", 1)
REACTION = Metric("reaction_p50_s", "Reaction time", "s", -1)
RECOVERY = Metric("recovery_s", "Recovery time", "s", -1)
SHORT_FCT = Metric("fct_mean_s", "Short flows, mean FCT", "s", -1)
SLOWDOWN = Metric("slowdown_mean", "Slowdown, mean", "", -1)
P99_SLOWDOWN = Metric("slowdown_p99", "Slowdown, p99", "", -1)
UNFINISHED = Metric("fct_unfinished", "Flows unfinished", "", -1)
P99_OF_FLOWS = ("slowdown_p99",)

ALWAYS = (GOODPUT, DELAY, P99_DELAY, LOSS)
OF_TRAFFIC: Mapping[str, tuple[Metric, ...]] = {
    "many_to_one": (*ALWAYS, FAIRNESS, REACTION),
    "all_to_all": (*ALWAYS, FAIRNESS, REACTION),
    "long_short": (*ALWAYS, SHORT_FCT, RECOVERY),
    "poisson": (*ALWAYS, SLOWDOWN, P99_SLOWDOWN, UNFINISHED),
}
"""Metrics by workload.kind. Reaction times are to the start of all flows (docs/results.md)."""


@dataclass(frozen=True, slots=True)
class Competitor:
    """One controller in one scenario."""

    name: str
    label: str
    color: str
    marker: str
    numbers: Mapping[str, Mapping[int, float]]
    """Values by metric and seed."""
    flows: int
    """Number of flows counted in completion times, in the seed that has fewest."""

    def estimate(self, metric: str) -> Estimate | None:
        return estimate(list(self.numbers.get(metric, {}).values()))


@dataclass(frozen=True, slots=True)
class Compared:
    """One scenario, with all controllers on the same traffic."""

    scenario: CompareScenario
    entries: Sequence[Competitor]
    unfit: Sequence[str]
    """Text on each run that does not count."""
    spec: Spec
    """The spec of one of its runs."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that at least one entry has."""
        asked = OF_TRAFFIC[self.scenario.traffic.workload["kind"]]
        return tuple(metric for metric in asked if any(entry.estimate(metric.name) for entry in self.entries))

    def best(self, metric: Metric) -> frozenset[str]:
        """Returns the entries that no other beats: their paired difference to the entry with the best mean includes 0."""
        known = {entry.name: found for entry in self.entries if (found := entry.estimate(metric.name)) is not None}
        if len(known) < 2 or not metric.better:
            return frozenset()
        leader = max(known, key=lambda name: metric.better * known[name].mean)
        values = {entry.name: entry.numbers[metric.name] for entry in self.entries if entry.name in known}
        equals = {name for name in known if not _differs(values[leader], values[name])}
        return frozenset(equals) if len(equals) < len(known) else frozenset()


def _differs(a: Mapping[int, float], b: Mapping[int, float]) -> bool:
    found = paired(a, b)
    return found is not None and found.differs_from_0


def numbers(result: Result, scenario: CompareScenario) -> dict[str, float]:
    """Returns the values of one run, by metric; metrics that were not measured are left out."""
    wanted = {metric.name for metric in OF_TRAFFIC[scenario.traffic.workload["kind"]]}
    found = {name: result.summary.get(name) for name in wanted}
    plain = {name: float(value) for name, value in found.items() if isinstance(value, int | float) and math.isfinite(value)}
    recovered = recovery_s(result) if RECOVERY.name in wanted else None
    return plain | ({} if recovered is None else {RECOVERY.name: recovered})


def counted_flows(result: Result) -> int:
    return int(result.summary.get("fct_flows") or 0)


def recovery_s(result: Result) -> float | None:
    """Returns the recovery time; None if the short flows have not ended or the long ones never had any goodput."""
    flows, duration_ns = result.records("flows"), without_code(result.manifest["spec"], result.path).time.duration_ns
    short = flows["size_bytes"] > 0
    ends = flows["end_ns"][short]
    if not short.any() or (ends < 0).any() or (ends >= duration_ns).any():
        return None
    drawn = series(result.stored, duration_ns, Window(0, duration_ns), INTERVALS)
    long_bps = np.nansum(drawn.goodput_bps[~short[: len(drawn.goodput_bps)]], axis=0)
    began_s, ended_s = float(flows["start_ns"][short].min()) / 1e9, float(ends.max()) / 1e9
    before = long_bps[(drawn.t_s > began_s / 2) & (drawn.t_s < began_s)]
    if not len(before) or before.mean() <= 0:
        return None
    there = (long_bps >= RECOVERED * before.mean()) & (drawn.t_s >= ended_s)
    held = np.lib.stride_tricks.sliding_window_view(there, HOLD).all(axis=1)
    first = int(np.argmax(held))
    return float(drawn.t_s[first] - ended_s) if held.any() else None
