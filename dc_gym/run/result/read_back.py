# SPDX-License-Identifier: Apache-2.0
"""Reads a ground's records of a run: its tables, and the counters before and after its traffic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import plain_json
from dc_gym.base.errors import ProtocolError, ResultError
from dc_gym.monitors.trace import TraceFile, open_trace
from dc_gym.results import results
from dc_gym.results.metrics import LinkLosses
from dc_gym.results.tables import PIECE_ROWS, TABLES, Names, Records, empty, encode, records_of, slices
from dc_gym.run.grounds import conservation
from dc_gym.run.plan import forwarding, nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.plan import EVENTS_DONE, GROUND
from dc_gym.run.result import ack_log, deadlocks, event_log, job_log, nic_log, tgen_log
from dc_gym.spec import Spec
from dc_gym.topologies.ecmp import FIRST_GROUP, Group
from dc_gym.topologies.graph import Graph
from dc_gym.traffic.schedule import Schedule

LEVELS = ("backlog_bytes", "backlog_packets", "active_flows", "charged_bytes", "longest_bytes")
"""Columns that are no counters."""
COUNTING = "port"
"""The queueing discipline that counts its queue over time. For others the trace has 0, which is not known."""


@dataclass(frozen=True, slots=True)
class RunCounts:
    """The counters of a run, and the values that follow from them."""

    t0_ns: int
    unfit: list[str]
    """The reasons why the run is unfit; none for a fit run."""
    conservation: dict[str, int]
    """Where the frames went."""
    links: LinkLosses
    found: Mapping[str, Any]
    """The contents of ground.json (run/grounds/guest/main.py)."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """A row for each event, with its effect (event_log.py)."""
    deadlock: tuple[str, ...] | None = None
    """The ports that waited for one another in a circle at the end."""

    @classmethod
    def of(cls, graph: Graph, counts: Mapping[str, Any], events: list[dict[str, Any]] | None = None) -> RunCounts:
        before, after, losses = counts["before"], counts["after"], counts["losses"]
        account = conservation.account(graph, before, after, losses)
        links = LinkLosses(conservation.lost_on_links(graph, before, after), account["sent_by_hosts"], account.get("trimmed"))
        unfit = conservation.violations(graph, before, after, losses) + counts.get("unfit", []) + event_log.faults(events or [])
        return cls(counts["t0_ns"], unfit, account, links, counts, events or [])


def read_counts(experiment: Experiment, folder: Path) -> RunCounts:
    """Returns the counters of a run. `folder` has the files that the ground wrote."""
    ground_counts = plain_json.read(folder / GROUND)
    ground_counts |= {"acks": ack_log.counts(folder)}
    counts = RunCounts.of(experiment.graph, ground_counts, event_log.rows(experiment, folder / EVENTS_DONE))
    paused = {port: values.get("paused_classes", 0) for port, values in ground_counts["after"].items()}
    circle = deadlocks.at_end(experiment.graph, experiment.router, experiment.schedule, folder / "queues.trace", paused)
    return replace(counts, deadlock=circle)


def read_tables(experiment: Experiment, folder: Path, counts: RunCounts) -> dict[str, Iterator[Records]]:
    """Returns the tables of a run, in pieces, because some may be larger than memory. `folder` has the ground's files."""
    t0_ns = counts.t0_ns
    names = Names.of(results.port_rows(experiment.graph))
    flows = tgen_log.read_flows(folder / "flows.bin")
    duration_ns, started = experiment.spec.time.duration_ns, flows["flow"][flows["start_ns"] >= 0]
    queued = experiment.spec.nic.event_queue is not None
    small = {
        "flows": _flow_table(experiment, flows),
        "decisions": nic_log.read_trace(folder, t0_ns, nics.lines_bps(experiment.schedule, experiment.graph)),
        "classes": _class_table(experiment.schedule, flows["flow"]),
        **nic_log.read_counts(folder, duration_ns, started, queued),
        **job_log.read(folder, experiment.schedule, duration_ns),
    }
    balanced = {
        "nexthops": next_hops(counts.found["next_hops"], forwarding.groups_of(experiment), names, duration_ns),
        "reordering": _reordering(counts.found["reordering"], names, duration_ns),
    }
    samples = (records_of(TABLES["tcp"], piece) for piece in tgen_log.sample_pieces(folder / "samples.bin"))
    trace = folder / "queues.trace"
    graph = experiment.graph
    large = {
        "queues": queue_pieces(trace, t0_ns, graph),
        "tcp": samples,
        "class_queues": class_pieces(trace, t0_ns, graph),
        "acks": ack_log.pieces(folder, t0_ns, duration_ns, flows),
    }
    return {name: slices(encode(TABLES[name], records, names)) for name, records in (small | balanced).items()} | large


def next_hops(counts: Mapping[str, Sequence[Sequence[int]]], groups: Iterable[Group], names: Names, duration_ns: int) -> Records:
    """Returns the members of groups that balance, with what they got: fields of struct lab_group_count by the group's name."""
    rows = []
    for group in groups:
        counted = np.array(counts.get(group.ifname, ()), np.uint64)
        members = np.array(group.members if len(counted) else ())
        for number in dict.fromkeys(members.tolist()):  # one that weighs more is there several times
            port = names.port.index(f"{group.switch}-eth{number}")
            rows.append((duration_ns, port, group.number - FIRST_GROUP, *counted[members == number].sum(axis=0).tolist()))
    return np.array(rows, TABLES["nexthops"].dtype)


def _reordering(counts: Mapping[str, Mapping[str, int]], names: Names, duration_ns: int) -> Records:
    rows = [(duration_ns, names.node.index(host), *counted.values()) for host, counted in counts.items()]
    return np.array(rows, TABLES["reordering"].dtype)


def queue_pieces(path: Path, t0_ns: int, graph: Graph) -> Iterator[Records]:
    """Yields the queues of ports in a trace, in pieces of whole sweeps."""
    ports = graph.ports()
    places = {"port": np.arange(len(ports), dtype="<u4")}
    silent = np.array([port.queue.kind != COUNTING for port in ports], bool)
    for records in _pieces(_trace(path, graph), t0_ns, "queues", slice(0, len(ports)), places):
        for name, unknown in TABLES["queues"].unknown.items():
            records[name][silent[records["port"]]] = unknown
        yield records


def class_pieces(path: Path, t0_ns: int, graph: Graph) -> Iterator[Records]:
    """Yields the classes of ports in a trace, in pieces of whole sweeps; nothing where no port has any."""
    trace = _trace(path, graph)
    ports = {port.ifname: number for number, port in enumerate(graph.ports())}
    classes = [(ports[row.port.ifname], row.number) for row in graph.rows() if row.number is not None]
    if not classes:
        return iter(())
    owners, numbers = zip(*classes, strict=True)
    places = {"port": np.array(owners, "<u4"), "class": np.array(numbers, "<u4")}
    return _pieces(trace, t0_ns, "class_queues", slice(len(ports), None), places)


def _trace(path: Path, graph: Graph) -> TraceFile:
    """Returns a trace. Raises ProtocolError if its rows are not the network's."""
    trace = open_trace(path)
    if trace.rows != tuple(row.name for row in graph.rows()):
        raise ProtocolError(f"{path}: its rows are not the ports and classes of this network; run it again")
    return trace


def _pieces(file: TraceFile, t0_ns: int, table: str, rows: slice, places: Mapping[str, npt.NDArray[Any]]) -> Iterator[Records]:
    """Yields some rows of a trace as records of a table. `places`: the columns that name the rows."""
    first: dict[str, npt.NDArray[np.uint64]] = {}
    last_ns = -1
    for trace in file.pieces(PIECE_ROWS):
        if np.any(np.diff(trace.t_ns, prepend=last_ns) <= 0):
            raise ProtocolError(f"{file.path}: its sweeps are out of order; run it again")
        columns = {name: trace.column(name)[:, rows] for name, _ in TABLES[table].columns if name in trace.columns}
        first = first or {name: values[0].copy() for name, values in columns.items()}
        yield queue_records(trace.t_ns - t0_ns, columns, first, table, places)
        last_ns = int(trace.t_ns[-1])


def queue_records(
    t_ns: npt.NDArray[np.int64],
    columns: Mapping[str, npt.NDArray[np.uint64]],
    first: Mapping[str, npt.NDArray[np.uint64]] | None = None,
    table: str = "queues",
    places: Mapping[str, npt.NDArray[Any]] | None = None,
) -> Records:
    """Returns the queue trace of sweeps.

    `t_ns` are times relative to t0 [sweeps], `columns` the state matrix's columns by name [sweeps, rows]. Counters are counted
    from the run's first sweep, which happens at t0: the first of `columns`, unless `first` has its values. Levels stay as they
    are. `places` has the columns of the table that name the rows [rows]; None: all ports, in order. Columns outside the digest
    may be missing: they are unknown.
    """
    sweeps, rows = next(iter(columns.values())).shape
    records = np.zeros(sweeps * rows, TABLES[table].dtype)
    records["t_ns"] = np.repeat(t_ns, rows)
    for name, values in (places or {"port": np.arange(rows, dtype="<u4")}).items():
        records[name] = np.tile(values, sweeps)
    for name, unknown in TABLES[table].unknown.items():
        records[name] = unknown
    for name, values in columns.items():
        since = values[:1] if first is None else first[name]
        records[name] = (values if name in LEVELS or not sweeps else values - since).reshape(-1)
    return records


def _class_table(schedule: Schedule, recorded: npt.NDArray[np.uint32]) -> Records:
    """Returns the workload and the DSCP of the recorded flows; no rows if all are of the one workload and without a DSCP."""
    requests = [schedule.flows[number].request for number in recorded]
    if not any(request.workload or request.dscp for request in requests):
        return empty("classes")
    records = np.zeros(len(requests), TABLES["classes"].dtype)
    records["flow"] = recorded
    records["workload"] = [request.workload for request in requests]
    records["dscp"] = [request.dscp or 0 for request in requests]
    return records


def _controller(spec: Spec, transport: str | None) -> str:
    """Returns the name of the controller of flows over a transport."""
    beside = spec.controller.tcp
    return beside if transport == "tcp" and beside is not None else spec.controller.name


def _flow_table(experiment: Experiment, log: Any) -> Any:
    """Returns tgen's log with the columns that follow from the schedule."""
    scheduled = experiment.schedule.flows
    if len(log) != len(scheduled):
        raise ResultError(f"tgen logged {len(log)} flows of {len(scheduled)}")
    extra = {
        "src": np.array([flow.src for flow in scheduled], dtype=object),
        "dst": np.array([flow.dst for flow in scheduled], dtype=object),
        "controller": np.array([_controller(experiment.spec, flow.request.transport) for flow in scheduled], dtype=object),
        "transport": np.array([flow.request.transport for flow in scheduled], dtype=object),
        "group": np.array([flow.request.group for flow in scheduled], dtype=object),
        "rep": np.array([flow.request.rep for flow in scheduled], dtype=np.uint32),
    }
    columns = {name: log[name] for name in log.dtype.names if name not in extra} | extra
    table = np.empty(len(log), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        table[name] = column
    spare = np.array([flow.request.spare for flow in scheduled], dtype=bool)
    return table[~spare | (table["start_ns"] >= 0)]
