# SPDX-License-Identifier: Apache-2.0
"""Computes how long flows take to reach their fair shares when one joins or leaves.

An epoch is the time between two changes in the set of long-lived flows (flows that last at least LONG rate intervals). Each epoch
has two measures:

    convergence time         from the change to the first of HOLD successive rate intervals in which Jain's index of the flows'
                             rates over their max-min fair shares is at least 0.95; an epoch of one flow has none
    reaction time of a flow  from the change to the first of HOLD successive intervals in which its rate is within `within` of its
                             new fair share

The resolution of both is one rate interval. An epoch shorter than HOLD intervals is not judged; the next epoch begins where it
ends. An event that did not happen before the epoch's end counts as never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.results.metrics.curves import Curves
from dc_gym.results.metrics.fairness import PAYLOAD_SHARE, max_min
from dc_gym.results.metrics.window import EDGE, FAILED
from dc_gym.results.tables import Records, TableSource

Floats = npt.NDArray[np.float64]
HOLD = 5
LONG = 20
JAIN_TARGET = 0.95
MOST_EPOCHS = 500
MOST_FLOWS = 4096  # long-lived flows; each epoch examines all of them


@dataclass(frozen=True, slots=True)
class Routes:
    """The inputs of a fair share: the ports that each flow crosses, and the rate that its application offers."""

    paths: Sequence[Sequence[int]]
    demand_bps: Floats
    """Offered payload rates; infinite: as much as the flow can get."""
    payload_share: float | Floats = PAYLOAD_SHARE
    """Payload as a share of a full frame; [flows] where flows of several transports share the links."""

    def shares_bps(self, rows: npt.NDArray[np.int64], tables: TableSource) -> Floats:
        """Returns the max-min fair payload rates of these flows as if no others existed."""
        lines = np.array([port["rate_bps"] for port in tables.ports], np.float64)
        paths, demand = [self.paths[row] for row in rows], self.demand_bps[rows]
        if isinstance(self.payload_share, float):
            return max_min(paths, lines * self.payload_share, demand)
        return max_min(paths, lines, demand / self.payload_share[rows]) * self.payload_share[rows]


@dataclass(frozen=True, slots=True)
class Epoch:
    """The epoch that followed one change."""

    start_ns: int
    stop_ns: int
    flows: int
    joined: int
    left: int
    convergence_ns: int | None
    """None: never reached, or the epoch has only one flow."""
    reactions_ns: tuple[int | None, ...]
    """The reaction time of each flow; None: never."""


def epochs(tables: TableSource, duration_ns: int, routes: Routes, interval_ns: int, within: float) -> list[Epoch] | None:
    """Returns all epochs of a run that can be judged; None if there are too many flows or changes to examine each."""
    flows, rows = tables.flows, _long_lived(tables.flows, duration_ns, interval_ns)
    if not len(rows):
        return []
    if len(rows) > MOST_FLOWS:
        return None
    starts = flows["start_ns"][rows]
    ends = np.where(flows["end_ns"][rows] >= 0, flows["end_ns"][rows], duration_ns)
    edges = np.unique(np.concatenate((starts, ends, [duration_ns])))
    spans = [(begin, end) for begin, end in pairwise(edges.tolist()) if end - begin >= HOLD * interval_ns]
    judged = [_edges(begin, end, interval_ns) for begin, end in spans]
    curves = Curves.of(tables, duration_ns, np.concatenate([np.empty(0), *judged]))
    epochs: list[Epoch] = []
    since = int(edges[0]) - 1
    for begin, end in spans:
        here = rows[(starts <= begin) & (ends >= end)]
        if len(here):
            joined, left = (int(((times_ns > since) & (times_ns <= begin)).sum()) for times_ns in (starts, ends))
            epochs.append(
                _epoch(curves, here, (begin, end), (joined, left), routes.shares_bps(here, tables), interval_ns, within)
            )
        since = begin
        if len(epochs) > MOST_EPOCHS:
            return None
    return epochs


def convergence_metrics(epochs: Sequence[Epoch] | None) -> dict[str, Any]:
    """Returns the entries of summary.json: times over epochs and over flows, and how many never got there. All are null if the
    epochs are not known."""
    if epochs is None:
        return dict.fromkeys(convergence_metrics([]))
    shared = [epoch for epoch in epochs if epoch.flows > 1]
    settled = [epoch.convergence_ns for epoch in shared if epoch.convergence_ns is not None]
    reactions = [reaction_ns for epoch in epochs for reaction_ns in epoch.reactions_ns]
    quick = np.array([reaction_ns for reaction_ns in reactions if reaction_ns is not None], np.float64) / 1e9
    return {
        "epochs": len(epochs),
        "convergence_mean_s": float(np.mean(settled)) / 1e9 if settled else None,
        "convergence_max_s": max(settled) / 1e9 if settled else None,
        "convergence_never": len(shared) - len(settled),
        "reaction_p50_s": float(np.percentile(quick, 50)) if len(quick) else None,
        "reaction_p99_s": float(np.percentile(quick, 99)) if len(quick) else None,
        "reaction_never": len(reactions) - len(quick),
    }


def _long_lived(flows: Records, duration_ns: int, interval_ns: int) -> npt.NDArray[np.int64]:
    ends = np.where(flows["end_ns"] >= 0, flows["end_ns"], duration_ns)
    lasted = ends - flows["start_ns"] >= LONG * interval_ns * (1 - EDGE)
    lasting = (flows["start_ns"] >= 0) & lasted & (flows["status"] != FAILED)
    return np.flatnonzero(lasting)


def _epoch(
    curves: Curves,
    rows: npt.NDArray[np.int64],
    span: tuple[int, int],
    changes: tuple[int, int],
    shares: Floats,
    interval_ns: int,
    within: float,
) -> Epoch:
    begin, end = span
    edges = _edges(begin, end, interval_ns)
    ratio = curves.rates_bps(rows, edges) / shares[:, None]
    squares = (ratio**2).sum(axis=0)
    jains = np.divide(ratio.sum(axis=0) ** 2, len(rows) * squares, out=np.zeros(len(squares)), where=squares > 0)
    near = np.abs(ratio - 1) <= within
    together = _first_run(jains[None, :] >= JAIN_TARGET)[0] if len(rows) > 1 else -1
    reactions = tuple(None if first < 0 else int(first) * interval_ns for first in _first_run(near))
    settled = None if together < 0 else int(together) * interval_ns
    return Epoch(begin, end, len(rows), *changes, settled, reactions)


def _edges(begin_ns: int, end_ns: int, interval_ns: int) -> npt.NDArray[np.int64]:
    """Returns the edges of an epoch's rate intervals."""
    return np.arange(begin_ns, end_ns + 1, interval_ns)


def _first_run(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Returns as [rows] the index at which HOLD successive true values first begin; -1 if there are none."""
    sums = np.cumsum(np.pad(flags, ((0, 0), (1, 0))), axis=1)
    full: npt.NDArray[np.bool_] = sums[:, HOLD:] - sums[:, :-HOLD] == HOLD
    return np.where(full.any(axis=1), full.argmax(axis=1), -1)
