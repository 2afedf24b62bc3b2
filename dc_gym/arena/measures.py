# SPDX-License-Identifier: Apache-2.0
"""What an arena measures in a run, by the names of RFC 9743 (evaluation of congestion control) and RFC 1242, 2544 (BMWG).

A case names which of these it has. A value that a run does not have, such as the convergence time of flows that never converge,
is None, and ranks last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dc_gym.base.units import MTU_BYTES
from dc_gym.results.metrics.fairness import tcp_share
from dc_gym.results.metrics.window import Window
from dc_gym.results.results import Result
from dc_gym.spec import recorded
from dc_gym.study import Measure

DIGITS = 6


@dataclass(frozen=True, slots=True)
class ArenaMeasure:
    """A measure, which direction is better, and its formula."""

    measure: Measure
    formula: str
    more_is_better: bool = False

    @property
    def name(self) -> str:
        return self.measure.name


def _sized(name: str, which: str) -> ArenaMeasure:
    return ArenaMeasure(Measure(name, f"slowdown, {which}, p99"), "completion time over that alone on the idle network")


MEASURES = {
    measure.name: measure
    for measure in (
        ArenaMeasure(
            Measure("goodput_bps", "goodput (Mbit/s)", 1e-6),
            "payload of its flows received in the window",
            True,
        ),
        _sized("slowdown_small_p99", "up to 100 kB"),
        _sized("slowdown_medium_p99", "100 kB to 10 MB"),
        ArenaMeasure(Measure("fct_p99_s", "completion time, p99 (ms)", 1e3), "of flows that finished"),
        ArenaMeasure(Measure("unfinished", "flows unfinished"), "flows with a size that had not ended with the run"),
        ArenaMeasure(Measure("queueing_delay_p50_s", "queueing delay, p50 (us)", 1e6), "of the port with the longest mean queue"),
        ArenaMeasure(Measure("queueing_delay_p99_s", "queueing delay, p99 (us)", 1e6), "likewise"),
        ArenaMeasure(Measure("drops", "frames dropped"), "by queues, over all ports"),
        ArenaMeasure(Measure("pauses", "pauses"), "PAUSE frames' beginnings, over all ports and classes"),
        ArenaMeasure(Measure("fairness", "Jain's index", digits=3), "over flows that were active throughout", True),
        ArenaMeasure(Measure("convergence_s", "convergence time (ms)", 1e3), "from a change of flows to Jain's index 0.95"),
        ArenaMeasure(Measure("harm", "harm to others", digits=3), "1 - goodput of others / their share, at least 0"),
        ArenaMeasure(Measure("iteration_s", "time of an iteration (ms)", 1e3), "of the job, mean"),
    )
}
IN_SUMMARY = {
    "fct_p99_s": "fct_p99_s",
    "unfinished": "fct_unfinished",
    "drops": "drops",
    "pauses": "pauses",
    "fairness": "jain",
    "convergence_s": "convergence_mean_s",
    "iteration_s": "iteration_mean_s",
}
"""Measures that are a metric of summary.json, by its name there."""
BINS = {"slowdown_small_p99": range(100_001), "slowdown_medium_p99": range(100_001, 10_000_001)}
"""The sizes in bytes of a bin of PIAS."""


def measure(result: Result, names: tuple[str, ...], others: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns the measures of a run, rounded to six digits. `others`: as in the case."""
    return {name: rounded(_value(result, name, others)) for name in names}


def rounded(value: float | None) -> float | None:
    """Returns a number with six digits, an integer if it is one."""
    if value is None:
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short == int(short) else short


def _value(result: Result, name: str, others: Mapping[str, Any]) -> float | None:
    summary = result.summary
    if name == "goodput_bps":
        return float(summary["goodput_bps"]) - _of_transport(result, others.get("transport", ""))
    if name in IN_SUMMARY:
        return _number(summary.get(IN_SUMMARY[name]))
    if name in BINS:
        bins = summary.get("fct_bins_pias") or ()
        return next((_number(row["slowdown_p99"]) for row in bins if row["to_bytes"] in BINS[name]), None)
    if name == "harm":
        return harm(result, others)
    column = {"queueing_delay_p50_s": "p50_delay_s", "queueing_delay_p99_s": "p99_delay_s"}[name]
    return _of_port(result, str(summary["bottleneck_port"]), column)


def harm(result: Result, others: Mapping[str, Any]) -> float:
    """Returns the harm to others. Their goodput is that of a transport, or what left the port behind which their receiver is;
    their share is one of the rate of `port`."""
    port, window_s = str(others["port"]), _window_s(result)
    rate_bps = _of_port(result, port, "rate_bps") or 0.0
    if "transport" in others:
        goodput_bps = _of_transport(result, others["transport"])
    else:
        goodput_bps = (_of_port(result, others["behind"], "tx_bytes") or 0.0) * 8 / window_s * tcp_share(MTU_BYTES)
    return max(0.0, 1 - goodput_bps / (float(others["share"]) * rate_bps * tcp_share(MTU_BYTES)))


def _of_transport(result: Result, transport: str) -> float:
    """Returns the goodput of the flows of a transport, in a run with several."""
    return sum(float(entry["goodput_bps"]) for entry in result.summary.get("classes") or () if entry["transport"] == transport)


def _window_s(result: Result) -> float:
    return Window.of(recorded(result.manifest["spec"], str(result.path))).length_ns / 1e9


def _of_port(result: Result, port: str, column: str) -> float | None:
    table = result.derived("port_metrics")
    assert table is not None, "this version writes it"
    row = table["port"].to_pylist().index(port)
    value = float(table[column][row].as_py())
    return value if value == value else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
