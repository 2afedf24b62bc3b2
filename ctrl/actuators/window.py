# SPDX-License-Identifier: Apache-2.0
"""Actuators of flows: `cwnd`, `clamp` and `pacing`, set at the sender's socket by tgen, which has it.

`cwnd` is the window of the congestion control `agent`, and `clamp` the largest window of any: socket options of the lab's kernel
(kernel/drivers/lab_tcp.c). `pacing` is SO_MAX_PACING_RATE. The window in force is snd_cwnd, which a recovery may have lowered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dc_gym.base.key import COUNT, key
from dc_gym.ctrl.actuators.actuator import FLOW, Actuator, Bounds, Quantity, register
from dc_gym.topologies.graph import Graph, Port
from dc_gym.topologies.paths import base_rtt_ns

INITIAL_PACKETS = 10
"""The kernel's initial window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowKeys:
    """Keys of the actuators `cwnd` and `clamp`."""

    least_window: int = key(COUNT, 1, low=1, high=1 << 20, help="smallest window that an agent sets, packets")
    largest_window: int | None = key(
        COUNT,
        low=1,
        high=1 << 20,
        otherwise="twice what the fastest host's line carries in a base RTT and the largest switch buffer holds",
        help="largest window that an agent sets, packets",
    )


def _fastest_bps(graph: Graph) -> int:
    return max(graph.cable_of(port).rate_bps for host in graph.hosts for port in graph.ports_of(host.name))


def _range(graph: Graph, keys: WindowKeys) -> tuple[int, int]:
    held_bytes = _fastest_bps(graph) * base_rtt_ns(graph) // (8 * 10**9)
    held_bytes += max(port.queue.limit_bytes for port in graph.switch_ports())
    high = keys.largest_window or max(INITIAL_PACKETS, -(-2 * held_bytes // graph.frame_bytes))
    return min(keys.least_window, high), high


def _cwnd(graph: Graph, port: Port, keys: WindowKeys) -> tuple[Bounds]:
    low, high = _range(graph, keys)
    return (Bounds(low, high, min(max(low, INITIAL_PACKETS), high)),)


def _clamp(graph: Graph, port: Port, keys: WindowKeys) -> tuple[Bounds]:
    low, high = _range(graph, keys)
    return (Bounds(low, high, high),)


def _pacing(graph: Graph, port: Port, keys: Any) -> tuple[Bounds]:
    line_bps = _fastest_bps(graph)
    return (Bounds(min(keys.floor_bps, line_bps), line_bps, line_bps),)


COST = "a system call for each flow whose value changes"
register(
    Actuator(
        name="cwnd",
        help="congestion window of a flow of TCP `agent`, from `agent.least_window` to `agent.largest_window`",
        ports=FLOW,
        qdiscs=(),
        quantities=(Quantity("window", "packets", "window; snd_cwnd is read back, and 0 without the flow"),),
        bounds=_cwnd,
        grounds=("lab",),
        cost=COST,
        tcp="agent",
        keys=WindowKeys,
    )
)
register(
    Actuator(
        name="clamp",
        help="largest congestion window of a flow of any TCP, from `agent.least_window` to `agent.largest_window`",
        ports=FLOW,
        qdiscs=(),
        quantities=(Quantity("clamp", "packets", "largest window; 0 is read back without the flow"),),
        bounds=_clamp,
        grounds=("lab",),
        cost=COST,
        keys=WindowKeys,
    )
)
register(
    Actuator(
        name="pacing",
        help="pacing rate of a flow of any TCP, from `agent.floor` to the fastest host's line rate",
        ports=FLOW,
        qdiscs=(),
        quantities=(Quantity("pacing", "bps", "largest payload rate; 0 is read back without the flow"),),
        bounds=_pacing,
        grounds=("lab",),
        cost=COST,
    )
)
