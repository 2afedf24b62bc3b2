# SPDX-License-Identifier: Apache-2.0
"""The disk space and memory that a run will need, estimated from its spec before anything boots.

A run that is sure to fill the disk is refused. Bytes of records are counted as qmon and tgen write them. The trace of queues is
exact. Samples of flows with a size are a lower bound, because how long such a flow takes is not known. Decisions of NICs are not
counted. The load of a captured port is not known either: its file is at most the capacity of its link in full frames, and
only warned of.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import MachineError
from dc_gym.base.progress import Progress
from dc_gym.base.readable import quantity
from dc_gym.kernel.memory import machine_room
from dc_gym.run.plan.experiment import Experiment
from dc_gym.traffic.schedule import Flow

CELL_BYTES, CELLS, TIME_BYTES = 8, 15, 8
"""The parts of a sweep in the trace of queues: bytes of a cell, cells of a port or class, bytes of the time."""
SAMPLE_BYTES = 72
"""A sample of a flow in tgen's file."""
TABLES_SHARE = 1 / 4
"""Room for the compressed tables, as a share of the records from which they are made."""
BLOCK_BYTES = 44
"""Room of a captured frame in its file beside its bytes."""
BASE_BYTES, BYTES_PER_FLOW, BYTES_PER_SWEEP = 350 << 20, 4 << 10, 64
"""Memory of this process, beside the lab's: at least, for each flow, and for each sweep (the series of one port)."""


@dataclass(frozen=True, slots=True)
class RoomNeeded:
    """Bytes that a run needs."""

    records: int
    """On disk, until the tables are made of them."""
    captures: int
    """On disk, for the files of captured ports, if their links carry full frames all the time."""
    memory: int
    """For the process that makes the result."""

    @classmethod
    def of(cls, experiment: Experiment) -> RoomNeeded:
        spec, flows = experiment.spec, experiment.schedule.flows
        sweeps = spec.time.duration_ns // spec.monitor.interval_ns + 1
        rows = len(experiment.graph.rows())
        trace = sweeps * (TIME_BYTES + rows * CELLS * CELL_BYTES)
        fastest_bps = max((way.rate_bps for cable in experiment.graph.cables for way in cable.directions()), default=1)
        sampled_ns = sum(_least_ns(flow, spec.time.duration_ns, fastest_bps) for flow in flows)
        samples = sampled_ns // spec.monitor.tcp_interval_ns * SAMPLE_BYTES
        return cls(
            trace + samples, _capture_bytes(experiment), BASE_BYTES + len(flows) * BYTES_PER_FLOW + sweeps * BYTES_PER_SWEEP
        )


def check(experiment: Experiment, out: Path, progress: Progress) -> None:
    """Raises MachineError if the run's records cannot find room beside `out`, and warns where it may become too little."""
    needed, disk, memory = RoomNeeded.of(experiment), free_bytes(out), machine_room()
    remedy = "raise monitor.interval and monitor.tcp_interval, shorten time.duration"
    if disk < needed.records:
        raise MachineError(
            f"{out}: the run records {_size(needed.records)}, and the disk has {_size(disk)}; {remedy}, or give another --out"
        )
    if disk < needed.records * (1 + TABLES_SHARE):
        progress.announce(
            f"warning: the disk may become full: the run records {_size(needed.records)} and makes tables of them, and {out}"
            f" has {_size(disk)}; {remedy}, or give another --out"
        )
    elif disk < needed.records * (1 + TABLES_SHARE) + needed.captures:
        progress.announce(
            f"warning: the disk may become full: captured ports may write {_size(needed.captures)}, and {out} has {_size(disk)};"
            " lower capture.snap_length, capture fewer ports, shorten time.duration, or give another --out"
        )
    if memory < needed.memory:
        progress.announce(
            f"warning: memory may become short: the result needs about {_size(needed.memory)}, and the machine has"
            f" {_size(memory)} left; {remedy}, or run fewer at a time"
        )


def free_bytes(path: Path) -> int:
    """Returns the bytes that this user may still write to the file system on which a new `path` will lie."""
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    file_system = os.statvfs(there)
    return file_system.f_bavail * file_system.f_frsize


def _least_ns(flow: Flow, duration_ns: int, fastest_bps: int) -> int:
    """Returns the time for which a flow is sampled at least."""
    request = flow.request
    if request.spare or request.gate >= 0:
        return 0
    limits = [(request.stop_ns or duration_ns) - request.start_ns, duration_ns - request.start_ns]
    limits += [request.length_ns] if request.length_ns else []
    limits += [request.size_bytes * 8 * 10**9 // min(request.rate_bps or fastest_bps, fastest_bps)] if request.size_bytes else []
    return max(0, min(limits))


def _capture_bytes(experiment: Experiment) -> int:
    """Returns the bytes of the files of all captured ports whose links carry full frames all the time."""
    capture, graph, total = experiment.spec.capture, experiment.graph, 0
    record_bytes = min(capture.snap_bytes, graph.frame_bytes) + BLOCK_BYTES
    for port in graph.ports():
        if port.ifname in capture.ports:
            frames = graph.cable_of(port).rate_bps * experiment.spec.time.duration_ns // (graph.frame_bytes * 8 * 10**9)
            total += frames * record_bytes * (2 if capture.direction == "both" else 1)
    return total


def _size(count: int) -> str:
    return quantity(count, "bytes")
