# SPDX-License-Identifier: Apache-2.0
"""Frames that links lost by their own loss rate, and that ports trimmed. No sweep counts them; cables and ports do over the whole
run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAMES = ("lost_on_links", "loss_ratio", "trimmed")


@dataclass(frozen=True, slots=True)
class LinkLosses:
    """Counts of frames over the whole run."""

    lost: Sequence[int]
    """Lost frames of each port, in the order of ports.json."""
    sent_by_hosts: int
    trimmed: int | None = None
    """None: ports do not trim."""


def loss_metrics(links: LinkLosses | None) -> dict[str, Any]:
    """Returns the metrics of summary.json; all None if nothing was counted."""
    if links is None:
        return dict.fromkeys(NAMES)
    lost = sum(links.lost)
    ratio = lost / links.sent_by_hosts if links.sent_by_hosts else None
    return dict(zip(NAMES, (lost, ratio, links.trimmed), strict=True))
