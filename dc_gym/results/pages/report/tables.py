# SPDX-License-Identifier: Apache-2.0
"""The tables of a report as plain data: metrics with intervals, paired differences, slowdown by size, certificates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dc_gym.base.stats import Estimate, estimate, paired
from dc_gym.results import calibration
from dc_gym.results.figures.slowdown import pooled
from dc_gym.results.metrics import Sized, classes
from dc_gym.results.metrics.summary import has_idle_time
from dc_gym.results.pages.numbers import (
    COMPLETION,
    METRICS,
    NOTHING,
    Metric,
    amount,
    plain,
    quantity,
    scale_of,
    size,
    with_interval,
)
from dc_gym.results.pages.report.measured import RunData
from dc_gym.results.pages.report.runs import Group, ReportedRun, Scenario

BIN_TITLES = {
    "pias": "fixed sizes (PIAS)",
    "hpcc": "20 bins of equally many flows (HPCC)",
    "homa": "10 bins of equally many flows (Homa)",
}
PERCENTILES = ("p50", "p95", "p99", "p999")


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell's text. `kind` is its CSS class."""

    text: str
    kind: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with rows in sections. The first column of a row is its head."""

    columns: tuple[str, ...]
    sections: tuple[tuple[str, tuple[tuple[str, tuple[TableCell, ...]], ...]], ...]

    @property
    def rows(self) -> int:
        return sum(len(rows) for _, rows in self.sections)


def metrics_table(scenario: Scenario) -> ReportTable:
    """Returns mean and 95 % interval over seeds, one column for each controller. A metric that no run has is left out."""
    columns = tuple(f"{group.label} (n\u00a0=\u00a0{len(group.runs)})" for group in scenario.groups)
    sections = [
        (title, tuple(filter(None, (_metric_row(metric, scenario.groups) for metric in rows))))
        for title, rows in _sections(scenario)
    ]
    return ReportTable(("Metric", "Unit", *columns), tuple((title, rows) for title, rows in sections if rows))


def differences_table(scenario: Scenario, baseline: Group) -> ReportTable | None:
    """Returns each controller minus the baseline, paired by seed; None if no seeds can be paired."""
    others = [group for group in scenario.groups if group is not baseline]
    pairs = {group.label: len(set(group.seeds) & set(baseline.seeds)) for group in others}
    if not any(pairs.values()):
        return None
    columns = tuple(f"{label} \u2212 {baseline.label} ({count} pairs)" for label, count in pairs.items())
    sections = [
        (title, tuple(filter(None, (_difference_row(metric, baseline, others) for metric in rows))))
        for title, rows in _sections(scenario)
    ]
    return ReportTable(("Metric", "Unit", *columns), tuple((title, rows) for title, rows in sections if rows))


def slowdown_table(scenario: Scenario, measured: Mapping[str, RunData], bins: str) -> ReportTable | None:
    """Returns percentiles of slowdown by size, with all runs of a controller taken together; None if no flow has a slowdown."""
    sections = []
    for group in scenario.groups:
        sized = together(group, measured)
        if np.isfinite(sized.slowdown).any():
            sections.append((group.label, tuple(_bin_row(size_bin) for size_bin in sized.bins(bins))))
    if not sections:
        return None
    return ReportTable(("Flow size", "Flows", "Unfinished", "p50", "p95", "p99", "p99.9"), tuple(sections))


def groups_table(scenario: Scenario, measured: Mapping[str, RunData]) -> ReportTable | None:
    """Returns completion times by the flows' purpose, with all runs of a controller taken together; None if all flows have the
    same purpose."""
    groups = [(group.label, together(group, measured).groups()) for group in scenario.groups]
    if len({row["group"] for _, rows in groups for row in rows}) < 2:
        return None
    columns = ("Flows for", "Flows", "Unfinished", "FCT p50", "FCT p99", "Slowdown p50", "p95", "p99")
    return ReportTable(columns, tuple((label, tuple(map(_group_row, rows))) for label, rows in groups if rows))


def classes_table(scenario: Scenario) -> ReportTable | None:
    """Returns the metrics of each class of flows, the mean over a controller's runs; None if no run has several classes."""
    sections = []
    for group in scenario.groups:
        by_label: dict[str, list[Mapping[str, Any]]] = {}
        for class_entry in (entry for run in group.runs for entry in run.result.summary.get("classes") or ()):
            by_label.setdefault(classes.label(class_entry), []).append(class_entry)
        if by_label:
            sections.append((group.label, tuple(_class_row(name, entries) for name, entries in by_label.items())))
    columns = ("Class", "Flows", "Goodput", "Share", "Jain", "RTT", "Resent", "FCT p50", "FCT p99", "Slowdown p50", "p99")
    return ReportTable(columns, tuple(sections)) if sections else None


def _class_row(name: str, entries: Sequence[Mapping[str, Any]]) -> tuple[str, tuple[TableCell, ...]]:
    """Returns the row of a class from its entries in the summaries of several runs."""

    def mean(key: str) -> float | None:
        known = [entry[key] for entry in entries if entry[key] is not None]
        return float(np.mean(known)) if known else None

    texts = [amount(mean(key), unit) for key, unit in (("goodput_bps", "bps"), ("goodput_share", "share"))]
    texts += [_plain(mean("jain")), amount(mean("mean_srtt_us"), "us"), _plain(mean("retransmits"))]
    texts += [_time(mean(key)) for key in ("fct_p50_s", "fct_p99_s")]
    texts += [_plain(mean(key)) for key in ("slowdown_p50", "slowdown_p99")]
    return name, (TableCell(f"{mean('flows') or 0:,.0f}"), *map(TableCell, texts))


def _plain(value: float | None) -> str:
    return NOTHING if value is None else plain(value, 3)


def together(group: Group, measured: Mapping[str, RunData]) -> Sized:
    """Returns the counted flows of all runs of a controller."""
    return pooled([measured[run.number].sized for run in group.runs])


def ports_table(run: ReportedRun, most: int = 12) -> ReportTable:
    """Returns the ports of a run with the longest queues."""
    table = run.result.derived("port_metrics")
    if table is None:
        return ReportTable((), ())
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    longest = [mean if mean == mean else -1 for mean in columns["mean_queue_bytes"]]  # unknown ones come last
    order = sorted(range(len(longest)), key=lambda row: (-longest[row], row))[:most]
    rows = tuple((columns["port"][row], tuple(map(TableCell, _port_cells(columns, row)))) for row in order)
    lost = ("Lost on its link",) if any(columns.get("lost", ())) else ()
    head = ("Port", "Side", "Utilization", "Mean queue", "p99", "Max", "p99 delay", "Drops", "Marks", *lost)
    return ReportTable(head, (("", rows),) if rows else ())


def certificate(run: ReportedRun) -> dict[str, Any]:
    """Returns the facts about a run that are needed to repeat it, and to judge whether it can be trusted."""
    manifest = run.result.manifest
    environment = dict(manifest.get("environment", {}))
    ideal = manifest.get("ideal") or {}
    return {
        "number": run.number,
        "path": str(run.result.path),
        "fit": run.result.fit,
        "reasons": list(manifest.get("unfit_reasons", ())),
        "facts": [
            ("Seed", run.seed),
            ("Ground, clock", f"{manifest.get('ground', '?')}, {manifest.get('clock', '?')} time"),
            ("Digest", run.result.digest),
            ("Fingerprint", manifest.get("fingerprint", "?")),
            *((name.capitalize(), value) for name, value in environment.items()),
            ("dcgym", manifest.get("dcgym", "?")),
            ("Made", manifest.get("created", "?")),
            ("Time", _times(manifest)),
            *([("Ideal completion times", _ideal_words(ideal))] if ideal else []),
        ],
        "spec": json.dumps(run.spec, indent=1, ensure_ascii=False),
        "conservation": _conservation(manifest.get("conservation") or {}),
        "calibration": _calibration(manifest.get("calibration") or []),
    }


def _sections(scenario: Scenario) -> list[tuple[str, tuple[Metric, ...]]]:
    """Returns the sections of metrics that apply: no completion times without flow sizes, no loss where none was configured.

    With idle time between flows, completion comes first, and goodput is measured over the active time. Without, the two are
    alike.
    """
    idle = any(has_idle_time(run.result.summary) for group in scenario.groups for run in group.runs)
    left_out = "goodput_bps" if idle else "active_goodput_bps"

    def occurs(name: str) -> bool:
        return any(value for group in scenario.groups for value in group.values(name).values())

    sections = {title: rows for title, rows in METRICS.items() if rows[0].name != "fct_flows" or occurs("fct_flows")}
    ordered = sorted(sections, key=lambda title: title != COMPLETION) if idle else sections
    return [
        (title, tuple(row for row in sections[title] if row.name != left_out and (not row.seldom or occurs(row.name))))
        for title in ordered
    ]


def _metric_row(metric: Metric, groups: Sequence[Group]) -> tuple[str, tuple[TableCell, ...]] | None:
    estimates = [estimate(list(group.values(metric.name).values())) for group in groups]
    if not any(estimates):
        return None
    factor, unit = scale_of(metric.unit, [estimated.mean for estimated in estimates if estimated])
    cells = [_estimate_cell(estimated, factor, len(group.runs)) for estimated, group in zip(estimates, groups, strict=True)]
    return metric.label, (TableCell(unit, "unit"), *cells)


def _estimate_cell(estimated: Estimate | None, factor: float, runs: int) -> TableCell:
    if estimated is None:
        return TableCell(NOTHING)
    return TableCell(with_interval(estimated, factor), note="" if estimated.n == runs else f"n\u00a0=\u00a0{estimated.n}")


def _difference_row(metric: Metric, baseline: Group, others: Sequence[Group]) -> tuple[str, tuple[TableCell, ...]] | None:
    base = baseline.values(metric.name)
    differences = [paired(base, group.values(metric.name)) for group in others]
    if not any(differences):
        return None
    factor, unit = scale_of(metric.unit, [difference.mean for difference in differences if difference])
    pairs = [len(set(baseline.seeds) & set(group.seeds)) for group in others]
    cells = [_difference_cell(difference, metric, factor, count) for difference, count in zip(differences, pairs, strict=True)]
    return metric.label, (TableCell(unit, "unit"), *cells)


def _difference_cell(difference: Estimate | None, metric: Metric, factor: float, pairs: int) -> TableCell:
    """Returns a cell that is marked as better or worse only if the interval excludes 0."""
    if difference is None:
        return TableCell(NOTHING)
    if difference.mean == 0 and difference.half == 0:
        return TableCell("0", "equal")
    text, count_note = (
        with_interval(difference, factor, signed=True),
        "" if difference.n == pairs else f"n\u00a0=\u00a0{difference.n}",
    )
    if not difference.differs_from_0:
        return TableCell(text, "same" if difference.half is not None else "", count_note)
    if not metric.better:
        return TableCell(text, "other", count_note)
    return TableCell(text, "better" if (difference.mean > 0) == (metric.better > 0) else "worse", count_note)


def _bin_row(size_bin: Mapping[str, Any]) -> tuple[str, tuple[TableCell, ...]]:
    low, high = size(size_bin["from_bytes"]), size(size_bin["to_bytes"])
    numbers = [size_bin[f"slowdown_{name}"] for name in PERCENTILES]
    cells = [TableCell(NOTHING if number is None else plain(number, 3)) for number in numbers]
    return low if low == high else f"{low} \u2013 {high}", (
        TableCell(f"{size_bin['flows']:,}"),
        _unfinished(size_bin["unfinished"]),
        *cells,
    )


def _group_row(group: Mapping[str, Any]) -> tuple[str, tuple[TableCell, ...]]:
    slowdowns = [group[f"slowdown_{name}"] for name in ("p50", "p95", "p99")]
    slowdown_cells = [TableCell(NOTHING if number is None else plain(number, 3)) for number in slowdowns]
    times = [TableCell(_time(group[f"fct_{name}_s"])) for name in ("p50", "p99")]
    return group["group"], (TableCell(f"{group['flows']:,}"), _unfinished(group["unfinished"]), *times, *slowdown_cells)


def _unfinished(count: int) -> TableCell:
    return TableCell(f"{count:,}", "worse" if count else "")


def _time(seconds: float | None) -> str:
    return amount(seconds, "s")


def _port_cells(columns: Mapping[str, Sequence[Any]], row: int) -> list[str]:
    utilization = columns["utilization"][row]
    return [
        columns["side"][row],
        amount(utilization, "share"),
        *(size(columns[f"{name}_queue_bytes"][row]) for name in ("mean", "p99", "max")),
        _time(columns["p99_delay_s"][row]),
        f"{columns['drops'][row]:,}",
        f"{columns['marks'][row]:,}",
        *([f"{columns['lost'][row]:,}"] if any(columns.get("lost", ())) else []),
    ]


def _times(manifest: Mapping[str, Any]) -> str:
    wall = manifest.get("wall_s", {})
    total = sum(wall.values())
    virtual, traffic = float(manifest.get("virtual_s", 0)), wall.get("traffic", 0.0)
    return f"{amount(virtual, 's', 4)} of traffic; wall time {amount(total, 's')} in all, {amount(traffic, 's')} for the traffic"


def _ideal_words(ideal: Mapping[str, Any]) -> str:
    if ideal.get("method") != "measured":
        return f"not known: {ideal['why']}" if "why" in ideal else "closed form"
    rows = ideal.get("classes", [])
    error = max((row.get("error", 0.0) for row in rows), default=0.0)
    points = sum(row["points"] for row in rows)
    words = f"measured on the idle network: {points} sizes in {len(rows)} path class{'' if len(rows) == 1 else 'es'}"
    return words + (f", interpolated with an error of at most {plain(error * 100, 2)} %" if error else ", each size itself")


def _conservation(account: Mapping[str, int]) -> list[tuple[str, str]]:
    words = {
        "sent_by_hosts": "Sent by hosts",
        "received_by_hosts": "Received by hosts",
        "dropped_by_switches": "Dropped by switches' queues",
        "under_way": "Under way at the end",
        "lost_on_links": "Lost on links, as asked",
        "lost_elsewhere": "Lost elsewhere",
        "dropped_by_hosts": "Dropped by hosts' own queues, before",
        "cables_checked": "Cables checked",
        "switches_checked": "Switches checked",
    }
    return [(text, f"{account[name]:,}") for name, text in words.items() if name in account]


def _calibration(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str, str]]:
    """Returns one row for each quantity and requested value: the found value, the largest error and how it was measured, and the
    number of ports."""
    readings: dict[tuple[str, str, str], list[Any]] = {}
    for row in rows:
        for name in calibration.QUANTITIES:
            if name in row:
                readings.setdefault((name, json.dumps(row[name][0]), str(row.get("how", ""))), []).append(row[name][1])
    table_rows = []
    for (name, requested_text, how), read in readings.items():
        requested = json.loads(requested_text)
        pairs = [{name: [requested, value]} for value in read]
        error = calibration.worst(pairs, name)
        same = "0" if all(value == requested for value in read) else NOTHING if error is None else f"{plain(error * 100, 3)} %"
        table_rows.append((name, quantity(name, requested), _range(name, read), f"{same}, {how}", f"{len(read)}"))
    return table_rows


def _range(name: str, values: Sequence[Any]) -> str:
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values) and numbers and min(numbers) != max(numbers):
        return f"{quantity(name, min(numbers))} \u2026 {quantity(name, max(numbers))}"
    return ", ".join(dict.fromkeys(quantity(name, value) for value in values))
