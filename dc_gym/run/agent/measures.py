# SPDX-License-Identifier: Apache-2.0
"""Performance measures of a frame: delays end to end and in switches, delivered payload relative to the fair share, and fairness.

The delay of a flow is measured end to end. For TCP it is the srtt minus the base round trip of the flow's path, whichever queue
the time was spent in, the host's own included. srtt is Linux' moving average with a gain of 1/8, so it lags by some round trips.
For UDP, and for TCP before its first sample, it is the bytes queued on the path over the rates that drain the queues; the host's
queue drains at the enforced rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dc_gym.results.metrics.fairness import max_min
from dc_gym.run.agent.frame import CARRIED, Bools, Floats, FlowInfo, Frame
from dc_gym.run.agent.scene import Scene

MOST_KNOWN = 4096
"""Maximum number of cached allocations. Flows come and go, and mostly the same sets recur."""


def gini(shares: Floats) -> float:
    """Returns Gini's coefficient: 0 if all shares are equal, towards 1 if one has everything, 0 for no shares or a total of 0."""
    ordered, count = np.sort(shares), len(shares)
    total = float(ordered.sum())
    return float((2 * np.arange(1, count + 1) - count - 1) @ ordered) / (count * total) if total > 0 else 0.0


def carried_bytes(frame: Frame, scene: Scene) -> Floats:
    """Returns as [rows] the line's capacity over the step, at least one frame. Counters are normalised by it."""
    return frame.once(CARRIED, lambda: np.maximum(scene.rate_bps * (frame.elapsed_ns / 8e9), scene.frame_bytes))


def occupancy(frame: Frame, scene: Scene) -> Floats:
    """Returns the bytes queued over the buffer, as [rows]."""
    return frame.once("occupancy", lambda: frame.column("backlog_bytes") / scene.buffer_bytes)


def port_delays_ns(frame: Frame, scene: Scene) -> Floats:
    """Returns as [rows] the time that the queued bytes take to leave; at a host's egress, at its enforced rate."""
    backlog = frame.column("backlog_bytes")
    rate_bps = np.empty(backlog.shape)
    rate_bps[...] = scene.rate_bps
    rate_bps[..., scene.host_row] = np.minimum(np.maximum(frame.enforced_bps, scene.floor_bps), scene.line_bps)
    delays: Floats = backlog * 8e9 / rate_bps
    return delays


def queue_delays_ns(frame: Frame, scene: Scene) -> tuple[Floats, Floats]:
    """Returns two arrays [flows]: the delay in the queue of the flow's host, and the delay in the queues of the switches on its
    path."""

    def work() -> tuple[Floats, Floats]:
        info, delays_ns = frame.info, port_delays_ns(frame, scene)
        return delays_ns[..., info.first_row], _by_flow(delays_ns[..., info.switch_rows], info)

    return frame.once("queue delays", work)


def _by_flow(values: Floats, info: FlowInfo) -> Floats:
    """Returns as [flows] the sum over the switch ports of each flow's path. `values` holds one value for each entry of
    FlowInfo.switch_rows."""
    if values.ndim == 1:
        return np.bincount(info.switch_flows, values, len(info)).astype(np.float64, copy=False)
    frames, flows = len(values), len(info)
    places = np.arange(frames)[:, np.newaxis] * flows + info.switch_flows
    return np.bincount(places.ravel(), values.ravel(), frames * flows).reshape(frames, flows).astype(np.float64, copy=False)


def queueing_delays_ns(frame: Frame, scene: Scene) -> Floats:
    """Returns the delays end to end, as [flows]. The values of flows that are not running are meaningless."""

    def work() -> Floats:
        srtt_ns = frame.flows["srtt_us"] * 1000.0
        by_srtt: Floats = np.maximum(srtt_ns - frame.info.base_rtt_ns, 0)
        sampled = srtt_ns > 0
        if np.count_nonzero(sampled) == sampled.size:  # usual for TCP; the queues are then not needed
            return by_srtt
        at_host, in_switches = queue_delays_ns(frame, scene)
        return np.where(sampled, by_srtt, at_host + in_switches)

    return frame.once("queueing delays", work)


def mean_over(values: Floats, chosen: Bools) -> Floats:
    """Returns the mean over the chosen flows; 0 if none is chosen."""
    return np.add.reduce(values * chosen, -1) / at_least_one(chosen)  # type: ignore[no-any-return]


def at_least_one(chosen: Bools) -> Any:
    """Returns the number of chosen flows, but at least 1. For a single frame numpy counts six times as fast without an axis."""
    return max(np.count_nonzero(chosen), 1) if chosen.ndim == 1 else np.maximum(np.count_nonzero(chosen, -1), 1)


def fair_rates_bps(info: FlowInfo, scene: Scene, flows: Bools) -> Floats:
    """Returns as [flows] the max-min fair frame rates of the chosen flows, by line rates and the flows' demands; 0 for all other
    flows."""
    key = flows.tobytes()
    if key not in info.known:
        if len(info.known) >= MOST_KNOWN:
            info.known.clear()
        rates, rows = np.zeros(len(info)), np.flatnonzero(flows)
        paths = [info.rows[row].tolist() for row in rows.tolist()]
        if paths:
            rates[rows] = max_min(paths, scene.rate_bps, info.demand_bps[rows] / info.payload_share[rows])
        info.known[key] = rates
    return info.known[key]


def fair_goodput_bps(frame: Frame, scene: Scene) -> float:
    """Returns the payload rate that all flows at work in the step would get together if each had its fair share."""
    return fair_total_bps(frame.info, scene, frame.at_work)


def fair_total_bps(info: FlowInfo, scene: Scene, flows: Bools) -> float:
    """Returns the payload rate that the chosen flows would get together if each had its fair share."""
    return float(fair_rates_bps(info, scene, flows) @ info.payload_share)


def jain_of_goodput(frame: Frame) -> Floats:
    """Returns Jain's index of the payload that the flows at work received in the step; 0 if nothing was delivered."""
    received = frame.flow_change("received_bytes")
    squares, total = (received**2).sum(-1), received.sum(-1)
    return total**2 / np.maximum(np.count_nonzero(frame.at_work, -1) * squares, 1)  # type: ignore[no-any-return]


def completion_ns(frame: Frame) -> Floats:
    """Returns the completion times of the flows that ended in the step."""
    rows = np.flatnonzero(frame.ended)
    took_ns: Floats = (frame.flows["end_ns"][rows] - frame.flows["start_ns"][rows]).astype(np.float64)
    return took_ns


def slowdowns(frame: Frame) -> Floats:
    """Returns completion time over ideal for the flows that ended in the step and have an ideal."""
    ratios: Floats = completion_ns(frame) / frame.info.ideal_ns[frame.ended]
    return ratios[np.isfinite(ratios)]
