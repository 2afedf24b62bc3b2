# SPDX-License-Identifier: Apache-2.0
"""A way to mark as a plug-in: a slope whose end is a share of the port's buffer."""

from dataclasses import dataclass

from dc_gym.base.key import SHARE_PPM, THRESHOLD, key
from dc_gym.base.units import PPM
from dc_gym.topologies.graph import Marking
from dc_gym.topologies.marking import MarkingContext, register


@dataclass(frozen=True, slots=True, kw_only=True)
class RampKeys:
    """Keys of marking ramp."""

    foot_bytes: int = key(THRESHOLD, needed=True, low=1, help="queue length at which marking starts")
    top_ppm: int = key(SHARE_PPM, 500_000, low=1, high=PPM, help="share of the buffer from which every packet is marked")
    steepness_ppm: int = key(SHARE_PPM, 100_000, low=1, high=PPM, help="marking probability just below the top")


def ramp(port: MarkingContext, keys: RampKeys) -> Marking:
    """Marks as `red-instant` does, between a queue length and a share of the buffer."""
    top_bytes = port.limit_bytes * keys.top_ppm // PPM
    return Marking("red-instant", min_bytes=keys.foot_bytes, max_bytes=top_bytes, probability_ppm=keys.steepness_ppm)


register("ramp", ramp, RampKeys, help="as `red-instant`, from `foot` to the share `top` of the buffer")
