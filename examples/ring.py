# SPDX-License-Identifier: Apache-2.0
"""A topology as a plug-in: a ring of switches with a host each."""

from dataclasses import dataclass
from itertools import pairwise

from dc_gym.base.key import COUNT, RATE, key
from dc_gym.topologies.builder import Builder
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.kinds import register
from dc_gym.topologies.wiring import Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class RingKeys:
    """Keys of kind ring."""

    size: int = key(COUNT, needed=True, low=3, high=64, help="switches in the ring")
    ring_rate_bps: int | None = key(RATE, low=1, otherwise="`rate`", help="rate of the links between switches")
    chord: int | None = key(COUNT, low=2, otherwise="none", help="each switch is also joined to the one that many after it")


def build(wiring: Wiring, keys: RingKeys) -> Graph:
    """A ring of `size` switches with a host each: hosts 1 and n/2 + 1 have two paths."""
    builder = Builder(wiring)
    ring = [builder.switch("edge") for _ in range(keys.size)]
    for switch in ring:
        builder.connect(builder.host(), switch)
    for a, b in pairwise([*ring, ring[0]]):
        builder.connect(a, b, keys.ring_rate_bps)
    for a, b in zip(ring, ring[keys.chord :] if keys.chord else [], strict=False):
        builder.connect(a, b, keys.ring_rate_bps)
    return builder.graph()


register("ring", build, RingKeys)
