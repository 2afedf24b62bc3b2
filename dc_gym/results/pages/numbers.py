# SPDX-License-Identifier: Apache-2.0
"""Formats the numbers of a report: which metrics it shows, in which units, and means with as many digits as their intervals
justify."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dc_gym.base import readable
from dc_gym.base.stats import Estimate

NOTHING, MINUS, PLUS_MINUS, NO_BREAK = "\u2013", "\u2212", "\u00a0\u00b1\u00a0", "\u00a0"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table of metrics."""

    name: str
    label: str
    unit: str = ""
    better: int = 0
    """1: more is better; -1: less is better; 0: neither."""
    seldom: bool = False
    """True if the metric is left out when it is 0 in every run."""


COMPLETION = "Flow completion"
METRICS = {
    "Agent": (Metric("return", "Return: the sum of rewards", "", 1),),
    "Throughput and links": (
        Metric("goodput_bps", "Goodput, all flows", "bps", 1),
        Metric("active_goodput_bps", "Goodput while flows were active", "bps", 1),
        Metric("utilization", "Utilization of the busiest link", "share", 1),
        Metric("retransmits", "Retransmissions", "", -1),
        Metric("drop_ratio", "Frames dropped", "share", -1),
        Metric("mark_ratio", "Frames marked", "share"),
        Metric("loss_ratio", "Frames lost on links, as asked", "share", seldom=True),
    ),
    "Queues and delay": (
        Metric("switch_mean_queue_bytes", "Longest switch queue, mean", "bytes", -1),
        Metric("switch_p99_queue_bytes", "\u2026 99th percentile", "bytes", -1),
        Metric("switch_max_queue_bytes", "\u2026 maximum", "bytes", -1),
        Metric("host_mean_queue_bytes", "Longest host queue, mean", "bytes", -1),
        Metric("host_p99_queue_bytes", "\u2026 99th percentile", "bytes", -1),
        Metric("queueing_delay_s", "Queueing delay at the bottleneck, mean", "s", -1),
        Metric("p99_queueing_delay_s", "\u2026 99th percentile", "s", -1),
        Metric("mean_srtt_us", "Smoothed RTT, mean", "us", -1),
        Metric("p99_srtt_us", "\u2026 99th percentile", "us", -1),
    ),
    "Fairness and convergence": (
        Metric("jain", "Jain's index of goodput", "", 1),
        Metric("jain_flows", "\u2026 flows that it counts"),
        Metric("maxmin_jain", "Jain's index of goodput / fair share", "", 1),
        Metric("maxmin_least", "Poorest flow / its fair share", "", 1),
        Metric("maxmin_total", "Carried / what max-min fairness would", "", 1),
        Metric("convergence_mean_s", "Convergence time, mean", "s", -1),
        Metric("convergence_never", "Epochs that did not converge", "", -1),
        Metric("reaction_p50_s", "Reaction time, median", "s", -1),
        Metric("reaction_never", "Flows that did not react", "", -1),
    ),
    "NICs": (
        Metric("nic_decision_rate", "Decisions a flow and second"),
        Metric("nic_probe_share", "Bytes of probes / those of data", "share", -1),
        Metric("nic_resent_share", "Frames sent again", "share", -1),
        Metric("nic_cnps", "CNPs", "", -1),
        Metric("nic_nacks", "NACKs", "", -1),
        Metric("nic_timeouts", "Timeouts", "", -1),
        Metric("nic_broken_messages", "Broken messages", "", -1, seldom=True),
    ),
    COMPLETION: (
        Metric("fct_flows", "Flows counted"),
        Metric("fct_unfinished", "\u2026 unfinished at the end", "", -1),
        Metric("fct_mean_s", "Completion time, mean", "s", -1),
        Metric("fct_p99_s", "\u2026 99th percentile", "s", -1),
        Metric("slowdown_mean", "Slowdown, mean", "", -1),
        Metric("slowdown_p50", "\u2026 median", "", -1),
        Metric("slowdown_p95", "\u2026 95th percentile", "", -1),
        Metric("slowdown_p99", "\u2026 99th percentile", "", -1),
        Metric("slowdown_p999", "\u2026 99.9th percentile", "", -1),
    ),
}


def scale_of(unit: str, values: Iterable[float]) -> tuple[float, str]:
    """Returns a factor and a unit that suit the values, as a page writes the unit."""
    scale = readable.scale_of(unit, values)
    return scale.factor, readable.typeset(scale.unit)


def plain(value: float, digits: int = 4) -> str:
    """Returns a number with this many significant digits and separated thousands, never with an exponent."""
    return readable.number(value, digits, MINUS) if math.isfinite(value) else NOTHING


def with_interval(estimate: Estimate, factor: float = 1, signed: bool = False) -> str:
    """Returns mean and half-width as text, to two digits of the half-width; a single value, and a few, to four digits."""
    if estimate.few:
        signs = ("+" if signed and value > 0 else "" for value in estimate.values)
        return ", ".join(sign + plain(value / factor) for sign, value in zip(signs, estimate.values, strict=True))
    half = None if estimate.half is None else estimate.half / factor
    return readable.with_interval(estimate.mean / factor, half, signed=signed, minus=MINUS, plus_minus=PLUS_MINUS)


def amount(value: float | None, family: str, digits: int = 3) -> str:
    """Returns a value, given in base units, as text with a suitable unit: 1.45 kB."""
    if value is None or not math.isfinite(value):
        return NOTHING
    number, _, unit = readable.quantity(value, family, digits).partition(" ")
    return f"{number.replace('-', MINUS)}{NO_BREAK}{readable.typeset(unit)}".strip(NO_BREAK)


def size(count_bytes: float) -> str:
    """Returns a size to three digits: 1.45 kB."""
    return amount(count_bytes, "bytes")


def quantity(name: str, value: Any) -> str:
    """Returns a value of a port for the certificate with all digits, because it is compared with the value found."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    units: Mapping[str, str] = {"rate_bps": "bit/s", "delay_ns": "ns", "buffer_bytes": "B", "k_bytes": "B"}
    return f"{plain(float(value), 12)}{NO_BREAK}{units.get(name, '')}".strip()
