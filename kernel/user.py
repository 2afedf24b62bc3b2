# SPDX-License-Identifier: Apache-2.0
"""The user as whom a lab runs."""

from __future__ import annotations

import os

UNPRIVILEGED = 65534  # nobody, if root was not reached by sudo


def lab_user() -> tuple[int, int]:
    """Returns uid and gid of a lab: the caller's or, for root, those of the user behind sudo, otherwise those of nobody."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    uid = int(os.environ.get("SUDO_UID", "0") or 0)
    gid = int(os.environ.get("SUDO_GID", "0") or 0)
    return (uid, gid) if uid and gid else (UNPRIVILEGED, UNPRIVILEGED)
