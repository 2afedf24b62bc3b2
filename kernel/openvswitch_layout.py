# SPDX-License-Identifier: Apache-2.0
"""The layout of the folder with Open vSwitch's programs (openvswitch.py makes it), and how they are started from there."""

from __future__ import annotations

from pathlib import Path

SCHEMA = "share/vswitch.ovsschema"
LOADER = "lib/ld-linux-x86-64.so.2"


def argv(folder: Path, program: str) -> list[str]:
    """Returns the command that starts `program` of the folder with the folder's own dynamic loader and libraries only."""
    return [str(folder / LOADER), "--inhibit-cache", "--library-path", str(folder / "lib"), str(folder / "libexec" / program)]
