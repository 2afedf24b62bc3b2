# SPDX-License-Identifier: Apache-2.0
"""The checks of a bench: the requirement, the measured value, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from dc_gym.base.terminal import wide_console


@dataclass(frozen=True, slots=True)
class Check:
    """A requirement and its measurement. A check that cannot be made here is `skipped`: it neither passes nor fails."""

    name: str
    required: str
    measured: str
    ok: bool
    skipped: bool = False


def show(title: str, checks: Iterable[Check]) -> list[Check]:
    """Prints checks as a table and returns them as a list."""
    listed = list(checks)
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for column in ("check", "required", "measured", ""):
        table.add_column(column, overflow="fold")
    for check in listed:
        verdict = "[yellow]skipped[/]" if check.skipped else "[green]passed[/]" if check.ok else "[red]FAILED[/]"
        table.add_row(*(escape(text) for text in (check.name, check.required, check.measured)), verdict)
    wide_console().print(table)
    return listed


def save(path: Path, name: str, checks: Sequence[Check]) -> None:
    """Writes the checks as JSON."""
    path.write_text(json.dumps({"bench": name, "checks": [asdict(check) for check in checks]}, indent=1) + "\n")


def all_good(checks: Iterable[Check]) -> bool:
    return all(check.ok or check.skipped for check in checks)
