# SPDX-License-Identifier: Apache-2.0
"""Writes the page of the comparison, one self-contained HTML file, its first figure as overview.png, and table.csv.

The table has every number of every seed in SI units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from dc_gym.base.files import csv_bytes, put
from dc_gym.base.units import format_time
from dc_gym.benchmarks.studies.compare import drawing
from dc_gym.benchmarks.studies.compare.measured import FEW_FLOWS, P99_OF_FLOWS, Compared, Competitor
from dc_gym.figures import kit
from dc_gym.pages import html
from dc_gym.pages.numbers import Metric, plain, scale_of, with_interval
from dc_gym.topologies.paths import base_rtt_ns
from dc_gym.topologies.scale import not_scale_free

PAGE, FIGURE, TABLE, MARK = "index.html", "overview.png", "table.csv", "dcgym bench compare"
COLUMNS = ("network", "traffic", "controller", "seed", "metric", "value")


@dataclass(frozen=True, slots=True)
class MetricCell:
    text: str
    best: bool
    few: bool
    """True for a percentile of too few flows."""


@dataclass(frozen=True, slots=True)
class ScenarioSection:
    """One scenario, in the form that the template takes."""

    anchor: str
    title: str
    facts: Sequence[tuple[str, str]]
    labels: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[MetricCell]]]
    """Rows of label, unit, and a cell per controller."""
    figure: Markup
    notes: Sequence[str]


def write(folder: Path, compared: Sequence[Compared], facts: Sequence[tuple[str, str]]) -> Path:
    """Writes index.html, overview.png and table.csv, and returns the page's path."""
    put(folder / TABLE, csv_bytes(COLUMNS, _rows(compared)))
    overview = drawing.overview(compared)
    kit.save(overview, folder / FIGURE, mark=MARK)
    words = "Goodput and queueing delay of everybody in every scenario"
    text = html.render(
        "dc_gym.benchmarks.studies.compare",
        "page.html.j2",
        title="Congestion controls compared",
        mark=MARK,
        told=facts,
        overview=html.drawing(overview, "overview", words),
        sections=[_section(each) for each in compared],
        scaling=_scaling(compared),
        few=FEW_FLOWS,
    )
    return put(folder / PAGE, text)


def _section(each: Compared) -> ScenarioSection:
    scenario = each.scenario
    network = scenario.network.title
    time, workload = each.spec.time, each.spec.to_dict()["workload"]
    facts = [
        ("Network", f"{network}, 1/{scenario.scale} of its speed" if scenario.scale > 1 else network),
        ("Traffic", ", ".join(f"{key} {workload[key]}" for key in scenario.traffic.workload)),
        ("Run", f"{format_time(time.duration_ns)}, the first {format_time(time.warmup_ns)} not counted"),
    ]
    return ScenarioSection(
        anchor=scenario.name,
        title=f"{network}: {scenario.traffic.title.lower()}",
        facts=facts,
        labels=[f"{entry.label} (n\u00a0=\u00a0{_seeds(entry)})" for entry in each.entries],
        rows=[_row(each, metric) for metric in each.metrics],
        figure=html.drawing(drawing.scenario(each), scenario.name, f"{network}, {scenario.traffic.title}"),
        notes=each.unfit,
    )


def _seeds(entry: Competitor) -> int:
    return max((len(values) for values in entry.numbers.values()), default=0)


def _row(each: Compared, metric: Metric) -> tuple[str, str, Sequence[MetricCell]]:
    estimates = [entry.estimate(metric.name) for entry in each.entries]
    factor, unit = scale_of(metric.unit, [found.mean for found in estimates if found])
    best, cells = each.best(metric), []
    for entry, found in zip(each.entries, estimates, strict=True):
        text = "\u2013" if found is None else with_interval(found, factor)
        few = metric.name in P99_OF_FLOWS and found is not None and entry.flows < FEW_FLOWS
        cells.append(MetricCell(text, entry.name in best, few))
    return metric.label, unit, cells


def _scaling(compared: Sequence[Compared]) -> Sequence[tuple[str, Sequence[str]]]:
    """Returns, by network, what does not follow its scale."""
    found: dict[str, Sequence[str]] = {}
    for each in compared:
        scenario = each.scenario
        if scenario.scale > 1 and scenario.network.title not in found:
            rto_min_ns = each.spec.controller.rto_min_ns
            found[scenario.network.title] = not_scale_free(scenario.scale, base_rtt_ns(each.spec.graph()), rto_min_ns)
    return list(found.items())


def _rows(compared: Sequence[Compared]) -> Iterator[tuple[object, ...]]:
    """Yields the rows of table.csv."""
    for each in compared:
        for entry in each.entries:
            for metric, values in entry.numbers.items():
                for seed, value in values.items():
                    yield each.scenario.network.name, each.scenario.traffic.name, entry.name, seed, metric, repr(value)


def summary(each: Compared) -> Mapping[str, str]:
    """Returns one line per controller, for the terminal."""
    shown = {}
    for entry in each.entries:
        words = []
        for metric in each.metrics:
            found = entry.estimate(metric.name)
            if found is not None:
                factor, unit = scale_of(metric.unit, [found.mean])
                words.append(f"{metric.label.lower()} {plain(found.mean / factor, 3)} {unit}".rstrip())
        shown[entry.label] = ", ".join(words)
    return shown
