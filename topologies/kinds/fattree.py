# SPDX-License-Identifier: Apache-2.0
"""The k-ary fat-tree of Al-Fares et al., "A Scalable, Commodity Data Center Network Architecture", SIGCOMM 2008, section 3.

k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts. Switches are numbered edge first, pod by pod, then
aggregation, pod by pod, then core: with k = 4 edge s1..s8, aggregation s9..s16, core s17..s20. Edge switch e (from 1) has hosts
h((e-1) k/2 + 1) .. h(e k/2). Ports 1..k/2 of edge and aggregation lead down, the others up; port p of a core leads to pod p.
"""

from __future__ import annotations

from dataclasses import dataclass

from dc_gym.base.errors import TopologyError
from dc_gym.base.key import COUNT, key
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.kinds import register
from dc_gym.topologies.wiring import Wiring

LARGEST_K = 16  # 1024 hosts, 320 switches


@dataclass(frozen=True, slots=True, kw_only=True)
class FatTreeKeys:
    """Keys of kind fattree."""

    k: int = key(COUNT, needed=True, low=2, high=LARGEST_K, help="ports per switch, an even number")


def build(wiring: Wiring, keys: FatTreeKeys) -> Graph:
    """The k-ary fat-tree of Al-Fares et al. (SIGCOMM 2008), with full bisection bandwidth."""
    k = keys.k
    if k % 2:
        raise TopologyError(f"topology.k: value {k} is not an even number in 2..{LARGEST_K}; give the number of ports a switch")
    builder, half = Builder(wiring), k // 2
    edges = [[builder.switch("edge") for _ in range(half)] for _ in range(k)]
    aggs = [[builder.switch("agg") for _ in range(half)] for _ in range(k)]
    cores = [[builder.switch("core") for _ in range(half)] for _ in range(half)]
    for edge in [edge for pod in edges for edge in pod]:
        for _ in range(half):
            builder.connect(builder.host(), edge)
    for pod in range(k):
        _connect_all(builder, edges[pod], aggs[pod])
    for pod in range(k):
        for agg, group in zip(aggs[pod], cores, strict=True):
            _connect_all(builder, [agg], group)
    return builder.graph()


def _connect_all(builder: Builder, lower: list[str], upper: list[str]) -> None:
    for below in lower:
        for above in upper:
            builder.connect(below, above)


register("fattree", build, FatTreeKeys)
