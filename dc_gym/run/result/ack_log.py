# SPDX-License-Identifier: Apache-2.0
"""Reads the file in which the lab's kernel recorded ACKs (drivers/lab_acks.c; layout: struct lab_ack of drivers/lab.h)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dc_gym.base.errors import ProtocolError
from dc_gym.kernel.lab import ACKS
from dc_gym.results.tables import PIECE_ROWS, TABLES, Records

ACK_DTYPE = np.dtype(
    [
        ("t_ns", "<u8"),
        ("bytes_acked", "<u8"),
        ("flow", "<u4"),
        ("srtt_us_8", "<u4"),
        ("cwnd_packets", "<u4"),
        ("ssthresh_packets", "<u4"),
        ("delivered_packets", "<u4"),
        ("in_flight_packets", "<u4"),
        ("unacked_bytes", "<u4"),
        ("ca_state", "<u4"),
    ]
)
END_DTYPE = np.dtype([("kept", "<u8"), ("lost", "<u8")])
NS_OF_SRTT = 125


def counts(folder: Path) -> dict[str, int]:
    """Returns how many ACKs were recorded (`kept`), and how many found no room (`lost`); nothing if none was to be."""
    path = folder / ACKS
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        records, rest = divmod(file.seek(0, 2) - END_DTYPE.itemsize, ACK_DTYPE.itemsize)
        file.seek(max(0, records) * ACK_DTYPE.itemsize)
        end = np.fromfile(file, END_DTYPE, 1)
    if rest or len(end) != 1 or end["kept"][0] != records:
        raise ProtocolError(f"{path}: not a whole record of ACKs; run it again")
    return {name: int(end[name][0]) for name in ("kept", "lost")}


def pieces(folder: Path, t0_ns: int, duration_ns: int, flows: Records) -> Iterator[Records]:
    """Yields the table of ACKs until the run's end, sorted. `flows` is the table of flows, by flow number."""
    kept, left = counts(folder).get("kept", 0), np.empty(0, ACK_DTYPE)
    for start in range(0, kept, PIECE_ROWS):
        count = min(PIECE_ROWS, kept - start)
        read = np.concatenate([left, np.fromfile(folder / ACKS, ACK_DTYPE, count, offset=start * ACK_DTYPE.itemsize)])
        whole = len(read) if start + count == kept else int(np.searchsorted(read["t_ns"], read["t_ns"][-1]))
        read, left = read[:whole], read[whole:]
        read = read[read["t_ns"] <= t0_ns + duration_ns]
        if len(read):
            yield _table(read[np.lexsort((read["flow"], read["t_ns"]))], t0_ns, flows)


def _table(read: Records, t0_ns: int, flows: Records) -> Records:
    """Returns records of the table. The kernel counts the SYN and the FIN as bytes, too; the latter comes after all payload."""
    records = np.empty(len(read), TABLES["acks"].dtype)
    for name in set(ACK_DTYPE.names or ()) & set(records.dtype.names or ()):
        records[name] = read[name]
    records["t_ns"] = read["t_ns"].astype(np.int64) - t0_ns
    records["srtt_ns"] = read["srtt_us_8"].astype(np.uint64) * NS_OF_SRTT
    records["bytes_acked"] = np.minimum(np.maximum(read["bytes_acked"], 1) - 1, flows["sent_bytes"][read["flow"]])
    return records
