# SPDX-License-Identifier: Apache-2.0
"""Programs that run as a lab kernel does: as its user, under the shipped lab-launch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dc_gym.base.package import PROGRAMS
from dc_gym.kernel.confinement import landlock_abi

UID, GID = (65534, 65534) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
"""The user and group of labs."""
ABIS = range(landlock_abi() + 1)
"""The versions of Landlock that machines may have, up to this machine's; 0: none."""

CODE = """
def code(doing):
    try:
        doing()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
"""
"""Part of such a program: what the operating system says to a function. It needs `errno`."""


def launched(argv: Sequence[str], writable: Path, within: Sequence[str] = (), abi: int | None = None) -> str:
    """Runs a program as lab-launch runs a lab kernel that may write to `writable`. Returns what it printed.

    `within`: a command that starts lab-launch. `abi`: the newest version of Landlock to use.
    """
    lifeline, held = os.pipe()
    folder = os.open(writable, os.O_PATH)
    newest = [] if abi is None else ["--landlock", str(abi)]
    words = [os.getpid(), lifeline, UID, GID, min(os.sched_getaffinity(0)), folder, *argv]
    launch = [*within, str(PROGRAMS / "lab-launch"), *newest, *map(str, words)]
    try:
        child = subprocess.run(
            launch, stdin=subprocess.DEVNULL, pass_fds=[lifeline, folder], capture_output=True, text=True, cwd="/"
        )
    finally:
        for fd in (lifeline, held, folder):
            os.close(fd)
    assert child.returncode == 0, child.stderr
    return child.stdout
