# SPDX-License-Identifier: Apache-2.0
"""One switch, n hosts: h1..hn on s1-eth1..s1-ethn; the last host's link may have a rate of its own."""

from __future__ import annotations

from dataclasses import dataclass

from dc_gym.base.key import COUNT, key
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.kinds import register
from dc_gym.topologies.links import link_rate
from dc_gym.topologies.wiring import Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleKeys:
    """Keys of kind single."""

    hosts: int = key(COUNT, needed=True, low=2, help="hosts on the switch")
    bottleneck_rate_bps: int | None = link_rate("rate of the last host's link", "`rate`")


def build(wiring: Wiring, keys: SingleKeys) -> Graph:
    """One switch with all hosts. The last host's link may have a rate of its own (`bottleneck_rate`)."""
    builder = Builder(wiring)
    switch = builder.switch("edge")
    for number in range(1, keys.hosts + 1):
        builder.connect(builder.host(), switch, keys.bottleneck_rate_bps if number == keys.hosts else None)
    return builder.graph()


register("single", build, SingleKeys)
