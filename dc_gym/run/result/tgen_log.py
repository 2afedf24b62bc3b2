# SPDX-License-Identifier: Apache-2.0
"""Reads tgen's output files: ``flows.bin``, ``samples.bin``, ``nics.bin`` and ``job.bin`` (layouts: traffic/tgen/tgen_log.h).

Records are numpy structured arrays with columns of the result's tables. Times are nanoseconds after t0. A file that does not have
exactly tgen's format is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.errors import ProtocolError
from dc_gym.results.tables import PIECE_ROWS, STATUSES, TABLES, Records

VERSION = 1

HEADER_DTYPE = np.dtype(
    [
        ("magic", "V8"),
        ("version", "<u4"),
        ("record_size", "<u4"),
        ("count", "<u8"),
        ("t0_ns", "<i8"),
        ("duration_ns", "<i8"),
        ("sample_ns", "<i8"),
        ("seed", "<u8"),
        ("reserved", "<u8"),
    ]
)
# The columns of results/tables.py that tgen records, in the order of its own records.
FLOW_DTYPE = TABLES["flows"].record(
    *("flow", "src_port", "dst_port", "status", "error", "due_ns", "start_ns", "established_ns", "end_ns"),
    *("size_bytes", "sent_bytes", "received_bytes", "retransmits", "fct_ns"),
)
SAMPLE_DTYPE = TABLES["tcp"].record(
    *("t_ns", "delivery_rate_bps", "bytes_acked", "bytes_received", "pacing_rate_bps"),
    *("flow", "srtt_us", "min_rtt_us", "cwnd_packets", "notsent_bytes", "retransmits", "ssthresh_packets", "ca_state"),
)
NIC_COUNTS_DTYPE = TABLES["nic_flows"].record(
    *("flow", "rtt_ns", "least_rtt_ns", "window_bytes", "rate_bps", "sent_packets", "sent_bytes", "resent_packets"),
    *("received_packets", "marked_packets", "dropped_packets", "messages", "broken_messages"),
    *("cnps", "nacks", "timeouts", "rtts", "probes", "probe_bytes", "decisions"),
)
NIC_DTYPE = np.dtype([*NIC_COUNTS_DTYPE.descr, *TABLES["nic_events"].record("lost_events").descr])
"""A NIC's counts for a flow, which the tables nic_flows and nic_events have."""
JOB_DTYPE = np.dtype([("start_ns", "<i8"), ("end_ns", "<i8")])
"""A node of a job; -1: it has not begun or ended."""


@dataclass(frozen=True, slots=True)
class TgenHeader:
    """The settings of the run that wrote a file."""

    t0_ns: int  # CLOCK_MONOTONIC
    duration_ns: int
    sample_ns: int  # 0: no samples were requested
    seed: int


def read_header(path: Path) -> TgenHeader:
    """Returns the header of either file."""
    with path.open("rb") as file:
        return _header(path, file.read(HEADER_DTYPE.itemsize))[0]


def read_flows(path: Path) -> Records:
    """Returns one record for each flow, in order of ``flow``. ``status`` is an index into STATUSES."""
    _, records = _read(path, b"DCGYMFL2", FLOW_DTYPE)
    _require(path, bool(np.array_equal(records["flow"], np.arange(len(records)))), "flows are not numbered 0, 1, 2, ...")
    _require(path, bool(np.all(records["status"] < len(STATUSES))), "a status that is not known")
    return records


def read_samples(path: Path) -> Records:
    """Returns one record for each sample time and flow under way, ordered by ``t_ns``, then ``flow``."""
    return np.concatenate([np.empty(0, SAMPLE_DTYPE), *sample_pieces(path)])


def sample_pieces(path: Path) -> Iterator[Records]:
    """Yields the records of `read_samples`, at most PIECE_ROWS at a time."""
    header, pieces = _open(path, b"DCGYMSA2", SAMPLE_DTYPE)
    last = np.empty(0, SAMPLE_DTYPE)
    for records in pieces:
        _require(path, header.sample_ns > 0, "samples, though none were asked for")
        both = np.concatenate([last, records])
        t, flow = both["t_ns"], both["flow"].astype(np.int64)
        ordered = (np.diff(t) > 0) | ((np.diff(t) == 0) & (np.diff(flow) > 0))
        _require(path, bool(np.all(ordered)), "samples are out of order")
        _require(path, bool(np.all(t % header.sample_ns == 0)), "a sample that is not at a multiple of the interval")
        _require(path, bool(np.all((t >= 0) & (t < header.duration_ns))), "a sample outside the run")
        last = records[-1:]
        yield records


def read_nics(path: Path) -> Records:
    """Returns the counts of the NICs: one record for each RDMA flow, in order of ``flow``."""
    _, records = _read(path, b"DCGYMNI1", NIC_DTYPE)
    _require(path, bool(np.all(np.diff(records["flow"].astype(np.int64)) > 0)), "flows are out of order")
    return records


def read_job(path: Path) -> Records:
    """Returns the beginning and the end of each node of the jobs, in the order of their plan."""
    return _read(path, b"DCGYMJO1", JOB_DTYPE)[1]


def _require(path: Path, holds: bool, problem: str) -> None:
    if not holds:
        raise ProtocolError(f"{path}: {problem}; run tgen again (a file called *.partial is of a run that did not end)")


def _header(path: Path, data: bytes) -> tuple[TgenHeader, np.void]:
    _require(path, len(data) >= HEADER_DTYPE.itemsize, f"{len(data)} bytes are too few for a header")
    raw = np.frombuffer(data, HEADER_DTYPE, count=1)[0]
    _require(path, raw["version"] == VERSION, f"version {raw['version']}, this reader knows {VERSION}")
    _require(path, raw["duration_ns"] > 0 and raw["sample_ns"] >= 0, "a duration that is not positive, or an interval below 0")
    return TgenHeader(*(int(raw[name]) for name in ("t0_ns", "duration_ns", "sample_ns", "seed"))), raw


def _read(path: Path, magic: bytes, dtype: np.dtype[Any]) -> tuple[TgenHeader, Records]:
    header, pieces = _open(path, magic, dtype)
    return header, np.concatenate([np.empty(0, dtype), *pieces])


def _open(path: Path, magic: bytes, dtype: np.dtype[Any]) -> tuple[TgenHeader, Iterator[Records]]:
    """Returns the header of a file, and its records in pieces."""
    with path.open("rb") as file:
        header, raw = _header(path, file.read(HEADER_DTYPE.itemsize))
    _require(path, raw["magic"].tobytes() == magic, f"magic {raw['magic'].tobytes()!r} instead of {magic!r}")
    _require(path, raw["record_size"] == dtype.itemsize, f"records of {raw['record_size']} B instead of {dtype.itemsize}")
    body, count = path.stat().st_size - HEADER_DTYPE.itemsize, int(raw["count"])
    _require(path, body == count * dtype.itemsize, f"{body} bytes are not {count} records")
    return header, _pieces(path, dtype, count)


def _pieces(path: Path, dtype: np.dtype[Any], count: int) -> Iterator[Records]:
    with path.open("rb") as file:
        file.seek(HEADER_DTYPE.itemsize)
        for start in range(0, count, PIECE_ROWS):
            yield np.fromfile(file, dtype, min(PIECE_ROWS, count - start))
