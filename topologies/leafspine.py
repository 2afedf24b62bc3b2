# SPDX-License-Identifier: Apache-2.0
"""Leaf-spine: every leaf is joined to every spine by the same number of parallel links, hosts hang below the leaves.

Leaves are s1..sL, and the spines are the switches after them. With one NIC for each host, leaf l (from 1) has hosts h((l-1) n +
1)..h(l n). With N NICs for each host, each group of N leaves shares its hosts: NIC P of each host goes to leaf P of its group
(ACC, SIGCOMM 2021, testbed) and belongs to plane P. A leaf's first ports lead to its hosts, the others to the spines, spine by
spine.
"""

from __future__ import annotations

from dc_gym.base.errors import TopologyError
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.links import Wiring


def build(
    wiring: Wiring,
    *,
    leaves: int,
    hosts_per_leaf: int,
    spines: int,
    uplinks: int | None = None,
    uplink_rate_bps: int | None = None,
    nics: int | None = None,
) -> Graph:
    """Every leaf is joined to every spine by `uplinks` parallel links.

    With `nics` = N each group of N leaves shares its hosts.
    """
    group = nics or 1
    if leaves % group:
        raise TopologyError(f"topology.leaves: value {leaves} is not a multiple of topology.nics {group}; give one that is")
    builder = Builder(wiring)
    below = [builder.switch("edge") for _ in range(leaves)]
    above = [builder.switch("core") for _ in range(spines)]
    for first in range(0, leaves, group):
        for host in [builder.host() for _ in range(hosts_per_leaf)]:
            for leaf in below[first : first + group]:
                builder.connect(host, leaf)
    for leaf in below:
        for spine in above:
            for _ in range(uplinks or 1):
                builder.connect(leaf, spine, uplink_rate_bps)
    return builder.graph()
