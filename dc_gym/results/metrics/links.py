# SPDX-License-Identifier: Apache-2.0
"""Frames that links lost by their own loss rate. No sweep of the queues counts them; the cables count them over the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAMES = ("lost_on_links", "loss_ratio")


@dataclass(frozen=True, slots=True)
class LinkLosses:
    """Counts of frames over the whole run."""

    lost: Sequence[int]
    """Lost frames of each port, in the order of ports.json."""
    sent_by_hosts: int


def loss_metrics(links: LinkLosses | None) -> dict[str, Any]:
    """Returns the metrics of summary.json; all None if nothing was counted."""
    if links is None:
        return dict.fromkeys(NAMES)
    lost = sum(links.lost)
    return dict(zip(NAMES, (lost, lost / links.sent_by_hosts if links.sent_by_hosts else None), strict=True))
