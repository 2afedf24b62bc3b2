# SPDX-License-Identifier: Apache-2.0
"""Reads the records of a run's NICs: their counters for each flow, and their algorithm's decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError
from dc_gym.results.tables import TABLES, Records, empty
from dc_gym.run.plan.nics import DECISION_DTYPE, LINE_RATE
from dc_gym.run.plan.plan import DECISIONS
from dc_gym.run.result import tgen_log

COUNTS = "nics.bin"


def read_counts(folder: Path, duration_ns: int, started: npt.NDArray[np.uint32], queued: bool) -> dict[str, Records]:
    """Returns the counters of a run's NICs for the flows that started, as tables by name.

    nic_events is empty unless `queued`: the NICs' queues of events had a limit.
    """
    tables = {name: empty(name) for name in ("nic_flows", "nic_events")}
    if not (folder / COUNTS).is_file():
        return tables
    counted = tgen_log.read_nics(folder / COUNTS)
    counted = counted[np.isin(counted["flow"], started)]
    for table in tables if queued else ("nic_flows",):
        records = np.zeros(len(counted), TABLES[table].dtype)
        for name in set(records.dtype.names or ()) - {"t_ns"}:
            records[name] = counted[name]
        records["t_ns"] = duration_ns
        tables[table] = records
    return tables


def read_trace(folder: Path, t0_ns: int, of_flow_bps: dict[int, int]) -> Records:
    """Returns the table of decisions. `of_flow_bps` is the rate of each flow's NIC; decisions are fractions of it."""
    if not (folder / DECISIONS).is_file():
        return empty("decisions")
    data = (folder / DECISIONS).read_bytes()
    if len(data) % DECISION_DTYPE.itemsize:
        raise ProtocolError(f"{folder / DECISIONS}: {len(data)} bytes are not a whole number of decisions; run it again")
    read = np.frombuffer(data, DECISION_DTYPE)
    records = np.zeros(len(read), TABLES["decisions"].dtype)
    for name in ("flow", "event", "flags", "rtt_ns", "window_bytes"):
        records[name] = read[name]
    records["t_ns"] = read["t_ns"].astype(np.int64) - t0_ns
    lines = np.zeros(max(of_flow_bps, default=-1) + 1, np.uint64)
    lines[list(of_flow_bps)] = list(of_flow_bps.values())
    for name, column in (("rate_before", "rate_before_bps"), ("rate", "rate_bps")):
        records[column] = _part(lines[read["flow"]], read[name].astype(np.uint64))
    return records


def _part(line: Any, rate: Any) -> Any:
    """Returns line x rate / 2^20 in integers that do not overflow."""
    whole, rest = line // LINE_RATE, line % LINE_RATE
    return whole * rate + rest * rate // LINE_RATE
