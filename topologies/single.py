# SPDX-License-Identifier: Apache-2.0
"""One switch, n hosts: h1..hn on s1-eth1..s1-ethn."""

from __future__ import annotations

from dc_gym.errors import TopologyError
from dc_gym.topologies.graph import Builder, Graph, Wiring


def build(wiring: Wiring, *, hosts: int) -> Graph:
    """All hosts on one switch; every link has the same rate and delay."""
    if hosts < 2:
        raise TopologyError(f"topology.hosts: value {hosts} is below 2; give at least a sender and a receiver")
    builder = Builder(wiring)
    switch = builder.switch("edge")
    for _ in range(hosts):
        builder.connect(builder.host(), switch)
    return builder.graph()
