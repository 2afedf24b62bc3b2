# SPDX-License-Identifier: Apache-2.0
"""A run as a trace that ui.perfetto.dev and chrome://tracing open: JSON in the Trace Event Format, written row by row.

Processes of the trace are what the run has: its flows (a track each, with the decisions of their NICs), its ports (the queue, a
track for each class that was paused), its agents, and the ranks of its jobs (a track each, with the messages that it sent). `ts`
and `dur` are microseconds with digits for nanoseconds, from t0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dc_gym.base.files import machine_errors, whole
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.results.results import Result
from dc_gym.results.tables import TABLES

__all__ = ["PROCESSES", "events", "write"]

Event = dict[str, Any]
PROCESSES = ("run", "flows", "queues", "pauses", "agents", "jobs")
"""The processes of a trace; their numbers count from 1."""
RUN, FLOWS, QUEUES, PAUSES, AGENTS, JOBS = range(1, len(PROCESSES) + 1)
FLOW_FACTS = ("size_bytes", "received_bytes", "fct_ns", "retransmits", "status", "controller", "transport", "group")
RANK_FACTS = ("calc_ns", "transfer_ns", "wait_ns")
MESSAGE_FACTS = ("rep", "step", "tag", "bytes", "flow")
DECISION_FACTS = ("rtt_ns", "rate_before_bps", "rate_bps", "window_bytes")


def write(result: Result, path: Path, force: bool = False) -> Path:
    """Writes the trace of a result. An existing file is replaced only if it is this result's trace, or with `force`.

    Args:
        result: The run.
        path: The file.
        force: Replace any file there.
    """
    mark = mark_of("plot --trace", [result.path], path)
    require_place(path, is_marked(mark), force=force, remedy="replace it with --force, or give another --trace")
    facts = {"mark": mark, "digest": result.digest, "fit": result.fit}
    with machine_errors("write", path, "another --trace"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as work, work.open("w", encoding="utf-8") as file:
            file.write(f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(facts)}, "traceEvents": [')
            for number, event in enumerate(events(result)):
                file.write((",\n" if number else "\n") + json.dumps(event, separators=(",", ":"), allow_nan=False))
            file.write("\n]}\n")
    return path


def events(result: Result) -> Iterator[Event]:
    """Yields the events of a run's trace, table by table."""
    for number, name in enumerate(PROCESSES, 1):
        yield {"name": "process_name", "ph": "M", "pid": number, "tid": 0, "args": {"name": name}}
    for row in result.manifest.get("events") or ():
        yield _event(str(row["label"]), "i", row["t_ns"], RUN, s="g")
    yield from _flows(result)
    for row in _rows(result, "decisions", "t_ns", "flow", "event", *DECISION_FACTS):
        yield _event(
            row["event"], "i", row["t_ns"], FLOWS, row["flow"] + 1, s="t", args={key: row[key] for key in DECISION_FACTS}
        )
    for row in _rows(result, "queues", "t_ns", "port", "backlog_bytes"):
        yield _event(row["port"], "C", row["t_ns"], QUEUES, args={"backlog_bytes": row["backlog_bytes"]})
    yield from _pauses(result)
    agent = result.derived("agent")
    for batch in agent.to_batches(max_chunksize=1024) if agent else ():
        for row in batch.to_pylist():
            facts = {key: value for key, value in row.items() if key != "t_ns" and value == value}
            yield _event("step", "i", row["t_ns"], AGENTS, s="p", args=facts)
    yield from _jobs(result)


def _flows(result: Result) -> Iterator[Event]:
    """Yields the track of each flow that started, and its slice. One that the run's end cut has a begin alone."""
    for row in _rows(result, "flows", "flow", "src", "dst", "start_ns", "end_ns", *FLOW_FACTS):
        if row["start_ns"] < 0:
            continue
        name, facts = f"flow {row['flow']}: {row['src']} to {row['dst']}", {key: row[key] for key in FLOW_FACTS}
        yield {"name": "thread_name", "ph": "M", "pid": FLOWS, "tid": row["flow"] + 1, "args": {"name": name}}
        if row["end_ns"] < 0:
            yield _event(name, "B", row["start_ns"], FLOWS, row["flow"] + 1, args=facts)
        else:
            yield _slice(name, row["start_ns"], row["end_ns"], FLOWS, row["flow"] + 1, facts)


def _pauses(result: Result) -> Iterator[Event]:
    """Yields a slice for each sweep interval in which a class of a port was held by its peer, on a track of its own."""
    before: dict[tuple[str, int], tuple[int, int]] = {}
    tracks: dict[tuple[str, int], int] = {}
    for row in _rows(result, "class_queues", "t_ns", "port", "class", "paused_ns"):
        key = row["port"], row["class"]
        (start_ns, paused_ns), before[key] = before.get(key, (0, 0)), (row["t_ns"], row["paused_ns"])
        if row["paused_ns"] == paused_ns:
            continue
        if key not in tracks:
            tracks[key] = len(tracks) + 1
            name = {"name": f"{key[0]}, class {key[1]}"}
            yield {"name": "thread_name", "ph": "M", "pid": PAUSES, "tid": tracks[key], "args": name}
        yield _slice("paused", start_ns, row["t_ns"], PAUSES, tracks[key], {"paused_ns": row["paused_ns"] - paused_ns})


def _jobs(result: Result) -> Iterator[Event]:
    """Yields the iterations of each rank on its track, and its messages, which may overlap. One that is cut has a begin alone."""
    tracks: dict[tuple[int, int], int] = {}
    for row in _rows(result, "ranks", "job", "rank", "rep", "host", "start_ns", "end_ns", *RANK_FACTS):
        key = row["job"], row["rank"]
        if key not in tracks:
            tracks[key] = len(tracks) + 1
            name = {"name": f"job {row['job']}, rank {row['rank']}: {row['host']}"}
            yield {"name": "thread_name", "ph": "M", "pid": JOBS, "tid": tracks[key], "args": name}
        facts = {name: row[name] for name in RANK_FACTS}
        yield _slice(f"iteration {row['rep']}", row["start_ns"], row["end_ns"], JOBS, tracks[key], facts)
    columns = ("job", "message", "src_rank", "dst_rank", "posted_ns", "last_ns", *MESSAGE_FACTS)
    for row in _rows(result, "messages", *columns):
        track = tracks.get((row["job"], row["src_rank"]), 0)
        shared: Event = {"cat": "message", "id": f"{row['job']}/{row['message']}"}
        title, facts = f"to rank {row['dst_rank']}", {fact: row[fact] for fact in MESSAGE_FACTS}
        yield _event(title, "b", row["posted_ns"], JOBS, track, **shared, args=facts)
        if row["last_ns"] >= 0:
            yield _event(title, "e", row["last_ns"], JOBS, track, **shared)


def _rows(result: Result, table: str, *columns: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a table as integers and strings."""
    strings = {name: result.names.of_kind(kind) for name, kind in TABLES[table].strings.items()}
    for piece in result.stored.pieces(table, *columns):
        values = ([strings[name][row] for row in piece[name]] if name in strings else piece[name].tolist() for name in columns)
        for row in zip(*values, strict=True):
            yield dict(zip(columns, row, strict=True))


def _slice(name: str, start_ns: int, end_ns: int, pid: int, tid: int, args: Mapping[str, Any]) -> Event:
    return _event(name, "X", start_ns, pid, tid, dur=(end_ns - start_ns) / 1000, args=args)


def _event(name: str, phase: str, at_ns: int, pid: int, tid: int = 0, **more: Any) -> Event:
    return {"name": name, "ph": phase, "ts": at_ns / 1000, "pid": pid, "tid": tid, **more}
