# SPDX-License-Identifier: Apache-2.0
"""The limits of this process (ulimit) that a lab would meet, where its programs can only report a failure."""

from __future__ import annotations

import errno
import resource

from dc_gym.base.errors import USED_UP, MachineError

OPEN_FILES = 256
"""The number that a lab needs at most, unless hosts run many programs."""


def check(memory_bytes: int) -> None:
    """Raises MachineError if a lab with so much memory, which is a file, cannot live with this process' limits."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)  # a lab raises its own limit as far as it may
    size, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if 0 <= files < OPEN_FILES:
        raise MachineError(f"a lab needs {OPEN_FILES} open files, and the limit is {files}: {USED_UP[errno.EMFILE]}")
    if 0 <= size < memory_bytes:
        needed = f"a lab's memory is a file of {memory_bytes >> 20} MiB, and the limit is {size:,} B"
        raise MachineError(f"{needed}: {USED_UP[errno.EFBIG]}, or lower lab.memory")
