# SPDX-License-Identifier: Apache-2.0
"""One switch, n hosts: h1..hn on s1-eth1..s1-ethn; the last host's link may have a rate of its own."""

from __future__ import annotations

from dc_gym.base.errors import TopologyError
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.links import Wiring


def build(wiring: Wiring, *, hosts: int, bottleneck_rate_bps: int | None = None) -> Graph:
    """One switch with all hosts. The last host's link may have a rate of its own (`bottleneck_rate`)."""
    if hosts < 2:
        raise TopologyError(f"topology.hosts: value {hosts} is below 2; give at least a sender and a receiver")
    builder = Builder(wiring)
    switch = builder.switch("edge")
    for number in range(1, hosts + 1):
        builder.connect(builder.host(), switch, bottleneck_rate_bps if number == hosts else None)
    return builder.graph()
