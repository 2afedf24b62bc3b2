# SPDX-License-Identifier: Apache-2.0
"""A topology as a plug-in: a ring of switches with a host each."""

from itertools import pairwise

from dc_gym.topologies import presets
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.links import Wiring


def build(wiring: Wiring, *, hosts: int) -> Graph:
    """Hosts 1 and n/2 + 1 have two paths."""
    builder = Builder(wiring)
    ring = [builder.switch("edge") for _ in range(hosts)]
    for switch in ring:
        builder.connect(builder.host(), switch)
    for a, b in pairwise([*ring, ring[0]]):
        builder.connect(a, b)
    return builder.graph()


presets.register("ring", build, ("hosts",))
