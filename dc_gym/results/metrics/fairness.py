# SPDX-License-Identifier: Apache-2.0
"""Fairness: Jain's index, and the max-min fair allocation on the graph by progressive filling.

Bertsekas and Gallager, "Data Networks", section 6.5.2: all rates grow together. When a link is full, or a flow has its demand,
the flows concerned stop growing. In the resulting allocation, the only one with this property, a flow can gain only at the cost
of a poorer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.units import ETHERNET_BYTES, MTU_BYTES, TCP_HEADERS_BYTES, UDP_HEADERS_BYTES

Floats = npt.NDArray[np.float64]


def tcp_share(mtu_bytes: int = MTU_BYTES) -> float:
    """Returns the payload's share of a full TCP frame, as a cable counts it: without FCS, preamble or gap."""
    return (mtu_bytes - TCP_HEADERS_BYTES) / (mtu_bytes + ETHERNET_BYTES)


def udp_share(mtu_bytes: int = MTU_BYTES) -> float:
    """Returns the same for a full UDP datagram."""
    return (mtu_bytes - UDP_HEADERS_BYTES) / (mtu_bytes + ETHERNET_BYTES)


PAYLOAD_SHARE = tcp_share()
"""That of TCP where a network has no other MTU."""


def jain(rates: Floats) -> float | None:
    """Returns Jain's index (sum x)^2 / (n sum x^2); None without flows, or if nothing was sent."""
    squares = float((rates**2).sum())
    return float(rates.sum()) ** 2 / (len(rates) * squares) if squares > 0 else None


def fairness_of(rates: Floats) -> dict[str, Any]:
    """Returns the entries of summary.json for Jain's index of some flows: the index, null below two, and how many they are."""
    return {"jain": jain(rates) if len(rates) > 1 else None, "jain_flows": len(rates)}


def max_min(paths: Sequence[Sequence[int]], capacity: Floats, demand: Floats | None = None) -> Floats:
    """Returns the max-min fair rate of each flow. `paths` are rows of `capacity`; `demand` is the most that a flow asks for
    (infinite if None)."""
    count = len(paths)
    ports = np.array([port for path in paths for port in path], np.int64)
    flows = np.repeat(np.arange(count), [len(path) for path in paths])
    demands = np.full(count, np.inf) if demand is None else np.asarray(demand, np.float64)
    rates, growing, level = np.zeros(count), np.ones(count, bool), 0.0
    left = np.asarray(capacity, np.float64).copy()
    while growing.any():
        crossing = np.bincount(ports[growing[flows]], minlength=len(left))
        room = np.divide(left, crossing, out=np.full(len(left), np.inf), where=crossing > 0)
        step = min(float(room.min()), float((demands[growing] - level).min()))
        if not np.isfinite(step):
            raise ValueError("a flow without a path and without a demand has no fair share")
        level += step
        left -= step * crossing
        full = (crossing > 0) & (room <= step * (1 + 1e-12))
        stopped = growing & (np.bincount(flows[full[ports]], minlength=count) > 0) | growing & (demands <= level * (1 + 1e-12))
        rates[stopped] = level
        growing &= ~stopped
    return rates


def fairness_against(rates: Floats, shares: Floats) -> dict[str, float | None]:
    """Returns the entries of summary.json that compare the flows' rates with their fair shares."""
    if not len(rates) or not (shares > 0).all():
        return dict.fromkeys(("maxmin_jain", "maxmin_least", "maxmin_total"))
    ratio = rates / shares
    return {
        "maxmin_jain": fairness_of(ratio)["jain"],
        "maxmin_least": float(ratio.min()),
        "maxmin_total": float(rates.sum() / shares.sum()),
    }
