# SPDX-License-Identifier: Apache-2.0
"""The shell's `queues`: contents, limit and counters of each port's queue, all at one instant of virtual time."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from dc_gym.base.readable import NOTHING, columns, number, quantity
from dc_gym.run.grounds.guest.report import count

if TYPE_CHECKING:  # imports Mininet, which takes long to import
    from dc_gym.topologies.realize.fabric import Fabric

HEAD = ("port", "backlog", "packets", "limit", "K", "marks", "drops", "sent")


def table(fabric: Fabric, ports: Collection[str]) -> str:
    """Returns the lines for these ports, below a head."""
    devices = fabric.devices()
    settings, counts, marks = fabric.read_back(devices), count(fabric, devices), fabric.marks()
    rows = [HEAD]
    for name in ports:
        port_settings, counted = settings[name], counts[name]
        k_bytes = port_settings["k_bytes"]
        rows.append(
            (
                name,
                quantity(counted["queue_backlog_bytes"], "bytes"),
                number(counted["queue_backlog_packets"]),
                quantity(float(port_settings["buffer_bytes"]), "bytes"),
                NOTHING if k_bytes is None else quantity(float(k_bytes), "bytes"),
                str(marks.get(name, 0)),
                str(counted["queue_drops"]),
                quantity(counted["queue_tx_bytes"], "bytes"),
            )
        )
    return columns(rows)
