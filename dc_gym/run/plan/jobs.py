# SPDX-License-Identifier: Apache-2.0
"""The jobs of a run as tgen plays them (traffic/tgen/job_table.h). Each job begins with a node that happens at its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.record_file import RecordKind, Table
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.job_graph import CALC, Job, successors
from dc_gym.traffic.schedule import Schedule

NODE = RecordKind(
    b"DCGYJOBS",
    np.dtype([("amount", "<u8"), ("subject", "<u4"), ("edges_start", "<u4"), ("edges_len", "<u4"), ("kind", "<u4")]),
)
EDGE = RecordKind(b"DCGJEDGE", np.dtype([("edge", "<u4")]))
START = 0
"""The kind of the node with which a job begins."""


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job of a run."""

    job: Job
    number: int
    """Of its workload: 0 for [workload], n for the n-th of [[workload.beside]]."""
    first_flow: int
    """The flow that is its first connection; the others follow."""
    first_node: int
    """The record of its START; those of its graph follow."""
    start_ns: int

    @property
    def last_node(self) -> int:
        """The record behind its last one."""
        return self.first_node + 1 + len(self.job.graph.nodes)


def placed_jobs(schedule: Schedule) -> Iterator[PlacedJob]:
    """Yields the jobs of a run, in the order of their flows."""
    before: PlacedJob | None = None
    for flow in schedule.flows:
        request: FlowRequest = flow.request
        if request.job is None or (before is not None and before.job is request.job):
            continue
        first_node = 0 if before is None else before.last_node
        before = PlacedJob(request.job, request.workload, flow.flow, first_node, request.start_ns)
        yield before


def tables(schedule: Schedule) -> tuple[Table, ...]:
    """Returns the nodes and edges of all jobs; nothing if there is none."""
    nodes, edges, count = list[Any](), list[Any](), 0
    for placed in placed_jobs(schedule):
        of_job, followers = _nodes(placed)
        of_job["edges_start"] += count
        nodes.append(of_job)
        edges.append(followers)
        count += len(followers)
    if not nodes:
        return ()
    return Table(NODE, np.concatenate(nodes)), Table(EDGE, np.concatenate(edges).astype(EDGE.dtype))


def _nodes(placed: PlacedJob) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns the records of a job, and its edges in their order."""
    graph, first = placed.job.graph, placed.first_node + 1
    count = len(graph.nodes)
    records = np.zeros(count + 1, NODE.dtype)
    records["amount"][0], records["kind"][0] = placed.start_ns, START
    mine = records[1:]
    mine["amount"], mine["kind"] = graph.nodes["amount"], graph.nodes["kind"]
    calcs, (sends, recvs) = np.flatnonzero(graph.nodes["kind"] == CALC), graph.sends
    processors = graph.nodes["rank"][calcs].astype(np.uint64) * 256 + graph.nodes["cpu"][calcs]
    mine["subject"][calcs] = np.unique(processors, return_inverse=True)[1] + placed.first_node
    mine["subject"][sends] = placed.job.connection + placed.first_flow
    mine["subject"][recvs] = sends + first
    mine["amount"][recvs] = 0
    waits = np.bincount(graph.edges["waits"], minlength=count)
    roots = np.flatnonzero(waits == 0)
    causes = np.concatenate([np.zeros(len(roots), np.uint32), graph.edges["node"] + 1])
    effects = np.concatenate([roots, graph.edges["waits"]]).astype(np.uint32) + first
    for_start = np.concatenate([np.zeros(len(roots), bool), graph.edges["for_start"]])
    followers, start = successors(causes, effects * 2 + for_start, count + 1)
    records["edges_start"], records["edges_len"] = start[:-1], np.diff(start)
    return records, followers
