# SPDX-License-Identifier: Apache-2.0
"""The choice of the ground on which a spec runs."""

from __future__ import annotations

from dc_gym.grounds.ground import Ground
from dc_gym.spec import Spec


def ground_of(spec: Spec, asks: bool = False) -> Ground:
    """Returns the ground that the spec asks for.

    `asks` is True if the process in the ground asks for each step, as that of a shell does. An agent's steps come by the clock.
    """
    if spec.ground == "host":
        from dc_gym.grounds.host.ground import HostGround

        return HostGround(spec, asks)
    from dc_gym.grounds.lab import LabGround

    return LabGround(spec)
