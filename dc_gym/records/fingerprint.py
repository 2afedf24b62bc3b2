# SPDX-License-Identifier: Apache-2.0
"""The environment fingerprint: what a digest may depend on besides the spec.

Equal fingerprint and equal spec give equal digests.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping

from dc_gym.base.package import PACKAGE
from dc_gym.kernel.build import KernelBuild
from dc_gym.kernel.openvswitch import OpenVSwitch

STAMP = "sources.sha256"
# The code that runs in the lab, and the code that determines its input. Results, plots and the command line are not part of it.
GUEST = (
    "kernel/*.c",
    "kernel/drivers/*.h",
    "daemon/*.[ch]",
    "traffic/tgen/*.[ch]",
    "traffic/*.py",
    "traffic/matrices/*.csv",
    "traffic/matrices/*/*.csv",
    "traffic/flow_sizes/*.txt",
    "spec/*.py",
    "base/amount.py",
    "base/key.py",
    "base/processes.py",
    "base/record_file.py",
    "base/registry.py",
    "base/units.py",
    "base/usercode.py",
    "monitors/*.[ch]",
    "ctrl/agent/*.[ch]",
    "ctrl/actuators/*.py",
    "ctrl/controllers.py",
    "ctrl/nic/*.[ch]",
    "ctrl/nic/*.ld",
    "ctrl/nic/algorithms/*.h",
    "ctrl/nic/algorithm.py",
    "ctrl/nic/algorithms.py",
    "nets/policies/*.npz",
    "topologies/*.py",
    "topologies/realize/*.py",
    "kernel/lab.py",
    "kernel/openvswitch.py",
    "kernel/openvswitch_layout.py",
    "grounds/*.py",
    "grounds/guest/*.py",
    "grounds/host/*.py",
    "run/runner.py",
    "run/nic_log.py",
    "run/read_back.py",
    "run/tgen_log.py",
)


def environment(kernel: KernelBuild, ovs: OpenVSwitch) -> dict[str, str]:
    """Returns by name the identities of everything that runs in the lab."""
    return {
        "kernel": kernel.fingerprint,
        "openvswitch": ovs.fingerprint,
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "programs": programs(),
    }


def programs() -> str:
    """Returns the SHA-256 over the sources of what runs in the lab, by path."""
    digest = hashlib.sha256()
    for pattern in GUEST:
        for path in sorted(PACKAGE.glob(pattern)):
            digest.update(f"{path.relative_to(PACKAGE)}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def stale() -> str | None:
    """Returns a source that has changed since the C programs were built from it, or None. `make programs` writes the list."""
    stamp = PACKAGE / "bin" / STAMP
    if not stamp.is_file():
        return STAMP
    for line in stamp.read_text().splitlines():
        digest, _, name = line.partition("  ")
        path = PACKAGE / name
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            return name
    return None


def fingerprint(parts: Mapping[str, str]) -> str:
    """Returns sixteen hexadecimal digits over the environment."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
