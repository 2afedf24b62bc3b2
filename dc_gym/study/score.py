# SPDX-License-Identifier: Apache-2.0
"""The score of sources' claims, and of the numbers that they print beside the measured ones.

It counts the claims of the sources on their own set-ups; claims of ours, and set-ups of ours, are findings that it leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape
from rich.table import Column
from rich.table import Table as Shown

from dc_gym.base import terminal
from dc_gym.results.figures import kit
from dc_gym.study import headlines
from dc_gym.study.claims import Verdict
from dc_gym.study.headlines import JudgedHeadline
from dc_gym.study.page import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHIN = (1.1, 1.5, 3.0)
"""Factors within which printed numbers are counted."""
COLORS = ("#332288", "#CC6677", "#117733", "#999933", "#88CCEE", "#AA4499", "#555555")


@dataclass(frozen=True, slots=True)
class Printed:
    """A number that a source prints, beside the mean that was measured."""

    group: str
    printed: float
    measured: float

    @property
    def factor(self) -> float:
        """The factor by which they differ: 1 if they are equal, infinite if only one is 0 or the signs differ."""
        if self.printed == self.measured:
            return 1.0
        ratio = self.measured / self.printed if self.printed else 0.0
        return max(ratio, 1 / ratio) if ratio > 0 else math.inf


def printed(reports: Sequence[Report]) -> Iterator[Printed]:
    """Yields all printed numbers for which there is a measured one."""
    for report in reports:
        for variant in report.evidence.variants.values():
            for measure, value in variant.paper.items():
                if (measured := variant.estimate(measure)) is not None:
                    yield Printed(report.study.group, value, measured.mean)


def shares(numbers: Sequence[Printed]) -> list[str]:
    """Returns the shares of numbers within 10 %, 1.5 times and 3 times, as text."""
    count = len(numbers)
    return [f"{sum(entry.factor <= factor for entry in numbers) / count:.0%}" if count else "-" for factor in WITHIN]


def show_headlines(rows: Sequence[JudgedHeadline]) -> None:
    """Prints the headline statements with their verdicts, a row each, and the parts' below one another."""
    titles = ("", "what the source says", "verdict", "parts", "what was measured, or what is missing")
    table = Shown(*(Column(title, overflow="fold") for title in titles), show_edge=False, pad_edge=False)
    for row in rows:
        stated = f"{row.headline.says} ({row.headline.source})"
        for number, (part, words) in enumerate(row.lines):
            first = (row.headline.id, stated, row.verdict) if not number else ("", "", "")
            table.add_row(*map(escape, (*first, part, words)))
        table.add_section()
    console = terminal.wide_console()
    console.print(table)
    console.print(escape(headlines.summary(rows)) + "\n", soft_wrap=True)


def show(reports: Sequence[Report], missing: Sequence[str]) -> None:
    """Prints the counts by group, and names old and missing evidence."""
    console = terminal.wide_console()
    titles = (*map(str, reversed(Verdict)), "cause shown", "old", "printed numbers", "within 10 %", "1.5 x", "3 x")
    table = Shown("group", *(Column(title, justify="right") for title in titles), show_edge=False, pad_edge=False)
    groups = dict.fromkeys(report.study.group for report in reports)
    for name in [*groups, *(["all"] if len(groups) > 1 else [])]:
        selected = [report for report in reports if name in (report.study.group, "all")]
        counted = [finding for report in selected for finding in report.findings if finding.claim.counted]
        numbers = list(printed(selected))
        causes_shown = sum(finding.cause is not None and finding.cause.shown for finding in counted)
        old = sum(finding.claim.counted for report in selected if report.old for finding in report.findings)
        verdicts = [sum(finding.verdict is verdict for finding in counted) for verdict in reversed(Verdict)]
        table.add_row(name, *map(str, verdicts), str(causes_shown), str(old), str(len(numbers)), *shares(numbers))
    console.print(table)
    for report in reports:
        if report.old:
            console.print(escape(f"old          {report.study.name}: {report.old}"), soft_wrap=True)
    if missing:
        console.print(escape(f"no evidence  {', '.join(missing)}"), soft_wrap=True)


def figure(reports: Sequence[Report]) -> Figure | None:
    """Draws printed numbers against measured ones; None if there are none above 0."""
    groups = list(dict.fromkeys(report.study.group for report in reports))
    numbers = [entry for entry in printed(reports) if entry.printed > 0 and entry.measured > 0]
    if not numbers:
        return None
    with kit.style({"axes.grid.axis": "both"}):
        canvas = kit.new_figure(6.4, 6.0)
        ax = canvas.subplots()
        least, most = min(min(entry.printed, entry.measured) for entry in numbers), max(entry.printed for entry in numbers)
        ends = np.array([least / 2, most * 2])
        for factor, line in ((1.0, "-"), *((bound, ":") for bound in WITHIN[1:])):
            for side in {factor, 1 / factor}:
                ax.plot(ends, ends * side, line, color=kit.INK, linewidth=0.7)
        for group, color in zip(groups, COLORS, strict=False):
            group_numbers = [entry for entry in numbers if entry.group == group]
            if group_numbers:
                x, y = [entry.printed for entry in group_numbers], [entry.measured for entry in group_numbers]
                ax.plot(x, y, "o", color=color, markersize=4, label=f"{group} ({len(group_numbers)})")
        ax.set(xscale="log", yscale="log", xlabel="Printed in the source (SI units)", ylabel="Measured here (SI units)")
        ax.legend()
        kit.title(canvas, f"Printed numbers: {', '.join(shares(list(printed(reports))))} within 10 %, 1.5 x, 3 x")
    return canvas


def write(folder: Path, reports: Sequence[Report]) -> Path | None:
    """Writes score.png, and returns its path; None if no source printed a number that was measured."""
    drawn = figure(reports)
    if drawn is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    return kit.save(drawn, folder / "score.png")
