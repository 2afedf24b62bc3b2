# SPDX-License-Identifier: Apache-2.0
"""How a report writes numbers: which metrics it shows, in which units, and means with as many digits as their intervals carry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dc_gym.stats import Estimate

MINUS, PLUS_MINUS = "\u2212", "\u00a0\u00b1\u00a0"
SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "bps": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")),
    "bytes": ((1e6, "MB"), (1e3, "kB"), (1, "B")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "\u00b5s")),
    "us": ((1e6, "s"), (1e3, "ms"), (1, "\u00b5s")),
    "share": ((1e-2, "%"),),
    "": ((1, ""),),
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table of metrics."""

    name: str
    label: str
    unit: str = ""
    better: int = 0
    """1: more is better, -1: less, 0: neither."""


METRICS = {
    "Throughput and links": (
        Metric("goodput_bps", "Goodput, all flows", "bps", 1),
        Metric("utilization", "Utilization of the busiest link", "share", 1),
        Metric("retransmits", "Retransmissions", "", -1),
        Metric("drop_ratio", "Frames dropped", "share", -1),
        Metric("mark_ratio", "Frames marked", "share"),
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
        Metric("maxmin_jain", "Jain's index of goodput / fair share", "", 1),
        Metric("maxmin_least", "Poorest flow / its fair share", "", 1),
        Metric("maxmin_total", "Carried / what max-min fairness would", "", 1),
        Metric("convergence_mean_s", "Convergence time, mean", "s", -1),
        Metric("convergence_never", "Epochs that did not converge", "", -1),
        Metric("reaction_p50_s", "Reaction time, median", "s", -1),
        Metric("reaction_never", "Flows that did not react", "", -1),
    ),
    "Flow completion": (
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
    """The factor and the unit in which the values read well: the one for their geometric mean."""
    logs = [math.log(abs(value)) for value in values if math.isfinite(value) and value]
    middle = math.exp(sum(logs) / len(logs)) if logs else 0.0
    return next((scale for scale in SCALES[unit] if middle >= scale[0] * (1 - 1e-9)), SCALES[unit][-1])


def plain(value: float, digits: int = 4) -> str:
    """So many significant digits, thousands apart, never an exponent."""
    if not math.isfinite(value):
        return "\u2013"
    if value == 0:
        return "0"
    return _fixed(value, max(0, digits - 1 - math.floor(math.log10(abs(value)))), strip=True)


def with_interval(estimate: Estimate, factor: float = 1, signed: bool = False) -> str:
    """Mean and half-width, to two digits of the latter; a lone value to four."""
    mean = estimate.mean / factor
    if estimate.half is None:
        return (("+" if mean > 0 else "") if signed else "") + plain(mean)
    half = estimate.half / factor
    if half == 0:
        return (("+" if mean > 0 else "") if signed else "") + plain(mean, 6) + f"{PLUS_MINUS}0"
    places = min(9, max(0, 1 - math.floor(math.log10(half))))
    sign = "+" if signed and mean > 0 else ""
    return f"{sign}{_fixed(mean, places)}{PLUS_MINUS}{_fixed(half, places)}"


def size(count_bytes: int) -> str:
    """A size to three digits: 1.45 kB."""
    factor, unit = scale_of("bytes", [count_bytes])
    return f"{plain(count_bytes / factor, 3)}\u00a0{unit}"


def quantity(name: str, value: Any) -> str:
    """A value of a port for the certificate."""
    if value is None:
        return "\u2013"
    if isinstance(value, str):
        return value
    units: Mapping[str, str] = {"rate_bps": "bit/s", "delay_ns": "ns", "buffer_bytes": "B", "k_bytes": "B"}
    return f"{plain(float(value), 12)}\u00a0{units.get(name, '')}".strip()


def _fixed(value: float, places: int, strip: bool = False) -> str:
    text = f"{abs(value):,.{places}f}"
    if strip and "." in text:
        text = text.rstrip("0").rstrip(".")
    return (MINUS if value < 0 and float(text.replace(",", "")) else "") + text
