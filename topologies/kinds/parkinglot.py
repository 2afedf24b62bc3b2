# SPDX-License-Identifier: Apache-2.0
"""The parking lot: switches in a row, one flow over all of its links and one across each of them.

With h hops there are switches s1..s(h+1) and n = h + 1 pairs of hosts. Sender i is h(i) and receiver i is h(i+n), as the workload
`pairs` joins them. Pair 1 runs the whole length, from s1 to s(h+1). Pair i+1 crosses link i alone, from s(i) to s(i+1).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from dc_gym.base.key import COUNT, key
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.kinds import register
from dc_gym.topologies.links import middle_rate
from dc_gym.topologies.wiring import Wiring

MOST_HOPS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkingLotKeys:
    """Keys of kind parkinglot."""

    hops: int = key(COUNT, needed=True, low=1, high=MOST_HOPS, help="links between switches")
    bottleneck_rate_bps: int | None = middle_rate()


def build(wiring: Wiring, keys: ParkingLotKeys) -> Graph:
    """h + 1 switches in a row and h + 1 pairs of hosts.

    The links between switches may have a rate of their own (`bottleneck_rate`). Under the workload `pairs`, pair 1 crosses all of
    them, and pair i + 1 only link i.
    """
    builder = Builder(wiring)
    row = [builder.switch("edge") for _ in range(keys.hops + 1)]
    for switch in [row[0], *row[:-1], row[-1], *row[1:]]:
        builder.connect(builder.host(), switch)
    for left, right in pairwise(row):
        builder.connect(left, right, keys.bottleneck_rate_bps)
    return builder.graph()


register("parkinglot", build, ParkingLotKeys)
