# SPDX-License-Identifier: Apache-2.0
"""Reads how the jobs of a run went: its messages, and what each rank did in each iteration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.results.tables import TABLES, Records, empty
from dc_gym.run.plan.jobs import PlacedJob, placed_jobs
from dc_gym.run.result import tgen_log
from dc_gym.traffic.job_graph import CALC, SEND
from dc_gym.traffic.schedule import Schedule

LOG = "job.bin"
Column = npt.NDArray[Any]


def read(folder: Path, schedule: Schedule, duration_ns: int) -> dict[str, Any]:
    """Returns the tables of messages and of ranks, with the names of hosts; without rows if there is no job."""
    tables: dict[str, list[Any]] = {"messages": [], "ranks": []}
    placed_here = list(placed_jobs(schedule))
    times = tgen_log.read_job(folder / LOG) if placed_here else np.empty(0, tgen_log.JOB_DTYPE)
    for placed in placed_here:
        of_nodes = times[placed.first_node + 1 : placed.last_node]
        tables["messages"].append(_messages(placed, of_nodes))
        tables["ranks"] += _ranks(placed, of_nodes, duration_ns)
    return {name: np.concatenate(parts) if parts else empty(name) for name, parts in tables.items()}


def _table(name: str, columns: dict[str, Any]) -> Any:
    """Returns the rows of a table whose strings are not encoded yet."""
    kinds = dict(TABLES[name].columns)
    dtype = [(column, object if column in TABLES[name].strings else kinds[column]) for column in kinds]
    records = np.empty(len(columns["job"]), dtype)
    for column in kinds:
        records[column] = columns[column]
    return records


def _messages(placed: PlacedJob, times: Records) -> Any:
    """Returns the messages that were posted."""
    job, (sends, _) = placed.job, placed.job.graph.sends
    posted = times["start_ns"][sends] >= 0
    numbers, connection = sends[posted], job.connection[posted]
    nodes, hosts = job.graph.nodes[numbers], np.array(job.hosts, object)
    columns = {name: nodes[name] for name in ("rep", "step", "tag")} | {
        "job": np.full(len(nodes), placed.number),
        "message": numbers,
        "flow": connection + placed.first_flow,
        "src_rank": nodes["rank"],
        "dst_rank": nodes["peer"],
        "src": hosts[nodes["rank"]],
        "dst": hosts[nodes["peer"]],
        "bytes": nodes["amount"],
        "posted_ns": times["start_ns"][numbers],
        "last_ns": times["end_ns"][numbers],
    }
    return _table("messages", columns)


def _ranks(placed: PlacedJob, times: Records, duration_ns: int) -> Iterator[Any]:
    """Yields what the ranks did in the iterations that ended."""
    nodes, ranks = placed.job.graph.nodes, placed.job.graph.ranks
    ended = np.zeros(placed.job.graph.iterations, np.int64)
    np.maximum.at(ended, nodes["rep"], np.where(times["end_ns"] < 0, duration_ns + 1, times["end_ns"]))
    ended = np.maximum.accumulate(ended)
    ended = ended[ended <= duration_ns]
    if not len(ended):
        return
    begun = np.concatenate([[placed.start_ns], ended[:-1]])
    spent = timeline(placed.job.graph.nodes, times, ranks, np.concatenate([begun, ended[-1:]]))
    rep, rank = np.divmod(np.arange(len(ended) * ranks), ranks)
    columns = {name: column.reshape(-1) for name, column in spent.items()} | {
        "job": np.full(len(rep), placed.number),
        "rep": rep,
        "rank": rank,
        "host": np.array(placed.job.hosts, object)[rank],
        "start_ns": begun[rep],
        "end_ns": ended[rep],
    }
    yield _table("ranks", columns)


def timeline(nodes: Records, times: Records, ranks: int, bounds: Column) -> dict[str, Column]:
    """Returns for each period between two bounds and each rank [periods, ranks] what it did, in ns.

    At each instant it computes; or it does not, and a message from or to it is under way (transfer); or neither (wait).
    """
    is_calc, is_send, first, last = nodes["kind"] == CALC, nodes["kind"] == SEND, bounds[0], bounds[-1]
    start = np.clip(np.where(times["start_ns"] < 0, last, times["start_ns"]), first, last)
    end = np.clip(np.where(times["end_ns"] < 0, last, times["end_ns"]), first, last)
    marks = np.repeat(np.arange(ranks), len(bounds))
    at, rank, calcs, transfers = [np.tile(bounds, ranks)], [marks], [np.zeros_like(marks)], [np.zeros_like(marks)]
    for mask, who, is_transfer in ((is_calc, "rank", 0), (is_send, "rank", 1), (is_send, "peer", 1)):
        for when, change in ((start[mask], 1), (end[mask], -1)):
            at.append(when)
            rank.append(nodes[who][mask])
            calcs.append(np.full(len(when), change * (1 - is_transfer)))
            transfers.append(np.full(len(when), change * is_transfer))
    at_ns, of_rank = np.concatenate(at), np.concatenate(rank).astype(np.int64)
    order = np.lexsort((at_ns, of_rank))
    at_ns, of_rank = at_ns[order], of_rank[order]
    computes = np.cumsum(np.concatenate(calcs)[order])[:-1] > 0
    transfer = (np.cumsum(np.concatenate(transfers)[order])[:-1] > 0) & ~computes
    length = np.where(of_rank[1:] == of_rank[:-1], np.diff(at_ns), 0)
    period = np.clip(np.searchsorted(bounds, at_ns[:-1], "right") - 1, 0, len(bounds) - 2)
    cell = period * ranks + of_rank[:-1]
    states = {"calc_ns": computes, "transfer_ns": transfer, "wait_ns": ~computes & ~transfer}
    size = (len(bounds) - 1) * ranks
    sums = {name: np.bincount(cell, np.where(state, length, 0), size) for name, state in states.items()}
    return {name: column.astype(np.int64).reshape(-1, ranks) for name, column in sums.items()}
