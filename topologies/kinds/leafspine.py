# SPDX-License-Identifier: Apache-2.0
"""Leaf-spine: every leaf is joined to every spine by the same number of parallel links, hosts hang below the leaves.

Leaves are s1..sL, and the spines are the switches after them. With one NIC for each host, leaf l (from 1) has hosts h((l-1) n +
1)..h(l n). With N NICs for each host, each group of N leaves shares its hosts: NIC P of each host goes to leaf P of its group
(ACC, SIGCOMM 2021, testbed) and belongs to plane P. A leaf's first ports lead to its hosts, the others to the spines, spine by
spine.
"""

from __future__ import annotations

from dataclasses import dataclass

from dc_gym.base.errors import TopologyError
from dc_gym.base.key import COUNT, key
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.kinds import register
from dc_gym.topologies.links import link_rate
from dc_gym.topologies.wiring import Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSpineKeys:
    """Keys of kind leafspine."""

    leaves: int = key(COUNT, needed=True, low=1, help="leaves (ToRs)")
    hosts_per_leaf: int = key(COUNT, needed=True, low=1, help="ports of a leaf that lead to hosts")
    spines: int = key(COUNT, needed=True, low=1, help="spines")
    uplinks: int = key(COUNT, 1, low=1, help="parallel links between each leaf and spine")
    uplink_rate_bps: int | None = link_rate("rate of a link between leaf and spine", "`rate`")
    nics: int = key(
        COUNT,
        1,
        low=1,
        help="ports per host, each to another leaf and in a [plane](topologies.md#planes) of its own",
    )


def build(wiring: Wiring, keys: LeafSpineKeys) -> Graph:
    """Every leaf is joined to every spine by `uplinks` parallel links.

    With `nics` = N each group of N leaves shares its hosts.
    """
    leaves, group = keys.leaves, keys.nics
    if leaves % group:
        raise TopologyError(f"topology.leaves: value {leaves} is not a multiple of topology.nics {group}; give one that is")
    builder = Builder(wiring)
    below = [builder.switch("edge") for _ in range(leaves)]
    above = [builder.switch("core") for _ in range(keys.spines)]
    for first in range(0, leaves, group):
        for host in [builder.host() for _ in range(keys.hosts_per_leaf)]:
            for leaf in below[first : first + group]:
                builder.connect(host, leaf)
    for leaf in below:
        for spine in above:
            for _ in range(keys.uplinks):
                builder.connect(leaf, spine, keys.uplink_rate_bps)
    return builder.graph()


register("leafspine", build, LeafSpineKeys)
