# SPDX-License-Identifier: Apache-2.0
"""Metrics of each class of flows. A class has one transport, one controller and one DSCP. A run with one class alone has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.results.metrics.fairness import fairness_of
from dc_gym.results.metrics.fct import Sized
from dc_gym.results.metrics.window import Window
from dc_gym.results.tables import STATUSES, TableSource

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
MOST_CLASSES = 64
IDENTITY = ("transport", "controller", "dscp")
FCT_NAMES = ("fct_mean_s", "fct_p50_s", "fct_p99_s", "slowdown_mean", "slowdown_p50", "slowdown_p99")
DONE = STATUSES.index("done")


@dataclass(frozen=True, slots=True)
class FlowClass:
    """The flows of one transport, controller and DSCP."""

    transport: str
    controller: str
    dscp: int
    mask: Mask
    """[flows]: which rows of the table of flows belong to it."""

    @property
    def label(self) -> str:
        return label({"transport": self.transport, "controller": self.controller, "dscp": self.dscp})


def label(entry: Mapping[str, Any]) -> str:
    """Returns the name of a class in tables and figures, from its entry in summary.json. UDP has no controller."""
    transport, dscp = entry["transport"], entry["dscp"]
    name = transport if transport == "udp" else f"{transport} {entry['controller']}"
    return f"{name}, DSCP {dscp}" if dscp else str(name)


def flat(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the numbers of all classes by name, such as "tcp, DSCP 10: goodput_bps". The controllers are not in the names, so
    that two runs with different ones can be compared."""
    numbers: dict[str, Any] = {}
    for entry in summary.get("classes") or ():
        class_name = f"{entry['transport']}, DSCP {entry['dscp']}" if entry["dscp"] else entry["transport"]
        numbers |= {f"{class_name}: {name}": value for name, value in entry.items() if name not in IDENTITY}
    return numbers


def dscps(tables: TableSource) -> npt.NDArray[np.int64]:
    """Returns the DSCP of each flow."""
    flow_dscps = np.zeros(len(tables.flows), np.int64)
    known = tables.classes
    if len(known):
        rows = np.searchsorted(known["flow"], tables.flows["flow"])
        flow_dscps[:] = known["dscp"][np.minimum(rows, len(known) - 1)]
    return flow_dscps


def classes_of(tables: TableSource) -> list[FlowClass]:
    """Returns the classes of a run in the order of their first flow; none if there is only one, or too many to list."""
    flows, names = tables.flows, tables.names
    of_flow = list(zip(flows["transport"].tolist(), flows["controller"].tolist(), dscps(tables).tolist(), strict=True))
    keys = dict.fromkeys(of_flow)
    if not 1 < len(keys) <= MOST_CLASSES:
        return []
    numbers = {key: number for number, key in enumerate(keys)}
    numbered = np.array([numbers[key] for key in of_flow], np.int64)
    return [
        FlowClass(names.transport[transport], names.controller[controller], dscp, numbered == number)
        for number, (transport, controller, dscp) in enumerate(keys)
    ]


def class_metrics(
    tables: TableSource, window: Window, starts: Window, goodput: Floats, steady: Mask, ideal_ns: Floats | None
) -> list[dict[str, Any]] | None:
    """Returns the entries of summary.json, one a class; None with one class alone, or with too many to list.

    Args:
        tables: The tables of the run.
        window: The window of goodput and of samples.
        starts: The window of start times of the flows whose completion counts.
        goodput: The goodput of each flow in bit/s.
        steady: The flows that were active in the whole window.
        ideal_ns: The ideal completion time of each flow, if it is known.
    """
    classes = classes_of(tables)
    if not classes:
        return None
    srtt, total = _mean_srtt_us(tables, window, classes), float(goodput.sum())
    return [
        {"transport": flow_class.transport, "controller": flow_class.controller, "dscp": flow_class.dscp}
        | _counts(tables, flow_class)
        | {"goodput_bps": float(goodput[flow_class.mask].sum())}
        | {"goodput_share": float(goodput[flow_class.mask].sum()) / total if total else None}
        | fairness_of(goodput[flow_class.mask & steady])
        | {"mean_srtt_us": srtt_us}
        | _completion(tables, flow_class, starts, ideal_ns)
        for flow_class, srtt_us in zip(classes, srtt, strict=True)
    ]


def _counts(tables: TableSource, flow_class: FlowClass) -> dict[str, int]:
    flows = tables.flows[flow_class.mask]
    completed = int((flows["status"] == DONE).sum())
    return {"flows": len(flows), "flows_done": completed, "retransmits": int(flows["retransmits"].sum())}


def _completion(tables: TableSource, flow_class: FlowClass, starts: Window, ideal_ns: Floats | None) -> dict[str, Any]:
    """Returns completion times and slowdown of the class."""
    sized = Sized.of(tables.flows[flow_class.mask], starts, None if ideal_ns is None else ideal_ns[flow_class.mask])
    spread = sized.spread()
    unfinished = int((~sized.finished).sum())
    return {"fct_flows": len(sized.size_bytes), "fct_unfinished": unfinished} | {name: spread[name] for name in FCT_NAMES}


def _mean_srtt_us(tables: TableSource, window: Window, classes: list[FlowClass]) -> list[float | None]:
    """Returns for each class the mean over its flows' samples in the window that have an estimate."""
    of_flow = np.zeros(len(tables.flows), np.int64)
    for number, flow_class in enumerate(classes):
        of_flow[flow_class.mask] = number
    sums, counts = (np.zeros(len(classes), np.int64) for _ in range(2))
    for piece in tables.pieces("tcp", "t_ns", "flow", "srtt_us"):
        rows = window.holds(piece["t_ns"]) & (piece["srtt_us"] > 0)
        numbers = of_flow[np.searchsorted(tables.flows["flow"], piece["flow"][rows])]
        counts += np.bincount(numbers, minlength=len(classes))
        np.add.at(sums, numbers, piece["srtt_us"][rows].astype(np.int64))
    return [int(total) / int(count) if count else None for total, count in zip(sums, counts, strict=True)]
