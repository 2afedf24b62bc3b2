# SPDX-License-Identifier: Apache-2.0
"""Actuator `rate`: the rate of a host's egress, enforced by a token bucket filter (tbf).

A change repeats burst and limit, since the kernel takes all parameters anew. The kernel counts whole bytes a second.
"""

from __future__ import annotations

from typing import Any

from dc_gym.ctrl.actuators.actuator import Actuator, Attribute, Bounds, Place, Quantity, register
from dc_gym.topologies.graph import Graph, Port
from dc_gym.topologies.realize import tc

KEEP = 16
"""An attribute of the lab's kernel (LAB_TCA_TBF_KEEP of kernel/drivers/lab.h): a change keeps the tokens earned so far."""


def _bounds(graph: Graph, port: Port, keys: Any) -> tuple[Bounds]:
    line_bps = graph.cable_of(port).rate_bps
    return (Bounds(min(keys.floor_bps, line_bps), line_bps, line_bps),)


def _attributes(graph: Graph, port: Port, keys: Any) -> tuple[Attribute, ...]:
    queue = port.queue
    parms = Attribute(
        tc.TCA_TBF_PARMS, tc.tbf_parms(queue.rate_bps, queue.limit_bytes), (Place("rate", tc.TBF_RATE_OFFSET, 4, divisor=8),)
    )
    burst = Attribute(tc.TCA_TBF_BURST, queue.burst_bytes.to_bytes(4, "little"))
    exact = Attribute(tc.TCA_TBF_RATE64, bytes(8), (Place("rate", 0, 8, divisor=8),))
    return (parms, burst, exact) if keys.tbf == "stock" else (parms, burst, exact, Attribute(KEEP, b""))


register(
    Actuator(
        name="rate",
        help="rate of a host's egress, from `agent.floor` to the line rate",
        ports="host",
        qdiscs=("tbf",),
        quantities=(Quantity("rate", "bps", "rate of what leaves the host, in frame bytes"),),
        bounds=_bounds,
        attributes=_attributes,
        equip=lambda graph, keys: graph.limited(keys.burst_bytes, keys.limit_bytes),
    )
)
