# SPDX-License-Identifier: Apache-2.0
"""The environment fingerprint: what a digest may depend on besides the spec. Equal fingerprint and equal spec, equal digest."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path

from dc_gym.kernel.build import KernelBuild
from dc_gym.kernel.openvswitch import OpenVSwitch

PACKAGE = Path(__file__).resolve().parent
# What runs in the lab, and what decides its input. Results, plots and the command line are not among it.
GUEST = (
    *("kernel/*.c", "kernel/drivers/*.h", "traffic/*.c", "traffic/*.h", "traffic/*.py", "traffic/matrices/*.csv"),
    *("monitors/*.c", "monitors/*.h", "topologies/*.py", "ground.py"),
)


def environment(kernel: KernelBuild, ovs: OpenVSwitch) -> dict[str, str]:
    """By name: identities of all that runs in the lab."""
    return {
        "kernel": kernel.fingerprint,
        "openvswitch": ovs.fingerprint,
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "programs": programs(),
    }


def programs() -> str:
    """SHA-256 over the sources of what runs in the lab, by path."""
    digest = hashlib.sha256()
    for pattern in GUEST:
        for path in sorted(PACKAGE.glob(pattern)):
            digest.update(f"{path.relative_to(PACKAGE)}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def fingerprint(parts: Mapping[str, str]) -> str:
    """Sixteen hexadecimal digits over the environment."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
