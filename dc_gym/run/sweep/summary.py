# SPDX-License-Identifier: Apache-2.0
"""Reports how the runs of a sweep ended: sweep.json for programs, summary.csv and summary.parquet, and a table on the screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dc_gym import __version__
from dc_gym.base import readable
from dc_gym.base.files import put
from dc_gym.base.terminal import console, say
from dc_gym.results.metrics.summary import has_idle_time, told_of_equal_seeds
from dc_gym.results.parquet import to_arrow
from dc_gym.run.sweep.grid import SWEEP_VERSION
from dc_gym.run.sweep.known import key_of, stamps
from dc_gym.run.sweep.state import SUMMARY, RunState, Status, SweepFolder

CSV, PARQUET = "summary.csv", "summary.parquet"
SHOWN = {
    "goodput_bps": "goodput",
    "mean_queue_bytes": "mean queue",
    "mean_srtt_us": "srtt",
    "drops": "drops",
    "lost_on_links": "lost on links",
    "jain": "Jain",
    "jain_flows": "Jain flows",
    "fct_mean_s": "mean FCT",
    "fct_p99_s": "p99 FCT",
    "return": "return",
}
"""Columns of the table on the screen: a metric and its heading."""
SELDOM = ("lost_on_links",)
"""Columns shown only if a value is not 0."""
COLOURS = {RunState.DONE: "green", RunState.UNFIT: "yellow", RunState.FAILED: "red", RunState.WAITING: "dim"}


def write(folder: SweepFolder, statuses: Sequence[Status]) -> None:
    """Writes all of the sweep's own files, unless they are as they would be. Each is complete or unchanged."""
    cells = [
        {
            "name": status.point.name,
            "values": dict(status.point.values),
            "state": str(status.state),
            "exit": status.exit,
            "message": status.message,
            "digest": status.digest,
            "summary": dict(status.summary) or None,
        }
        for status in statuses
    ]
    head = {"sweep_version": SWEEP_VERSION, "dcgym": __version__, "name": folder.grid.name, "keys": folder.grid.keys}
    plain = head | {"fingerprints": dict(folder.fingerprints), "cells": cells}
    files, content = [folder.path / name for name in (SUMMARY, CSV, PARQUET)], key_of(plain)
    if folder.record.written == {"content": content, "files": stamps(files)}:
        return
    put(folder.path / SUMMARY, json.dumps(plain, indent=1).encode() + b"\n")
    table = rows(statuses, folder.grid.keys)
    for name, writer in ((CSV, pyarrow.csv.write_csv), (PARQUET, pyarrow.parquet.write_table)):
        sink = pa.BufferOutputStream()
        writer(table, sink)
        put(folder.path / name, sink.getvalue().to_pybytes())
    folder.record.written = {"content": content, "files": stamps(files)}


def rows(statuses: Sequence[Status], keys: Sequence[str]) -> pa.Table:
    """Returns one row for each run: name, the varied keys, state, digest, and every metric that is one number or one text."""
    plain: list[dict[str, Any]] = []
    metrics: dict[str, None] = {}
    for status in statuses:
        scalars = {name: value for name, value in status.summary.items() if not isinstance(value, list | dict)}
        metrics |= dict.fromkeys(scalars)
        plain.append({"name": status.point.name, **status.point.values, "state": str(status.state), "digest": status.digest})
        plain[-1] |= scalars
    names = ["name", *keys, "state", "digest", *metrics]
    return pa.table({name: _column([row.get(name) for row in plain]) for name in names})


def show(statuses: Sequence[Status]) -> None:
    """Prints a table of all runs, and the messages of runs that did not end well."""
    columns = [["run", *(status.point.name for status in statuses)], ["", *(str(status.state) for status in statuses)]]
    for name, heading in _shown(statuses).items():
        values = [status.summary.get(name) for status in statuses]
        if any(values) if name in SELDOM else any(value is not None for value in values):
            unit, cells = readable.column(values, readable.family_of(name))
            columns.append([f"{heading} {unit}".rstrip(), *cells])
    _print(_lines(columns))
    if note := told_of_equal_seeds(_by_point(statuses).values()):
        say(note)
    for status in statuses:
        if status.message and status.state is not RunState.DONE:
            say(f"{status.point.name}: exit {status.exit}: {status.message}")


def _lines(columns: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table: the first two columns are texts, the others are numbers. Each column begins with its head."""
    widths = [max(map(len, column)) for column in columns]
    padded = [
        [text.ljust(width) if number < 2 else text.rjust(width) for text in column]
        for number, (column, width) in enumerate(zip(columns, widths, strict=True))
    ]
    head, *rows = zip(*padded, strict=True)
    line = "\u2501\u2547\u2501".join("\u2501" * width for width in widths)
    return [" \u2503 ".join(head), line, *(" \u2502 ".join(row) for row in rows)]


def _print(lines: Sequence[str]) -> None:
    """Prints the lines of the table; on a terminal with the states in colours. rich's own tables take a millisecond a row."""
    if not sys.stdout.isatty():
        say("\n".join(line.rstrip() for line in lines))
        return
    from rich.text import Text  # takes time to import

    text = Text("\n".join(lines))
    for state, colour in COLOURS.items():
        text.highlight_regex(rf" \u2502 ({state}) *(?= \u2502|$)", colour)
    console().print(text, soft_wrap=True)


def _shown(statuses: Sequence[Status]) -> Mapping[str, str]:
    """Returns the columns. With idle time between flows, completion comes first, and goodput is measured over the active time."""
    if not any(has_idle_time(status.summary) for status in statuses):
        return SHOWN
    first = {name: heading for name, heading in SHOWN.items() if name.startswith("fct_")}
    return first | {"active_goodput_bps" if name == "goodput_bps" else name: heading for name, heading in SHOWN.items()}


def _by_point(statuses: Sequence[Status]) -> Mapping[str, list[str]]:
    """Returns the summaries of complete runs as text, by the values of all keys but the seed."""
    summaries: dict[str, list[str]] = {}
    for status in statuses:
        if status.summary:
            values = {key: value for key, value in status.point.values.items() if key != "seed"}
            summaries.setdefault(json.dumps(values, default=str), []).append(json.dumps(status.summary, sort_keys=True))
    return summaries


def counts(statuses: Sequence[Status]) -> str:
    """Returns text such as '12 runs: 9 done, 1 failed, 2 waiting'."""
    numbers = [(sum(status.state is state for status in statuses), state) for state in RunState]
    return f"{len(statuses)} runs: " + ", ".join(f"{number} {state}" for number, state in numbers if number)


def _column(values: list[Any]) -> pa.Array:
    """Returns a column with one type. Where values are of several types, it contains their texts."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    known = np.array([value is not None for value in values])
    if kinds in ({bool}, {int}, {float}, {int, float}):
        return to_arrow(np.array([0 if value is None else value for value in values], np.result_type(*kinds)), known)
    to_text = json.dumps if kinds <= {list, dict} else str
    return to_arrow(np.array(["" if value is None else to_text(value) for value in values], object), known)
