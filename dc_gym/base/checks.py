# SPDX-License-Identifier: Apache-2.0
"""The output of a bench: bars, each with the requested and the measured value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar. A bar that could not be tested here is `skipped`: it is shown, and neither passes nor fails."""

    name: str
    asked: str
    measured: str
    ok: bool
    skipped: bool = False


def show(title: str, bars: Iterable[Bar]) -> list[Bar]:
    """Prints bars as a table and returns them as a list."""
    shown = list(bars)
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for column in ("bar", "asked", "measured", ""):
        table.add_column(column, overflow="fold")
    for bar in shown:
        verdict = "[yellow]skipped[/]" if bar.skipped else "[green]good[/]" if bar.ok else "[red]SHORT[/]"
        table.add_row(*(escape(text) for text in (bar.name, bar.asked, bar.measured)), verdict)
    Console(width=160 if not Console().is_terminal else None).print(table)
    return shown


def save(path: Path, name: str, bars: Sequence[Bar]) -> None:
    """Writes the bars as JSON."""
    path.write_text(json.dumps({"bench": name, "bars": [asdict(bar) for bar in bars]}, indent=1) + "\n")


def all_good(bars: Iterable[Bar]) -> bool:
    return all(bar.ok or bar.skipped for bar in bars)
