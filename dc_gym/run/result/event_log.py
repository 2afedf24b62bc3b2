# SPDX-License-Identifier: Apache-2.0
"""The events of a run for its manifest: the change of each, its exact time, and the values read back (docs/events.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dc_gym.base.units import format_time
from dc_gym.run.plan import changes
from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec.events import EventSpec, in_order

Row = dict[str, Any]


def rows(experiment: Experiment, path: Path) -> list[Row]:
    """Returns a row for each event of the spec, in the order of their times. `path` is eventd's file."""
    event_rows = {number: _row(number, event) for number, event in in_order(experiment.spec.events)}
    if experiment.changes:
        for change, t_ns, error, quantities in changes.done(path, experiment.changes, experiment.graph):
            row = event_rows[change.event]
            row["t_ns"] = t_ns
            ports = row.setdefault("ports", {})
            ports.setdefault(change.port, {}).update({name: [value, quantities.get(name)] for name, value in change.values})
            if error:
                row["error"] = os.strerror(error)
        for number, t_ns, error in changes.reacted(path):
            event_rows[number]["rerouted_ns"] = t_ns
            if error:
                event_rows[number]["error"] = f"new rules of the switches: {os.strerror(error)}"
    return list(event_rows.values())


def _row(number: int, event: EventSpec) -> Row:
    row = {"event": number, "label": event.label, "at_ns": event.at_ns, "t_ns": event.at_ns}
    return row if event.reroute_ns is None else row | {"reroute_at_ns": event.at_ns + event.reroute_ns}


def faults(events: Sequence[Row]) -> list[str]:
    """Returns sentences about events that did not happen as requested; none in a fit run."""
    sentences = []
    for row in events:
        event = f"event {row['event']} ({row['label']})"
        if "error" in row:
            sentences.append(f"{event}: {row['error']}")
        elif row.get("rerouted_ns") != row.get("reroute_at_ns"):
            sentences.append(f"{event}: switches got their new rules at {row.get('rerouted_ns')} ns, not {row['reroute_at_ns']}")
        elif row["t_ns"] != row["at_ns"]:
            sentences.append(f"{event}: happened at {format_time(row['t_ns'])} instead of {format_time(row['at_ns'])}")
        for port, values in row.get("ports", {}).items():
            wrong = [name for name, (requested, read) in values.items() if requested != read]
            sentences += [f"{event}: {port}: asked for {name} {values[name][0]}, read back {values[name][1]}" for name in wrong]
    return sentences
