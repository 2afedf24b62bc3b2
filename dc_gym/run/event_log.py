# SPDX-License-Identifier: Apache-2.0
"""The events of a run for its manifest: what each changed, when exactly, and what was read back (docs/events.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dc_gym.base.units import format_time
from dc_gym.grounds import changes
from dc_gym.grounds.experiment import Experiment
from dc_gym.spec.events import in_order

Row = dict[str, Any]


def rows(experiment: Experiment, path: Path) -> list[Row]:
    """Returns a row for each event of the spec, in the order of their times. `path` is what eventd wrote."""
    made = {number: _row(number, event.at_ns, event.label) for number, event in in_order(experiment.spec.events)}
    if experiment.changes:
        for change, t_ns, error, found in changes.done(path, experiment.changes):
            row = made[change.event]
            row["t_ns"] = t_ns
            ports = row.setdefault("ports", {})
            ports[change.port] = {name: [value, found.get(name)] for name, value in change.values}
            if error:
                row["error"] = os.strerror(error)
    return list(made.values())


def _row(number: int, at_ns: int, label: str) -> Row:
    return {"event": number, "label": label, "at_ns": at_ns, "t_ns": at_ns}


def faults(events: Sequence[Row]) -> list[str]:
    """Returns sentences about events that did not happen as requested; none in a fit run."""
    found = []
    for row in events:
        what = f"event {row['event']} ({row['label']})"
        if "error" in row:
            found.append(f"{what}: {row['error']}")
        elif row["t_ns"] != row["at_ns"]:
            found.append(f"{what}: happened at {format_time(row['t_ns'])} instead of {format_time(row['at_ns'])}")
        for port, values in row.get("ports", {}).items():
            wrong = [name for name, (asked, read) in values.items() if asked != read]
            found += [f"{what}: {port}: asked for {name} {values[name][0]}, read back {values[name][1]}" for name in wrong]
    return found
