# SPDX-License-Identifier: Apache-2.0
"""Shows a lab as one plain line, for logs and pipes."""

from __future__ import annotations

import numpy as np

from dc_gym.base.readable import quantity
from dc_gym.cli.watch.places import Place
from dc_gym.cli.watch.screen import clock
from dc_gym.cli.watch.snapshot import Change
from dc_gym.cli.watch.training import TrainingStatus

__all__ = ["of"]


def of(lab_place: Place, change: Change, training: TrainingStatus | None) -> str:
    """Returns a line such as: t0 + 12.3 s of 30 s, 4.2x real time; queue s1-eth3 123,456 B (31 %), drops 0/s, marks 12/s; 4
    flows, srtt 9 ms."""
    parts = [
        clock(change),
        ", ".join([_fullest(change), *(_sum(change, name) for name in ("drops", "marks") if change.elapsed_s)]),
    ]
    parts += [words for words in (_rates(change), _flows(change)) if words]
    if not lab_place.alone:
        parts[0] = f"{lab_place.name}: {parts[0]}"
    return "; ".join(parts + ([str(training)] if training is not None else []))


def _fullest(change: Change) -> str:
    backlog = change.value("backlog_bytes")
    row = int(np.argmax(backlog))
    share = backlog[row] / change.network.buffer_bytes[row]
    words = f"queue {change.network.ports[row]} {quantity(backlog[row], 'bytes', 3)}"
    return words if np.isnan(share) else f"{words} ({100 * share:.0f} %)"


def _sum(change: Change, column: str) -> str:
    return f"{column} {change.per_s(column).sum():,.0f}/s"


def _rates(change: Change) -> str:
    rates = change.now.rates
    if rates is None:
        return ""
    sums = quantity(rates.wanted_bps.sum(), "bps", 3), quantity(rates.enforced_bps.sum(), "bps", 3)
    return f"hosts want {sums[0]}, have {sums[1]}"


def _flows(change: Change) -> str:
    flows = change.now.flows
    if flows is None:
        return f"up to {change.value('active_flows').max():.0f} flows at a port"
    known = flows.srtt_us[~np.isnan(flows.srtt_us)]
    return f"{len(flows.number)} flows" + (f", srtt {quantity(known.mean(), 'us', 3)}" if len(known) else "")
