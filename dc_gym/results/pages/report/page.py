# SPDX-License-Identifier: Apache-2.0
"""Renders the page: one self-contained HTML file from a template, which escapes everything that comes from a spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dc_gym.results.figures import kit, styles
from dc_gym.results.pages import html
from dc_gym.results.pages.report import figures, tables
from dc_gym.results.pages.report.figures import ReportFigure
from dc_gym.results.pages.report.measured import RunData
from dc_gym.results.pages.report.runs import Group, ReportedRun, Scenario
from dc_gym.results.pages.report.tables import ReportTable, TableCell
from dc_gym.spec import from_dict

BINS = ("pias", "hpcc", "homa")
HEADS = ("preset", "kind", "duration", "interval")
PLAIN_SPEC = from_dict(
    {
        "topology": {"preset": "dumbbell-10m"},
        "controller": {"name": "dctcp"},
        "workload": {"kind": "pairs"},
        "time": {"duration": "1s"},
    },
    Path(),
)
"""A spec that sets only keys without a default."""


@dataclass(frozen=True, slots=True)
class Section:
    """A scenario in the form that the template takes."""

    anchor: str
    scenario: Scenario
    facts: Sequence[tuple[str, str]]
    figures: Sequence[tuple[ReportFigure, Markup]]
    metrics: ReportTable
    differences: ReportTable | None
    baseline: str
    classes: ReportTable | None
    groups: ReportTable | None
    slowdown: Sequence[tuple[str, ReportTable]]
    ports: Sequence[tuple[str, ReportTable]]
    runs: Sequence[tuple[ReportedRun, str]]


def render(
    scenarios: Sequence[Scenario],
    notes: Sequence[str],
    measured: Mapping[str, RunData],
    baseline: str | None = None,
    mark: str = "",
) -> bytes:
    """Returns the page. `baseline`: the controller that others are compared with, by default the first. `mark`: the command that
    made the page."""
    sections = [_section(f"scenario-{row}", scenario, measured, baseline) for row, scenario in enumerate(scenarios, 1)]
    runs = [run for scenario in scenarios for run in scenario.all_runs]
    subject = _title(scenarios)
    return html.render(
        "dc_gym.results.pages.report",
        "page.html.j2",
        title=f"{subject} \u00b7 dcgym report",
        subject=subject,
        mark=mark,
        sections=sections,
        notes=notes,
        runs=len(runs),
        fit=sum(run.result.fit for run in runs),
        certificates=[tables.certificate(run) for run in runs],
        cell=_cell,
    )


def draw_all(scenario: Scenario, measured: Mapping[str, RunData]) -> list[tuple[ReportFigure, Any]]:
    """Draws every figure of a scenario in our style."""
    drawn = []
    for figure in figures.all_figures(scenario, measured):
        with kit.style(figures.STYLE):
            drawn.append((figure, figure.draw()))
    return drawn


def baseline_of(scenario: Scenario, name: str | None) -> Group | None:
    """Returns the group that others are compared with."""
    return next((group for group in scenario.groups if group.name == name), scenario.groups[0] if scenario.groups else None)


def _section(anchor: str, scenario: Scenario, measured: Mapping[str, RunData], name: str | None) -> Section:
    baseline = baseline_of(scenario, name)
    drawn = []
    for figure, canvas in draw_all(scenario, measured):
        words = f"{figure.title}. {figure.caption}"
        drawn.append((figure, html.drawing(canvas, f"{anchor}-{figure.name}", words, figures.STYLE)))
    slowdown = [(tables.BIN_TITLES[bins], tables.slowdown_table(scenario, measured, bins)) for bins in BINS]
    ports = [(f"{group.label}, seed {group.runs[0].seed}", tables.ports_table(group.runs[0])) for group in scenario.groups]
    return Section(
        anchor=anchor,
        scenario=scenario,
        facts=_facts(scenario),
        figures=drawn,
        metrics=tables.metrics_table(scenario),
        differences=tables.differences_table(scenario, baseline) if baseline else None,
        baseline=baseline.label if baseline else "",
        classes=tables.classes_table(scenario),
        groups=tables.groups_table(scenario, measured),
        slowdown=[(title, table) for title, table in slowdown if table is not None],
        ports=[(title, table) for title, table in ports if table.rows],
        runs=[(run, group.label) for group in scenario.groups for run in group.runs]
        + [(run, styles.label_of_section(run.result.controller)) for run in scenario.unfit],
    )


def _facts(scenario: Scenario) -> list[tuple[str, str]]:
    """Describes the experiment in words, from the spec. Values that equal the defaults are left out."""
    spec, usual = scenario.spec, PLAIN_SPEC.to_dict()

    def words(section: str) -> str:
        settings = spec.get(section, {})
        values = {key: value for key, value in settings.items() if key in HEADS or usual[section].get(key) != value}
        head = [str(values.pop(name)) for name in ("preset", "kind") if name in values]
        return ", ".join(head + [f"{name} {_plain(value)}" for name, value in values.items()])

    facts = [
        ("Network", words("topology")),
        ("Workload", words("workload")),
        ("Time", words("time")),
        ("Sampling", words("monitor")),
    ]
    facts.append(("Ground", f"{spec.get('ground', 'lab')}, {spec.get('clock', 'virtual')} time"))
    return [(name, text) for name, text in facts if text]


def _plain(value: Any) -> str:
    """Returns a value of a spec in words. Lists of tables such as [[workload.exec]] are listed one after the other."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return ("; " if any(isinstance(entry, Mapping) for entry in value) else ", ").join(map(_plain, value))
    return str(value)


def _title(scenarios: Sequence[Scenario]) -> str:
    names = list(dict.fromkeys(str(scenario.spec.get("name", "experiment")) for scenario in scenarios))
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more" if names else "Nothing"


def _cell(cell: TableCell) -> Markup:
    """Returns the contents of a cell: its text, a symbol so that its meaning does not depend on colour, and its note."""
    marks = {"better": "\u25b2", "worse": "\u25bc", "same": "\u2248", "equal": "="}
    words = {"better": "better", "worse": "worse", "same": "no difference shown", "equal": "equal in every pair"}
    text = Markup("{}").format(cell.text)
    if cell.kind in marks:
        text += Markup(' <span class="mark" title="{0}" aria-label="{0}">{1}</span>').format(words[cell.kind], marks[cell.kind])
    return text + (Markup(" <small>{}</small>").format(cell.note) if cell.note else Markup(""))
