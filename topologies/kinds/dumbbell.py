# SPDX-License-Identifier: Apache-2.0
"""Two switches with n hosts each, and one link between them (Iroko thesis, figure 5.1).

Left: h1..hn on s1-eth1..; right: h(n+1)..h(2n) on s2-eth1..; the middle link is the last port of either switch.
"""

from __future__ import annotations

from dataclasses import dataclass

from dc_gym.base.key import COUNT, key
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.kinds import register
from dc_gym.topologies.links import middle_rate
from dc_gym.topologies.wiring import Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class DumbbellKeys:
    """Keys of kind dumbbell."""

    pairs: int = key(COUNT, needed=True, low=1, help="hosts on each side")
    bottleneck_rate_bps: int | None = middle_rate()


def build(wiring: Wiring, keys: DumbbellKeys) -> Graph:
    """Two switches with `pairs` hosts each, and one link between them, which may have a rate of its own (`bottleneck_rate`)."""
    builder = Builder(wiring)
    left, right = builder.switch("edge"), builder.switch("edge")
    for switch in (left, right):
        for _ in range(keys.pairs):
            builder.connect(builder.host(), switch)
    builder.connect(left, right, keys.bottleneck_rate_bps)
    return builder.graph()


register("dumbbell", build, DumbbellKeys)
