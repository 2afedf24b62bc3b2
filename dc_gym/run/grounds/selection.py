# SPDX-License-Identifier: Apache-2.0
"""The choice of the ground on which a spec runs."""

from __future__ import annotations

from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.run.grounds.ground import Ground
from dc_gym.spec import Spec


def ground_of(spec: Spec, shell_folder: Path | None = None, *, gdb: bool = False) -> Ground:
    """Returns the ground that the spec asks for.

    `shell_folder` is where a shell's commands work; None: the ground is for a run. With `gdb` a lab waits for that.
    """
    if spec.ground == "host":
        if gdb:
            raise UsageError('--gdb: attaches to the kernel of a lab; give ground = "lab"')
        from dc_gym.run.grounds.host.ground import HostGround

        return HostGround(spec, asks=shell_folder is not None)
    from dc_gym.run.grounds.lab import LabGround

    return LabGround(spec, shell_folder, gdb)
