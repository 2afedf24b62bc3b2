# SPDX-License-Identifier: Apache-2.0
"""The means of the machine's kernel to confine a lab from outside (kernel/confine.c)."""

from __future__ import annotations

import ctypes

SYS_LANDLOCK_CREATE_RULESET, CREATE_RULESET_VERSION = 444, 1
SIGNALS_ABI = 6
"""The first version of Landlock's interface that also keeps signals and abstract sockets in."""


def landlock_abi() -> int:
    """Returns the version of the kernel's Landlock interface, or 0 if there is none: then the lab kernel alone limits writes."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), CREATE_RULESET_VERSION)))
