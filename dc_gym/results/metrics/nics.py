# SPDX-License-Identifier: Apache-2.0
"""Metrics of the NICs, for flows over RDMA: decisions and probes, and the losses that their transport had to repair."""

from __future__ import annotations

from typing import Any

import numpy as np

from dc_gym.results.metrics.window import Window
from dc_gym.results.tables import Records, TableSource

NAMES = ("decision_rate", "probe_share", "resent_share", "cnps", "nacks", "timeouts", "broken_messages", "lost_events")


def nic_metrics(tables: TableSource, window: Window) -> dict[str, Any]:
    """Returns the entries of summary.json; all None if no flow went over RDMA."""
    nics = tables.nic_flows
    if not len(nics):
        return {f"nic_{name}": None for name in NAMES}
    sent_bytes, sent = int(nics["sent_bytes"].sum()), int(nics["sent_packets"].sum())
    active_s = _active_s(tables.flows, nics, window)
    values = {
        "decision_rate": int(nics["decisions"].sum()) / active_s if active_s else None,
        "probe_share": int(nics["probe_bytes"].sum()) / sent_bytes if sent_bytes else None,
        "resent_share": int(nics["resent_packets"].sum()) / sent if sent else None,
        **{name: int(nics[name].sum()) for name in ("cnps", "nacks", "timeouts", "broken_messages")},
        "lost_events": _lost_events(tables),
    }
    return {f"nic_{name}": values[name] for name in NAMES}


def _lost_events(tables: TableSource) -> int | None:
    """Returns the number of events that found a queue full; None if queues had no limit."""
    sums = [int(piece["lost_events"].sum()) for piece in tables.pieces("nic_events", "lost_events")]
    return sum(sums) if sums else None


def _active_s(flows: Records, nics: Records, window: Window) -> float:
    """Returns the sum of the times for which these flows were under way."""
    nic_flows = flows[np.isin(flows["flow"], nics["flow"]) & (flows["start_ns"] >= 0)]
    ends = np.where(nic_flows["end_ns"] >= 0, nic_flows["end_ns"], window.stop_ns)
    return float((ends - nic_flows["start_ns"]).sum()) / 1e9
