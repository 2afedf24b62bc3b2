# SPDX-License-Identifier: Apache-2.0
"""Computes flow completion times and slowdown: of all flows, by group (a flow's purpose), and by size in the papers' bins.

Slowdown is FCT over the FCT of the same flow alone on the idle network (dc_gym/results/metrics/ideal.py). Bins:

    HPCC (Li et al., SIGCOMM 2019)         flows sorted by size, 20 bins of 5 % of the flows each
    Homa (Montazeri et al., SIGCOMM 2018)  the same with 10 bins
    PIAS (Bai et al., NSDI 2015)           (0, 100 kB], (100 kB, 10 MB], above

All flows over TCP or RDMA with a size that started in [warm-up, cut-off) are counted. A UDP flow has no completion time, since
lost packets are not sent again. A flow that had not finished when the run ended is counted in its bin as unfinished; percentiles
are over the finished flows. Nothing is clamped: a slowdown below 1 would be visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.results.metrics.window import Window
from dc_gym.results.tables import STATUSES, Records
from dc_gym.traffic.flows import GROUPS, TRANSPORTS

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
EQUAL_BINS = {"hpcc": 20, "homa": 10}
UDP, DONE = TRANSPORTS.index("udp"), STATUSES.index("done")
PIAS_EDGES = (100_000, 10_000_000)
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
SLOWDOWN_NAMES = tuple(f"slowdown_{name}" for name in ("mean", *PERCENTILES))
FCT_NAMES = ("fct_mean_s", "fct_p50_s", "fct_p95_s", "fct_p99_s", "fct_p999_s")
BIN_SETS = ("hpcc", "pias", "homa")


@dataclass(frozen=True, slots=True)
class Sized:
    """The flows that count: for each its group (an index into GROUPS), its size, its FCT and its slowdown.

    NaN: unfinished, or no ideal is known.
    """

    group: Rows
    size_bytes: npt.NDArray[np.int64]
    fct_s: Floats
    slowdown: Floats

    @classmethod
    def of(cls, flows: Records, window: Window, ideal_ns: Floats | None = None) -> Sized:
        """Returns the flows that started in the window. `ideal_ns`: the ideal FCT of every flow, NaN where there is none."""
        mask = counted(flows, window)
        fct = np.where(flows["status"] == DONE, flows["fct_ns"], np.nan)[mask]
        ideal = np.full(len(fct), np.nan) if ideal_ns is None else ideal_ns[mask]
        return cls(flows["group"][mask].astype(np.int64), flows["size_bytes"][mask].astype(np.int64), fct / 1e9, fct / ideal)

    @property
    def finished(self) -> npt.NDArray[np.bool_]:
        return np.isfinite(self.fct_s)

    def spread(self) -> dict[str, float | None]:
        """Returns mean and percentiles of completion times and slowdown."""
        return _spread("fct_", self.fct_s, "_s") | _spread("slowdown_", self.slowdown)

    def bins(self, name: str) -> list[dict[str, Any]]:
        """Returns the bins of a paper, smallest flows first. Bins without flows are left out."""
        order = np.argsort(self.size_bytes, kind="stable")
        if name in EQUAL_BINS:
            parts: Iterable[Rows] = np.array_split(order, min(EQUAL_BINS[name], len(order))) if len(order) else []
        else:
            sizes = self.size_bytes[order]
            parts = np.split(order, np.searchsorted(sizes, PIAS_EDGES, side="right"))
        return [self._bin(rows) for rows in parts if len(rows)]

    def groups(self) -> list[dict[str, Any]]:
        """Returns one bin for each group, in the order of GROUPS. Groups without flows are left out."""
        return [{"group": GROUPS[number], **self._bin(np.flatnonzero(self.group == number))} for number in np.unique(self.group)]

    def _bin(self, rows: Rows) -> dict[str, Any]:
        sizes, fct = self.size_bytes[rows], self.fct_s[rows]
        head = {"from_bytes": int(sizes.min()), "to_bytes": int(sizes.max()), "flows": len(rows)}
        unfinished = int((~np.isfinite(fct)).sum())
        return head | {"unfinished": unfinished} | _spread("fct_", fct, "_s") | _spread("slowdown_", self.slowdown[rows])


def counted(flows: Records, window: Window) -> npt.NDArray[np.bool_]:
    """Returns a mask of the flows with a size, except UDP, that started in the window."""
    sized = (flows["size_bytes"] > 0) & (flows["transport"] != UDP)
    mask: npt.NDArray[np.bool_] = sized & window.holds(flows["start_ns"])
    return mask


def fct_metrics(flows: Records, window: Window, ideal_ns: Floats | None = None) -> dict[str, Any]:
    """Returns the entries of summary.json: counts of flows, completion times, slowdown, and the last two by bins."""
    sized = Sized.of(flows, window, ideal_ns)
    counts = {f"flows_{name}": int((flows["status"] == row).sum()) for row, name in enumerate(STATUSES)}
    unfinished = int((~sized.finished).sum())
    return (
        {"retransmits": int(flows["retransmits"].sum()), "flows": len(flows)}
        | counts
        | {"fct_flows": len(sized.size_bytes), "fct_unfinished": unfinished}
        | sized.spread()
        | {"slowdown_flows": int(np.isfinite(sized.slowdown).sum()), "fct_groups": sized.groups()}
        | {f"fct_bins_{name}": sized.bins(name) for name in BIN_SETS}
    )


def _spread(prefix: str, values: Floats, suffix: str = "") -> dict[str, float | None]:
    """Returns mean and percentiles of the finite values; None without any."""
    known = values[np.isfinite(values)]
    if not len(known):
        return {f"{prefix}{name}{suffix}": None for name in ("mean", *PERCENTILES)}
    percentiles = np.percentile(known, list(PERCENTILES.values()))
    numbers = [float(known.mean()), *map(float, percentiles)]
    return {f"{prefix}{name}{suffix}": number for name, number in zip(("mean", *PERCENTILES), numbers, strict=True)}
