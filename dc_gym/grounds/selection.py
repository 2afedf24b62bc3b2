# SPDX-License-Identifier: Apache-2.0
"""The choice of the ground on which a spec runs."""

from __future__ import annotations

from dc_gym.grounds.ground import Ground
from dc_gym.spec import Spec


def ground_of(spec: Spec) -> Ground:
    """Returns the ground that the spec asks for."""
    if spec.ground == "host":
        from dc_gym.grounds.host.ground import HostGround

        return HostGround(spec)
    from dc_gym.grounds.lab import LabGround

    return LabGround(spec)
