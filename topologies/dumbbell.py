# SPDX-License-Identifier: Apache-2.0
"""Two switches with n hosts each, and one link between them (Iroko thesis, figure 5.1).

Left: h1..hn on s1-eth1..; right: h(n+1)..h(2n) on s2-eth1..; the middle link is the last port of either switch.
"""

from __future__ import annotations

from dc_gym.base.errors import TopologyError
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.links import Wiring


def build(wiring: Wiring, *, pairs: int, bottleneck_rate_bps: int | None = None) -> Graph:
    """Two switches with `pairs` hosts each, and one link between them, which may have a rate of its own (`bottleneck_rate`)."""
    if pairs < 1:
        raise TopologyError(f"topology.pairs: value {pairs} is below 1; give at least one host a side")
    builder = Builder(wiring)
    left, right = builder.switch("edge"), builder.switch("edge")
    for switch in (left, right):
        for _ in range(pairs):
            builder.connect(builder.host(), switch)
    builder.connect(left, right, bottleneck_rate_bps)
    return builder.graph()
